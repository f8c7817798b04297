// What the answer rests on.

const kAssumedColumns = [
  wordColumn("key", "key", (a) => a.key),
  wordColumn("value", "value", (a) => a.value),
  wordColumn("reason", "why", (a) => a.reason, { wide: true }),
];
const kFactColumns = [
  wordColumn("key", "value of", (f) => f.key, { wide: true }),
  wordColumn("value", "value", (f) => f.value, { wide: true }),
  wordColumn("evidence", "evidence", (f) => words(f.evidence)),
  wordColumn("source", "source", (f) => f.source, { wide: true }),
];

function evidenceSection({ winner, data }) {
  const { coefficients, database, assumed } = winner.provenance;
  const facts = data.step?.facts ?? [];
  return section("evidence", "What it rests on", `${words(coefficients)}; database ${database}.`, [
    html`<h3>Assumed, because nobody said otherwise</h3>`,
    table("assumed", "assumed values", kAssumedColumns, assumed),
    facts.length > 0 &&
      html`<details><summary>All ${facts.length} values with their sources</summary>
        ${table("facts", "values and sources", kFactColumns, facts, { filter: "filter: framework fitted" })}</details>`,
  ]);
}

function conventionsSection({ shown }) {
  const columns = [
    wordColumn("name", "convention", ([name]) => name),
    exactColumn(tflops, "TFLOP/s")("rate", "per device", ([, c]) => c.tflops_per_device),
    percentColumn("mfu", "MFU", ([, c]) => c.mfu),
  ];
  const kind = ([name]) => ({ chosen: name === settings.convention });
  return section(
    "conventions",
    "MFU by convention",
    "Publications count the FLOPs of one and the same step in different ways; the switch above chooses what this page shows.",
    table("conventions", "MFU by convention", columns, Object.entries(shown.conventions), { kind }),
  );
}

const commandSection = ({ data }) =>
  data.command && section("command", "The same by hand", "", html`<pre>${data.command}</pre>`);
