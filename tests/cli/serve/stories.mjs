// stories.mjs PROGRAM BROWSER FOLDER [PICTURES]: what people do with `llmsim serve`, from its first page on.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer from "puppeteer-core";

const [program, browserPath, folder, pictures] = process.argv.slice(2);
const work = resolve(folder);
const env = { ...process.env, NO_COLOR: "1", COLUMNS: "100" };
const command = (...words) => execFileSync(program, words, { cwd: work, env, maxBuffer: 2 ** 28 }).toString();

const server = spawn(program, ["serve", "--port", "0"], { cwd: work, env: { ...env, TMPDIR: work }, stdio: ["ignore", "pipe", "inherit"] });
const banner = await new Promise((tell) => server.stdout.once("data", (data) => tell(data.toString())));
const base = banner.match(/http:\/\/\S+/)[0];
const browser = await puppeteer.launch({
  executablePath: browserPath,
  args: ["--no-sandbox", "--disable-gpu"],
  userDataDir: resolve(work, "../profile"),
});
const page = await browser.newPage();
const complaints = [];
page.on("console", (message) => ["error", "warn"].includes(message.type()) && complaints.push(message.text()));
page.on("pageerror", (error) => complaints.push(error.message));
page.setDefaultTimeout(120000);
await page.setViewport({ width: 1200, height: 900 });

const shows = (id) => page.waitForSelector(`#${id}:not([hidden])`, { visible: true });
const text = (id) => page.$eval(`#${id}`, (element) => element.textContent);
const fill = async (fields) => {
  for (const [id, value] of Object.entries(fields)) await page.$eval(`#${id}`, (element, v) => (element.value = v), value);
};
const choose = (kind) => page.click(`.kinds label:has([value=${kind}])`);
const upload = async (id, ...files) => (await page.$(`#${id}`)).uploadFile(...files.map((name) => join(work, name)));
const picture = async (name) => pictures && (await page.screenshot({ path: join(pictures, `${name}.png`) }));
const start = () => page.goto(base, { waitUntil: "networkidle0" });
const answered = () => page.waitForFunction(() => document.getElementById("cancel").hidden && !document.getElementById("answer").hidden);

// The frame of the answer, drawn.
async function answerPage() {
  await shows("page");
  for (let i = 0; i < 200; ++i) {
    const frame = page.frames().find((one) => one.url().includes("/answers/"));
    if (frame && (await frame.evaluate(() => document.querySelector("h1, h2, table")?.textContent).catch(() => null))) return frame;
    await sleep(50);
  }
  throw new Error("the page of the answer does not draw itself");
}
const childrenOf = (id) =>
  readdirSync(`/proc/${id}/task`).flatMap((task) => {
    const path = `/proc/${id}/task/${task}/children`;
    return existsSync(path) ? readFileSync(path, "utf8").trim().split(" ").filter(Boolean) : [];
  });

// 0. The first page: names, no serious fault of access, and no scrolling sideways on a phone.
await start();
const suggested = await page.$$eval("#models option", (options) => options.map((option) => option.value));
assert.ok(suggested.includes("llama3-8b") || suggested.includes("llama-3-8b"), "the catalogue's names are suggested");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
for (const scheme of ["light", "dark"]) {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  for (const width of [360, 1200]) {
    await page.setViewport({ width, height: 900 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run(document));
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
    await picture(`start-${scheme}-${width}`);
  }
}
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);

// 1. A model is planned, and its verdict is that of the command line.
await fill({ model: "llama3-8b", gpus: "16", options: "--recompute none --micro-batch 1" });
await page.click("#ask");
let frame = await answerPage();
const question = ["--model", "llama3-8b", "--gpus", "16", "--recompute", "none", "--micro-batch", "1"];
const best = JSON.parse(command("plan", ...question, "--format", "json")).plans[0];
const verdict = await frame.$eval("#verdict h2", (element) => element.textContent);
assert.ok(verdict.includes(`${(100 * best.mfu).toFixed(1)} % MFU`), verdict);
assert.match(await text("command"), /^llmsim plan --model=llama3-8b --gpus=16 --recompute=none --micro-batch=1$/);
await answered();
await picture("plan");
assert.match(page.url(), /\?kind=plan&model=llama3-8b&gpus=16&options=/);
await page.setViewport({ width: 360, height: 900 });
assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
await picture("plan-360");
await page.setViewport({ width: 1200, height: 900 });

