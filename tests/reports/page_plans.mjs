// page_plans.mjs PROGRAM PAGE: asks the planner in the page and the program, and compares: all words
// and counts are the same, and all numbers to 12 digits.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [program, file] = process.argv.slice(2);
const page = readFileSync(file, "utf8");
const element = (id) => page.match(new RegExp(`<script id="${id}"[^>]*>([^<]*)</script>`))[1];
const { rows, arguments: asked } = JSON.parse(element("question"));
const script = page.slice(page.indexOf("async function loadedPlanner"));
const planner = script.slice(0, script.indexOf("\n}\n") + 3);
const loaded = new Function(`${planner}; return loadedPlanner;`)();
const ask = await loaded(element("planner"));

// exp, log and pow of two standard libraries differ in the last bit, and what is summed of them; small
// differences of large numbers in more of their digits.
const [kAlike, kNothing] = [1e-12, 1e-13];

// The first place where two answers differ, or nothing.
function difference(one, other, place = "answer") {
  if (typeof one === "number" && typeof other === "number") {
    const least = kAlike * Math.max(Math.abs(one), Math.abs(other));
    const same = Math.abs(one - other) <= Math.max(kNothing, least);
    return same ? "" : `${place}: in the page ${one}, of the program ${other}`;
  }
  if (typeof one !== "object" || typeof other !== "object" || !one || !other)
    return one === other ? "" : `${place}: in the page ${one}, of the program ${other}`;
  // What takes no time but for rounding is in one timeline and not in the other.
  if (place.endsWith(".events"))
    [one, other] = [one, other].map((events) => events.filter((event) => event[3] > kNothing));
  const keys = Object.keys(one);
  if (keys.join() !== Object.keys(other).join()) return `${place}: has other keys`;
  for (const key of keys) {
    if (place === "answer" && key === "seconds") continue; // of the search
    const found = difference(one[key], other[key], `${place}.${key}`);
    if (found) return found;
  }
  return "";
}

const questions = [
  asked,
  ["--model=llama3-8b", "--gpus=64", "--global-batch=512", "--seq-len=8192", "--micro-batch=1"],
  ["--model=llama3-8b", "--gpus=64", "--inter-node-bandwidth=6.25", "--tokens=1T", "--top=3"],
  ["--model=mixtral-8x7b", "--gpus=32", "--hardware=mi300x", "--objective=cost"],
  ["--model=llama-70b", "--gpus=64", "--no-flash", "--exclude=sharding=zero3", "--sensitivity"],
  ["--model=llama-70b", "--gpus=1"], // nothing fits
];
const inPage = JSON.stringify(rows);
let differ = 0;
for (const words of questions) {
  const text = ask(inPage, words);
  const { stdout } = spawnSync(program, ["report", ...words, "--no-scaling", "--format=json"], {
    maxBuffer: 2 ** 28,
  });
  const [own, native] = [JSON.parse(text), JSON.parse(String(stdout))];
  const found = difference(own, native);
  const [here, there] = [own, native].map((answer) => `${(1e3 * answer.seconds).toFixed(0)} ms`);
  console.log(`${words.join(" ")}: ${found || "same"}; searched in ${here} in the page, ${there} by the program`);
  if (found) ++differ;
}
const reason = ask(inPage, ["--model=llama3-8b", "--gpus=none"]);
if (!reason.startsWith("--gpus = none")) {
  console.log(`a wrong question is told as: ${reason}`);
  ++differ;
}
process.exit(differ ? 1 : 0);
