// The page of a diagnosis: a measured step beside its prediction, part by part.

// In the colours of a prediction's parts.
const kProfiled = ["gemms", "attention", "recomputation", "memory_bound", "collectives", "", "idle", "waiting"];
function profiledColour(part) {
  const i = part.endsWith("collectives") ? kProfiled.indexOf("collectives") : kProfiled.indexOf(part);
  return `var(--part-${i < 0 ? kParts.length - 1 : i})`;
}

const kLineColumns = [
  wordColumn("part", "part", (l) => words(l.part)),
  timeColumn("measured_s", "measured", (l) => l.measured_s),
  timeColumn("predicted_s", "predicted", (l) => l.predicted_s),
  column("difference_s", "difference", (l) => l.difference_s, (v) => (Math.abs(v) < 1e-6 ? "0 s" : signed(v, (t) => seconds(t, 3)))),
  column("worth", "worth", (l) => l.worth, (v) => (Math.abs(v) < 1e-5 ? "0 %" : signedPercent(v, 2)), (v) => 100 * v),
  column("kernels", "kernels", (l) => l.kernels, (v) => (isNumber(v) ? grouped(v) : "")),
  column("predicted_kernels", "of expected", (l) => l.predicted_kernels, (v) => (isNumber(v) ? grouped(v) : "")),
  wordColumn("reason", "why, and what would mend it", (l) => l.reason ?? "", { wide: true }),
];

const kWritten = [
  ["bytes_per_s", rate],
  ["flops_per_s", (v) => tflops(v / 1e12)],
  ["_bytes", (v) => bytes(v, 3)],
  ["_s", (v) => seconds(v, 3)],
];

// A table of the answer, by what the ends of its keys say of their units.
function unitColumn(key, value) {
  const text = words(key.replace(/_(s|bytes|bytes_per_s|flops_per_s)$/, ""));
  if (typeof value === "string") return wordColumn(key, text, (row) => row[key] ?? "");
  const write = kWritten.find(([end]) => key.endsWith(end))?.[1] ?? ((v) => (Number.isInteger(v) ? grouped(v) : significant(v, 3)));
  return column(key, text, (row) => row[key], (v) => (isNumber(v) ? write(v) : ""));
}
function rowsSection(id, title, lead, rows) {
  if (!rows?.length) return "";
  const value = (key) => rows.map((row) => row[key]).find((v) => v !== null);
  const keys = Object.keys(rows[0]).filter((key) => value(key) !== undefined);
  return section(id, title, lead, table(id, title, keys.map((key) => unitColumn(key, value(key))), rows));
}

function partBars({ lines }) {
  const pieces = (name, key) =>
    lines
      .filter((l) => l[key] > 0)
      .map((l) => ({ name: words(l.part), value: l[key], colour: profiledColour(l.part), tip: `${name}, ${words(l.part)}\n${seconds(l[key])}` }));
  const rows = ["measured", "predicted"].map((name) => ({ name, pieces: pieces(name, `${name}_s`) }));
  return html`<${StackedBars} label="parts of the step, measured and predicted" title="time, s" rows=${rows} />`;
}

const saysIt = (lines) => (c) => lines.some((l) => c.value(l) !== null && c.value(l) !== "");

function diagnosisSections({ data }) {
  const { measured_s, predicted_s, interval_s, percentile, profile, log, factors, findings } = data;
  const slower = measured_s / predicted_s - 1;
  const bar = intervalBar(predicted_s, interval_s, (t) => seconds(t, 3));
  const tiles = html`<dl class="tiles">
    ${tile("Measured", exact(seconds(measured_s), measured_s, "s"), profile ? profile.steps > 1 ? `mean of ${profile.steps} steps` : "one step" : `${log.format}, ${log.lines} lines`)}
    ${tile("Predicted", exact(seconds(predicted_s), predicted_s, "s"), bar)}
    ${tile("Of runs like it", exact(percent(percentile), percentile), "are predicted to be faster than this one")}</dl>`;
  const found = findings.length > 0 && html`<ol>${findings.map((text) => html`<li>${text}</li>`)}</ol>`;
  const title = `${percent(Math.abs(slower), 2)} ${slower < 0 ? "faster" : "slower"} than predicted.`;
  const lead = "Lines add up to the measured step less the predicted one; worth is what the step gains where a line is as predicted.";
  return [
    section("verdict", title, "", [tiles, found], "The answer"),
    profile && section("lines", "Where the difference is", lead, [partBars(profile), table("lines", "parts of the step", kLineColumns.filter(saysIt(profile.lines)), profile.lines)]),
    rowsSection("collectives", "Collectives", "Of all calls of a step, hidden or not.", profile?.collectives),
    rowsSection("gemms", "GEMMs", "Those that lose most first.", profile?.gemms),
    rowsSection("ranks", "Ranks", "Of ranks that wait for one another the late one waits least.", profile?.ranks),
    rowsSection("factors", "What would explain it", "By how much one part alone would have to be slower.", factors),
  ];
}