// Its address asks it again, and the page can be shared.
await page.goto(page.url(), { waitUntil: "load" });
frame = await answerPage();
assert.equal(await frame.$eval("#verdict h2", (element) => element.textContent), verdict);
await answered();
const shared = await fetch(await page.$eval("#share", (link) => link.href));
assert.match(shared.headers.get("content-disposition"), /attachment; filename="plan.html"/);
assert.ok(!(await shared.text()).includes("postMessage({height"));

// 5. Its launch files.
await page.select("#to", "megatron");
await page.click("#launch");
await shows("files");
assert.deepEqual(await page.$$eval("#files summary", (all) => all.map((one) => one.textContent)), ["megatron.sh"]);
const archive = await fetch(await page.$eval("#archive", (link) => link.href));
writeFileSync(join(work, "launch.tar.gz"), Buffer.from(await archive.arrayBuffer()));
execFileSync("tar", ["xzf", "launch.tar.gz"], { cwd: work });
assert.match(readFileSync(join(work, "megatron.sh"), "utf8"), /--tensor-model-parallel-size|--num-layers 32/);
await picture("launch");

// 2. Other devices, and both side by side.
await page.click("#save");
await fill({ gpus: "32" });
await page.click("#ask");
await page.waitForFunction(() => document.getElementById("title").textContent.includes("32"));
await answered();
await page.click("#save");
assert.equal((await page.$$("#questions li")).length, 2);
await page.click("#compare");
await page.waitForFunction(() => document.getElementById("title").textContent === "Compared");
await answered();
const compared = await text("text");
assert.match(compared, /llama3-8b on 16 h100/);
assert.match(compared, /llama3-8b on 32 h100/);
assert.ok(compared.includes(`${(100 * best.mfu).toFixed(1)} % MFU`), compared);
await answerPage();
await picture("compare");

// 3. A launch file is predicted.
await start();
await choose("predict");
await upload("from", "megatron.sh");
await page.click("#ask");
await answerPage();
await answered();
assert.equal(await text("text"), command("predict", "--from", "megatron.sh"));
await picture("predict");

// 4. A log, and a profile of the same run.
writeFileSync(join(work, "train.csv"), "step_time_s\n" + "30.1\n".repeat(8));
writeFileSync(join(work, "run.json"), command("predict", "--from", "megatron.sh", "--format", "json"));
await start();
await choose("diagnose");
await upload("from", "megatron.sh");
await upload("log", "train.csv");
await page.click("#ask");
await shows("screen");
await answered();
assert.equal(await text("text"), command("diagnose", "run.json", "--log", "train.csv").replaceAll("run.json", "llmsim-run.json"));
await picture("diagnose");
command("trace", "run.json", "-o", "trace.json");
await start();
await choose("diagnose");
await upload("from", "run.json");
await upload("profile", "trace.json");
await page.click("#ask");
await shows("screen");
await answered();
assert.equal(await text("text"), command("diagnose", "run.json", "--profile", "trace.json"));

// What is wrong is said as the program says it, and nothing of it is read as a page.
await start();
await fill({ model: "<img src=x onerror=alert(1)>", gpus: "8" });
await page.click("#ask");
await shows("error");
await answered();
assert.match(await text("error"), /<img src=x onerror=alert\(1\)>: neither a known model/);
assert.equal((await page.$$("#answer img")).length, 0);
await picture("error");

// 6. A long plan tells how far it is, and is cancelled.
await start();
await fill({ model: "deepseek-v3", gpus: "2048", options: "--sensitivity --pareto --allow zb-h1,fp8" });
await page.click("#ask");
await shows("cancel");
const told = await page.waitForFunction(() => /group \d+ of \d+/.test(document.getElementById("progress").textContent), { timeout: 30000 }).then(() => true, () => false);
await picture("progress");
await page.click("#cancel");
await answered();
assert.equal(await text("error"), "cancelled");
for (let i = 0; i < 100 && childrenOf(server.pid).length > 0; ++i) await sleep(50);
assert.deepEqual(childrenOf(server.pid), []);
assert.ok(told, "a long plan tells how far it is");

assert.deepEqual(complaints, []);
assert.deepEqual(readdirSync(work).filter((name) => name.startsWith("llmsim-question")), []);
await browser.close();
const ended = new Promise((tell) => server.once("exit", (status) => tell(status)));
server.kill("SIGINT");
assert.equal(await ended, 0);
console.log("five stories, a cancelled plan, no complaint of the browser");
