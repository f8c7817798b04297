// Figures as people read them.  Those of the answer carry its value in full, which the pointer shows
// and other programs find in the attribute data-value.

const { html } = libraries;
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

// In the largest of the units {name: size}, from the largest on, that a value fills `least` times.
function scaled(value, units, digits, least = 1) {
  if (!isNumber(value)) return "–";
  const all = Object.entries(units);
  const [unit, size] = all.find(([, s]) => Math.abs(value) >= least * s) ?? all.at(-1);
  return `${significant(value / size, digits)} ${unit}`.trim();
}

// "128", "35.3 B": a count in thousands, millions or billions.
const short = (value, digits = 3) => scaled(value, { T: 1e12, B: 1e9, M: 1e6, K: 1e3, "": 1 }, digits);
const seconds = (value, digits = 4) =>
  value === 0 ? "0 s" : scaled(value, { s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 }, digits);

// "52.3 days", of what takes longer than a step.
const longTime = (value) =>
  value < 120 ? seconds(value, 3) : scaled(value, { days: 86400, hours: 3600, minutes: 60 }, 3, 2);

const bytesIn = (value) => value / kBytes[settings.bytes];

function bytes(value, digits = 4) {
  const [step, i] = settings.bytes === "GiB" ? [1024, "i"] : [1000, ""];
  if (Math.abs(value) < step) return `${grouped(value)} B`;
  const units = { [`T${i}B`]: step ** 4, [`G${i}B`]: step ** 3, [`M${i}B`]: step ** 2, [`K${i}B`]: step };
  return scaled(value, units, digits);
}

const percent = (value, digits = 3) => (isNumber(value) ? `${significant(100 * value, digits)} %` : "–");
const tflops = (value) => (isNumber(value) ? `${significant(value)} TFLOP/s` : "–");
const energy = (value) => scaled(value, { GWh: 1e3, MWh: 1 }, 3); // of 10^6 Wh
const rate = (value) => scaled(value, { "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1 }, 3);
const dollars = (value) => (isNumber(value) ? `$${value < 100 ? significant(value, 3) : grouped(value)}` : "–");
const signed = (value, write) => `${value < 0 ? "−" : "+"}${write(Math.abs(value))}`;
const signedPercent = (value, digits = 3) => signed(value, (v) => percent(v, digits));

// "tensor parallel exposed" of a key.
const words = (key) => key.replaceAll("_", " ");

// --- of a prediction ---

// The MFU and the rate of a prediction as the chosen convention counts FLOPs; without a choice the
// exact work.
const utilisation = ({ conventions, mfu, tflops_per_device }) =>
  conventions?.[settings.convention] ?? { mfu, tflops_per_device };

const trained = (prediction) => prediction.run.training;
const devices = (prediction) => prediction.run.hardware.num_devices;
const throughput = (prediction) => prediction.tokens_per_s_per_device * devices(prediction);

// All that a device needs at the peak: with gaps of the allocator and the driver's context.
const neededTerms = ({ terms, gaps_bytes, context_bytes }) => ({ ...terms, gaps: gaps_bytes, context: context_bytes });

// --- with the full value ---

// A sum, a ratio or a share of values that the answer has.
const derived = (text, value, unit = "") => html`<span class="exact" title="${value} ${unit}">${text}</span>`;

// Such a value itself.
const exact = (text, value, unit = "") =>
  html`<span class="exact" data-value=${value} title="${value} ${unit}">${text}</span>`;
