// What the answer rests on.

function factsTable(page) {
  return new DataTable(
    "facts",
    [
      { key: "key", head: "value of", value: (f) => f.key, text: true },
      { key: "value", head: "value", value: (f) => f.value, text: true },
      { key: "evidence", head: "evidence", value: (f) => words(f.evidence), text: true },
      { key: "source", head: "source", value: (f) => f.source, text: true },
    ],
    page.data.step?.facts ?? [],
    { filtered: "filter: framework fitted" },
  );
}

function evidenceSection(page) {
  const { provenance } = page.winner;
  return section(
    "evidence",
    "What it rests on",
    `${words(provenance.coefficients)}; database ${provenance.database}.`,
    [
      markup`<h3>Assumed, because nobody said otherwise</h3><table><thead><tr><th class="text">key</th><th class="text">value</th><th class="text">why</th></tr></thead>
      <tbody>${provenance.assumed.map((a) => markup`<tr><td class="text">${a.key}</td><td class="text">${a.value}</td><td class="text">${a.reason}</td></tr>`)}</tbody></table>`,
      page.facts.rows.length
        ? markup`<details><summary>All ${page.facts.rows.length} values with their sources</summary>${page.facts.markup()}</details>`
        : "",
    ],
  );
}

function conventionsSection({ shown }) {
  return section(
    "conventions",
    "MFU by convention",
    "Publications count the FLOPs of one and the same step in different ways; the switch above chooses what this page shows.",
    markup`<table><thead><tr><th class="text">convention</th><th>per device</th><th>MFU</th></tr></thead><tbody>${Object.entries(
      shown.conventions,
    ).map(
      ([
        name,
        c,
      ]) => markup`<tr class="${name === settings.convention ? "chosen" : ""}"><td class="text">${name}</td>
      <td>${tflops(c.tflops_per_device)}</td><td>${exact(percent(c.mfu), c.mfu)}</td></tr>`,
    )}</tbody></table>`,
  );
}

function commandSection({ data }) {
  if (!data.command) return "";
  return section("command", "The same by hand", "", markup`<pre>${data.command}</pre>`);
}
