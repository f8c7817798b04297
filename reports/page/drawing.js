// Drawings: SVG as text, in units of a page that is 1040 wide.

const kWidth = 1040;

const svg = (height, content, label) =>
  markup`<svg viewBox="0 0 ${kWidth} ${height}" role="img" aria-label="${label}">${content}</svg>`;

const label = (x, y, text, kind = "") =>
  markup`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" class="${kind}">${text}</text>`;

const line = (x1, y1, x2, y2, kind = "rule") => markup`<line x1="${x1.toFixed(1)}"
  y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" class="${kind}"/>`;

const box = (x, y, width, height, colour, tip, kind = "") => markup`<rect x="${x.toFixed(2)}"
  y="${y.toFixed(1)}" width="${Math.max(0, width).toFixed(2)}" height="${height}"
  fill="${colour}" class="${kind}" data-tip="${tip}"/>`;

const dot = (x, y, radius, colour, tip, kind = "") => markup`<circle cx="${x.toFixed(1)}"
  cy="${y.toFixed(1)}" r="${radius}" fill="${colour}" class="${kind}" data-tip="${tip}"/>`;

const path = (points, kind) => markup`<polyline class="${kind}"
  points="${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}"/>`;

// --- scales ---

const linear = (from, to, start, end) => (value) =>
  start + ((value - from) / (to - from || 1)) * (end - start);
const logarithmic = (from, to, start, end) => {
  const scale = linear(Math.log10(from), Math.log10(to), start, end);
  return (value) => scale(Math.log10(value));
};

// Round values from 0 or `from` up to `to`.
function ticks(from, to, about = 5) {
  const rough = (to - from) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((s) => s * power >= rough) ?? 10);
  const list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-9); ++i) list.push(i * step);
  return list;
}

function decades(from, to) {
  const list = [];
  for (let p = Math.ceil(Math.log10(from) - 1e-9); 10 ** p <= to * (1 + 1e-9); ++p)
    list.push(10 ** p);
  return list;
}

const tickText = (value) => String(Number(value.toPrecision(6)));

// --- colours ---

const kParts = [
  "GEMMs",
  "attention",
  "recomputation",
  "memory-bound kernels",
  "communication",
  "pipeline bubble",
  "host",
  "slowest device",
  "the rest",
];
const partColour = (part) => `var(--part-${Math.max(0, kParts.indexOf(part))})`;

// What lasts is blue, what a step makes is green, the logits stand out, buffers are grey.
const kMemory = {
  weights: 0,
  gathered_weights: 1,
  cast_weights: 1,
  gradients: 2,
  main_gradients: 3,
  gradient_buffers: 3,
  master_weights: 4,
  optimizer_states: 5,
  activations: 6,
  recomputed_activations: 7,
  activation_gradients: 8,
  logits: 9,
  optimizer_temporaries: 10,
  pipeline_buffers: 11,
  dispatch_buffers: 11,
  gradient_buckets: 12,
  workspaces: 13,
  buffers: 13,
  framework: 13,
  gaps: 14,
  context: 15,
};
const kPale = new Set([4, 5, 8, 14, 15].map((i) => `var(--memory-${i})`)); // too light for white
const memoryColour = (term) => `var(--memory-${kMemory[term] ?? 13})`;

const legend = (entries) =>
  markup`<ul class="legend">${entries.map(
    ([name, colour]) => markup`<li><i style="background:${colour}"></i>${name}</li>`,
  )}</ul>`;

// --- bars ---

// One bar cut in pieces [name, value, colour, tip], `scale` units long for each of value; a piece
// that has room says its name.
function stack(x, y, height, pieces, scale) {
  let at = x;
  return pieces.map(([name, value, colour, tip]) => {
    const width = value * scale;
    const text =
      name && width > name.length * 6.6 + 8
        ? label(
            at + width / 2,
            y + height / 2 + 4,
            name,
            `inside ${kPale.has(colour) ? "pale" : ""}`,
          )
        : "";
    const drawn = [box(at, y, width, height, colour, tip), text];
    at += width;
    return drawn;
  });
}

// A small bar of a step's parts, for a row of a table.
function sparkBar(parts, total, longest) {
  let at = 0;
  const scale = 120 / longest;
  const pieces = Object.entries(parts).map(([name, time]) => {
    const drawn = box(
      at,
      1,
      time * scale,
      10,
      partColour(name),
      `${name} ${seconds(time)}, ${percent(time / total)}`,
    );
    at += time * scale;
    return drawn;
  });
  return markup`<svg class="spark" viewBox="0 0 120 12" role="img" aria-label="parts of the step">${pieces}</svg>`;
}

// An estimate on its interval.
function intervalBar(estimate, [low, high], write) {
  const x = linear(0, high * 1.08, 0, 300);
  return markup`<svg class="interval" viewBox="0 0 300 34" role="img" aria-label="interval">
    <line x1="${x(low).toFixed(1)}" x2="${x(high).toFixed(1)}" y1="10" y2="10" class="span"
      data-tip="${write(low)} to ${write(high)}"/>
    ${dot(x(estimate), 10, 5, "var(--accent)", write(estimate))}
    ${label(x(low), 30, write(low), "middle")}${label(x(high), 30, write(high), "end")}</svg>`;
}

// --- frames ---

// The inside of a chart with its axes: ticks are [value, text].
function frame({ left, right, top, bottom, x, y, xTicks, yTicks, xTitle, yTitle }) {
  return [
    xTicks.map(([value, text]) => [
      line(x(value), top, x(value), bottom),
      label(x(value), bottom + 18, text, "tick middle"),
    ]),
    yTicks.map(([value, text]) => [
      line(left, y(value), right, y(value)),
      label(left - 8, y(value) + 4, text, "tick end"),
    ]),
    label((left + right) / 2, bottom + 38, xTitle, "title middle"),
    label(left - 8, top - 12, yTitle, "title"),
  ];
}
