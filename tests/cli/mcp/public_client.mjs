// public_client.mjs PROGRAM FOLDER: asks every tool of `llmsim mcp`, started in FOLDER, and asks what is wrong.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [program, folder] = process.argv.slice(2);
const env = { ...process.env, NO_COLOR: "1", COLUMNS: "100" };
const client = new Client({ name: "llmsim tests", version: "1" });
await client.connect(new StdioClientTransport({ command: program, args: ["mcp"], cwd: folder, env, stderr: "inherit" }));
const call = (name, args) => client.callTool({ name, arguments: args });
const command = (...words) => execFileSync(program, words, { cwd: folder, env, maxBuffer: 2 ** 28 }).toString();

assert.equal(client.getServerVersion().name, "llmsim");
assert.match(client.getInstructions(), /predicts LLM training/);
await client.ping();
const { tools } = await client.listTools();
assert.deepEqual(tools.map((tool) => tool.name).sort(), ["compare", "diagnose", "explain", "hardware", "models", "plan", "predict"]);

// Each tool says what its command says, in text and in numbers, but for the seconds of a search.
const run = { model: { name: "gpt2" }, hardware: { accelerator: "h100", num_devices: 8 }, training: { global_batch: 64, dp: 8 } };
writeFileSync(join(folder, "run.json"), JSON.stringify(run));
writeFileSync(join(folder, "train.csv"), "step_time_s\n" + "0.20013\n".repeat(8));
const untimed = (text) => text.replace(/strategies in [^:]*:/, "strategies:");
const questions = [
  ["plan", { model: "llama3-8b", gpus: 16, top: 3, tp: [1, 2] }, "plan --model llama3-8b --gpus 16 --top 3 --tp 1,2"],
  ["predict", { model: "gpt2", gpus: 8, flash: false }, "predict --model gpt2 --gpus 8 --no-flash"],
  ["predict", { run }, "predict run.json"],
  ["predict", { run_file: "run.json" }, "predict run.json"],
  ["predict", { model: "gpt2", gpus: 8, options: ["--tokens", "1T"] }, "predict --model gpt2 --gpus 8 --tokens 1T"],
  ["compare", { table: "gpt2-h100" }, "compare gpt2-h100"],
  ["compare", { model: ["gpt2", "gpt2-xl"], tp: [1, 2], gpus: 8 }, "compare --model gpt2,gpt2-xl --tp 1,2 --gpus 8"],
  ...["gemm", "attention", "collective", "memory"].map((what) => [
    "explain",
    { what, model: "llama3-8b", gpus: 8, tp: 8 },
    `predict --explain ${what} --model llama3-8b --gpus 8 --tp 8`,
  ]),
  ["diagnose", { run_file: "run.json", log: "train.csv" }, "diagnose run.json --log train.csv"],
  ["models", { family: "llama" }, "models list --family llama"],
  ["models", { name: "gpt2" }, "models show gpt2"],
  ["hardware", {}, "hardware list"],
  ["hardware", { name: "mi300x" }, "hardware show mi300x"],
];
for (const [tool, args, line] of questions) {
  const { content, structuredContent, isError } = await call(tool, args);
  assert.equal(isError, false, `${line}: ${content[0].text}`);
  const words = line.split(" ");
  assert.equal(untimed(content[0].text), untimed(command(...words)), line);
  const numbers = JSON.parse(command(...words, "--format", "json"));
  const expected = Array.isArray(numbers) ? { rows: numbers } : numbers;
  delete expected.seconds;
  delete structuredContent.seconds;
  assert.deepEqual(structuredContent, expected, line);
}

const two = await call("compare", {
  runs: [
    { label: "bf16", model: "llama3-8b", gpus: 8, sharding: "zero3" },
    { label: "fp8", model: "llama3-8b", gpus: 8, sharding: "zero3", precision: "fp8" },
  ],
});
assert.equal(two.isError, false, two.content[0].text);
assert.deepEqual(two.structuredContent.cells.map((cell) => cell.row), ["bf16", "fp8"]);

// An answer that is no is an answer.
const large = await call("predict", { model: "llama-70b", gpus: 8 });
assert.equal(large.isError, false);
assert.equal(large.structuredContent.feasible, false);

for (const [tool, args, message] of [
  ["predict", { model: "gpt9", gpus: 8 }, /^--model = gpt9: neither a known model/],
  ["predict", { model: "gpt2", micro_bach: 1 }, /did you mean micro_batch\?/],
  ["predict", { run_file: "../run.json" }, /below the working directory/],
  ["predict", { model: "gpt2", gpus: 8, options: ["--output", "x"] }, /write no files/],
  ["plan", { model: "gpt2" }, /--gpus/],
  ["compare", { table: "no-such" }, /a table that ships/],
  ["explain", { model: "gpt2", gpus: 8 }, /what is missing/],
  ["models", { name: "gpt9" }, /neither a known model/],
  ["hardware", { name: "h10" }, /h10/],
]) {
  const { content, isError } = await call(tool, args);
  assert.equal(isError, true, tool);
  assert.match(content[0].text, message);
}
await assert.rejects(call("shell", {}), /unknown tool: shell/);
await assert.rejects(client.listResources(), /resources/);
assert.deepEqual(readdirSync(folder), ["run.json", "train.csv"]);
await client.close();
console.log(`${questions.length + 2} answers, all as the program's`);
