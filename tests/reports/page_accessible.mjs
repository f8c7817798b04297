// page_accessible.mjs BROWSER PAGE...: opens PAGE.html of this folder, and says what is wrong.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [executablePath, ...pages] = process.argv.slice(2);
const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");
const args = ["--no-sandbox", "--disable-gpu"];
const browser = await puppeteer.launch({ executablePath, args, protocolTimeout: 240000 });
const drawn = () => new Promise((done) => setTimeout(done, 600));

// What is wrong for people who see little or use keys alone, as bad as serious or critical.
async function violations(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((closed) => (closed.open = true)));
  await drawn();
  await page.evaluate(axe);
  const { violations: found } = await page.evaluate("axe.run()");
  return found
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`);
}

// Charts follow the width of the window, and nothing scrolls the page sideways.
async function layout(page, width) {
  await page.setViewport({ width, height: 900 });
  const follow = () =>
    [...document.querySelectorAll(".chart svg")].every((svg) => Number(svg.getAttribute("width")) === svg.parentElement.clientWidth);
  await page.waitForFunction(follow, { polling: 100, timeout: 20000 }).catch(() => assert.fail(`charts do not follow to ${width}`));
  const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok(wide <= width, `the page is ${wide} wide in ${width}`);
}

async function check(name, scheme) {
  const page = await browser.newPage();
  const said = [];
  const url = pathToFileURL(`${name}.html`).href;
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(error.message));
  page.on("request", (request) => request.url() === url || said.push(`asks for ${request.url()}`));
  await page.setViewport({ width: 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setBypassCSP(true); // axe is none of the page's scripts
  await page.goto(url);
  await drawn();
  const [paper, ink] = await page.evaluate(() =>
    ["backgroundColor", "color"].map((key) => Number(getComputedStyle(document.body)[key].match(/\d+/)[0])),
  );
  assert.equal(paper < ink, scheme === "dark", `${scheme}: ${paper}, ${ink}`);
  assert.deepEqual(await violations(page), []);
  for (const width of [360, 700, 1280]) await layout(page, width);
  const pdf = Buffer.from(await page.pdf({ format: "A4", preferCSSPageSize: true })).toString("latin1");
  assert.ok(pdf.startsWith("%PDF") && pdf.length > 10000, "not printed");
  assert.deepEqual(said, []);
  await page.close();
}

for (const name of pages)
  for (const scheme of ["light", "dark"])
    await check(name, scheme).catch((error) => {
      console.error(`${name}, ${scheme}: ${error.message}`);
      process.exitCode = 1;
    });
await browser.close();
