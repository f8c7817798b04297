// Figures as people read them.  Every one carries its full value, shown when the pointer is on it.

const settings = { bytes: "GiB", convention: "" }; // of the switches of the page

const kBytes = { GiB: 2 ** 30, GB: 1e9 };

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// "15.57", "1052", "0.0464": so many significant digits, all digits before the point.
function significant(value, digits = 4) {
  if (!isNumber(value)) return "–";
  if (value === 0) return "0";
  const before = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.max(0, Math.min(12, digits - before)));
}

// "269,352"
const grouped = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en-US") : "–");

// "128", "35.3 B": a count in thousands, millions or billions.
function short(value, digits = 3) {
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "K"],
  ])
    if (Math.abs(value) >= size) return `${significant(value / size, digits)} ${unit}`;
  return significant(value, digits);
}

function seconds(value, digits = 4) {
  if (!isNumber(value)) return "–";
  for (const [size, unit] of [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
  ])
    if (Math.abs(value) >= size) return `${significant(value / size, digits)} ${unit}`;
  return value === 0 ? "0 s" : `${significant(value * 1e9, digits)} ns`;
}

// "52.3 days", of what takes longer than a step.
function longTime(value) {
  for (const [size, unit] of [
    [86400, "days"],
    [3600, "hours"],
    [60, "minutes"],
  ])
    if (value >= 2 * size) return `${significant(value / size, 3)} ${unit}`;
  return seconds(value, 3);
}

const bytesIn = (value) => value / kBytes[settings.bytes];

function bytes(value, digits = 4) {
  if (!isNumber(value)) return "–";
  const binary = settings.bytes === "GiB",
    step = binary ? 1024 : 1000;
  const units = binary ? ["B", "KiB", "MiB", "GiB", "TiB"] : ["B", "KB", "MB", "GB", "TB"];
  let power = 0;
  while (power + 1 < units.length && Math.abs(value) >= step ** (power + 1)) ++power;
  return `${power ? significant(value / step ** power, digits) : grouped(value)} ${units[power]}`;
}

const percent = (value, digits = 3) =>
  isNumber(value) ? `${significant(100 * value, digits)} %` : "–";

const tflops = (value) => (isNumber(value) ? `${significant(value)} TFLOP/s` : "–");

// Of 10^6 Wh.
const energy = (value) =>
  value < 1000 ? `${significant(value, 3)} MWh` : `${significant(value / 1000, 3)} GWh`;

function rate(value) {
  for (const [size, unit] of [
    [1e9, "GB/s"],
    [1e6, "MB/s"],
    [1e3, "kB/s"],
  ])
    if (value >= size) return `${significant(value / size, 3)} ${unit}`;
  return `${significant(value, 3)} B/s`;
}

const dollars = (value) =>
  isNumber(value) ? `$${value < 100 ? significant(value, 3) : grouped(value)}` : "–";

// "tensor parallel exposed" of a key.
const words = (key) => key.replaceAll("_", " ");

// --- of a prediction ---

// The MFU and the rate of a prediction as the chosen convention counts FLOPs; without a choice the
// exact work.
function utilisation(prediction) {
  return (
    prediction.conventions?.[settings.convention] ?? {
      mfu: prediction.mfu,
      tflops_per_device: prediction.tflops_per_device,
    }
  );
}

const trained = (prediction) => prediction.run.training;
const devices = (prediction) => prediction.run.hardware.num_devices;
const throughput = (prediction) => prediction.tokens_per_s_per_device * devices(prediction);

// --- text that is safe to be put into the page ---

class Markup {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

const kEscapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function safe(value) {
  if (value instanceof Markup) return value.text;
  if (Array.isArray(value)) return value.map(safe).join("");
  if (value === null || value === undefined || value === false) return "";
  return String(value).replace(/[&<>"]/g, (c) => kEscapes[c]);
}

// A template whose values are escaped, but for what is markup.
function markup(parts, ...values) {
  return new Markup(parts.reduce((text, part, i) => text + safe(values[i - 1]) + part));
}

// A figure with its full value behind it.
const exact = (text, value, unit = "") =>
  markup`<span data-tip="${value}${unit && " " + unit}">${text}</span>`;
