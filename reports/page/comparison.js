// Two plans side by side: what they do differently, their figures, parts and memory.

const settingText = (value) => (typeof value === "object" && value ? JSON.stringify(value) : String(value ?? "–"));

// Rows {group, name, one, other, write} of the settings in which two plans differ; words need no `write`.
function differentSettings(plans) {
  const [a, b] = plans.map(({ run: { model, hardware, training } }) => ({ run: runName({ model, hardware }), ...training }));
  return Object.keys({ ...a, ...b })
    .map((key) => ({ group: "settings", name: words(key), one: settingText(a[key]), other: settingText(b[key]) }))
    .filter(({ one, other }) => one !== other);
}

function comparedFigures([a, b]) {
  const row = (name, of, write) => ({ group: "figures", name, one: of(a), other: of(b), write });
  return [
    row("step time", (p) => p.step_time_s, seconds),
    row("throughput, tokens/s", throughput, grouped),
    row("tokens/s of a device", (p) => p.tokens_per_s_per_device, grouped),
    row("MFU", (p) => utilisation(p).mfu, percent),
    row("HFU", (p) => p.hfu, percent),
    row("pipeline bubble", (p) => p.bubble, percent),
    row("memory needed", (p) => p.memory.peak.needed_bytes, bytes),
    row("peak memory", (p) => p.memory.peak_bytes, bytes),
    row("fits with", (p) => p.memory.fit_probability, percent),
  ];
}

// Terms of both, the largest first; those below a thousandth of it say nothing.
function comparedTerms(group, [a, b], write) {
  const size = (row) => Math.max(row.one, row.other);
  const rows = Object.keys({ ...a, ...b })
    .map((key) => ({ group, name: words(key), one: a[key] ?? 0, other: b[key] ?? 0, write }))
    .sort((x, y) => size(y) - size(x));
  return rows.filter((row) => size(row) >= 1e-3 * size(rows[0]));
}

function comparisonTable(plans) {
  const rows = [
    ...differentSettings(plans),
    ...comparedFigures(plans),
    ...comparedTerms("parts of the step", plans.map((p) => p.parts_s), seconds),
    ...comparedTerms("memory", plans.map((p) => neededTerms(p.memory.peak)), bytes),
  ];
  const side = (key, head) => ({
    ...column(key, head, (row) => row[key]),
    show: (row) => (row.write ? derived(row.write(row[key]), row[key]) : row[key]),
  });
  const differs = ({ one, other, write }) => write && one !== other;
  const difference = (row) => (differs(row) ? row.other - row.one : null);
  const ratio = (row) => (differs(row) && row.one !== 0 ? row.other / row.one - 1 : null);
  const columns = [
    wordColumn("group", "of", (row) => row.group),
    wordColumn("name", "value", (row) => row.name),
    side("one", "first"),
    side("other", "second"),
    { key: "difference", head: "difference", value: difference, show: (row) => differs(row) && signed(difference(row), row.write) },
    column("ratio", "relative", ratio, (v) => (isNumber(v) ? signedPercent(v) : "")),
  ];
  return table("beside", "two plans side by side", columns, rows, { filter: "filter: memory activations" });
}

// All plans that may stand side by side: those of the ranking, and the best of other questions.
function comparablePlans({ candidates, question }) {
  const own = candidates.map(({ plan, place }) => [`${place || "–"}  ${plan.strategy}`, plan]);
  const others = (questions?.plans ?? [])
    .filter((row) => row !== question && row.answer.plans.length)
    .map((row) => [`${askedText(row)}: ${row.answer.plans[0].strategy}`, row.answer.plans[0]]);
  return [...own, ...others];
}

function comparisonSection(page) {
  const plans = comparablePlans(page);
  if (!page.plan || plans.length < 2) return "";
  const first = page.first ?? page.shown;
  const second = page.second ?? plans.find(([, plan]) => plan !== first)[1];
  const options = plans.map(([text], i) => [i, text]);
  const chosen = (id, plan) =>
    choice(id, id, options, plans.findIndex(([, p]) => p === plan), (i) => update({ [id]: plans[i][1] }));
  const more = second.memory.peak.needed_bytes - first.memory.peak.needed_bytes;
  const [one, other] = [first, second].map((plan) => neededTerms(plan.memory.peak));
  return section(
    "comparison",
    "Two plans side by side",
    `Against the first, the second has ${signedPercent(second.step_time_s / first.step_time_s - 1)} of step time and ${signed(more, (v) => bytes(v, 3))} of memory.`,
    [
      html`<form class="switches two">${chosen("first", first)} ${chosen("second", second)}</form>`,
      partsChart("parts of the two steps", { first, second }),
      memoryChart("memory of the two plans", { first: one, second: other }, first.memory.capacity_bytes),
      comparisonTable([first, second]),
    ],
  );
}
