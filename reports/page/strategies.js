// The strategies: their ranking, time against memory, what was looked at.

// --- the ranking ---

const recomputed = ({ strategy }) =>
  (strategy.match(/recompute ([^,]*)/)?.[1] ?? "").replace("selective=", "").replace("layernorm", "norm").replace("activation", "act");

function rankingTable({ winner, candidates, shown, second }) {
  const longest = Math.max(...candidates.map((c) => c.plan.step_time_s));
  const setting = (key, head = key) => column(key, head, (row) => trained(row.plan)[key]);
  const beside = ({ plan, place }) =>
    html`<button type="button" class="small" aria-pressed=${plan === second} aria-label="beside another: ${place || plan.strategy}"
      onClick=${() => update({ second: plan })}>beside</button>`;
  const columns = [
    { key: "place", head: "#", value: (row) => row.order, show: (row) => row.place },
    ...["tp", "pp"].map((key) => setting(key)),
    setting("virtual_stages", "vs"),
    ...["cp", "dp", "ep"].map((key) => setting(key)),
    wordColumn("sharding", "sharding", (row) => trained(row.plan).sharding),
    setting("micro_batch", "mbs"),
    wordColumn("recompute", "recompute", (row) => recomputed(row.plan)),
    timeColumn("step_time_s", "step", (row) => row.plan.step_time_s),
    column("relative", "to first", (row) => row.plan.step_time_s / winner.step_time_s, (v) => `${significant(v, 3)}×`),
    percentColumn("mfu", "MFU", (row) => utilisation(row.plan).mfu),
    bytesColumn("peak_bytes", "peak", (row) => row.plan.memory.peak_bytes),
    percentColumn("fit_probability", "fits", (row) => row.plan.memory.fit_probability),
    wordColumn("second", "compare", (row) => Number(row.plan !== second), { show: beside }),
    wordColumn("parts", "where time goes", (row) => row.plan.step_time_s, { show: (row) => sparkBar(row.plan.parts_s, longest) }),
  ].filter((c) => c.key !== "ep" || candidates.some((row) => trained(row.plan).ep > 1));
  const kind = ({ plan, other }) => ({ chosen: plan === shown, second: plan === second, other });
  const filter = "filter: zero3 tp=4 step<16 fits>95";
  return table("ranking", "strategies", columns, candidates, { filter, kind, choose: (row) => choose(row.plan) });
}

function ranking(page) {
  if (!page.plan) return "";
  const { headroom, ties } = page.data;
  const tied = " Places marked = are ties: closer than the error of ratios; more memory to spare goes first.";
  return section(
    "ranking",
    "The strategies",
    `The best of each kind that leaves ${percent(headroom)} of memory free. Rows without a number are kinds that are slower than a numbered one and need no less memory.${ties > 1 ? tied : ""} A row that is chosen is shown in the sections below; “beside” puts it next to another.`,
    rankingTable(page),
  );
}

// --- time against memory ---

function paretoChart({ data, winner, candidates }, limit) {
  const unit = kBytes[settings.bytes],
    usable = winner.memory.capacity_bytes / unit;
  const point = ({ strategy, step_time_s, peak_bytes, fit_probability }, place) => ({
    x: step_time_s,
    y: peak_bytes / unit,
    place,
    tip: `${place ? `${place}: ` : ""}${strategy}\n${seconds(step_time_s)}, ${bytes(peak_bytes)}, fits with ${percent(fit_probability)}`,
  });
  const near = (p) => p.x <= limit;
  const front = data.pareto.map((p) => point(p)).filter(near);
  const ranked = candidates.map(({ plan, place }) => point({ ...plan, ...plan.memory }, place)).filter(near);
  const points = [...front, ...ranked],
    times = points.map((p) => p.x),
    most = 1.06 * Math.max(...points.map((p) => p.y));
  const limitText = { y: usable, text: ["usable"], frameAnchor: "right", dy: -8, fill: "var(--limit)" };
  const marks = [
    usable <= most && [Plot.ruleY([usable], kLimit), Plot.text([usable], limitText)],
    Plot.line(front, xy({ curve: "step-after", stroke: "var(--accent)" })),
    Plot.dot(front, xy({ r: 3.5, fill: "var(--accent)" })),
    Plot.dot(ranked, xy({ r: 5.5, stroke: (p) => (p.place ? "var(--limit)" : "var(--soft)"), strokeWidth: 2 })),
  ];
  const draw = (width) => {
    const domain = [0.98 * Math.min(...times), 1.03 * Math.max(...times)];
    const x = { type: "log", domain, label: "step time, s", ticks: narrow(width) ? 4 : 9 };
    const y = { domain: [0, most], label: `peak memory, ${settings.bytes}` };
    const options = { height: narrow(width) ? 300 : 350, x, y, points };
    // Labels are placed by pixels, which the chart without them tells.
    const scales = axes(width, { ...options, marks }).scale;
    const pixels = (p) => ({ x: scales("x").apply(p.x), y: scales("y").apply(p.y), text: p.place });
    const [numbered, others] = [true, false].map((has) => points.filter((p) => Boolean(p.place) === has).map(pixels));
    const labels = placedLabels(numbered, others, scales("x").range[0]).map((l) =>
      Plot.text([l], { x: scales("x").invert(l.x), y: scales("y").invert(l.y), textAnchor: l.anchor, text: "text", ariaLabel: "places" }),
    );
    return axes(width, { ...options, marks: [...marks, ...labels] });
  };
  return html`<${Chart} label="peak memory against step time" draw=${draw} />`;
}

function paretoSection(page) {
  const { data, plan, winner } = page;
  if (!plan || data.pareto.length < 2) return "";
  const limit = 2.5 * winner.step_time_s;
  const slow = data.pareto.filter((p) => p.step_time_s > limit).length;
  const left = slow ? ` ${slow} that take more than 2.5 times as long as the best plan are left out.` : "";
  return section(
    "pareto",
    "Time against memory",
    `The Pareto front: of all that fits, nothing else is both faster and smaller. Numbered, where there is room, are the plans above, which leave memory free.${left}`,
    paretoChart(page, limit),
  );
}

// --- what failed ---

function failuresSection({ data, plan }) {
  if (!plan || Object.keys(data.rejected).length === 0) return "";
  const near = (rule) => data.nearest.find((n) => n.rule === rule);
  const rows = Object.entries(data.rejected).sort(([, a], [, b]) => b - a);
  const columns = [
    wordColumn("rule", "rule", ([rule]) => rule),
    countColumn("count", "strategies", ([, count]) => count),
    bytesColumn("needed", "nearest needs", ([rule]) => near(rule)?.needed_bytes),
    bytesColumn("available", "of", ([rule]) => near(rule)?.available_bytes),
    wordColumn("strategy", "nearest miss", ([rule]) => near(rule)?.strategy ?? "", { wide: true }),
  ];
  return section(
    "failures",
    "What was looked at",
    `${grouped(data.evaluated)} strategies in ${seconds(data.seconds, 3)}: ${grouped(data.priced)} simulated, ${grouped(data.pruned + data.feasible - data.priced)} ruled out by bounds; the others break a rule or do not fit.`,
    table("failures", "rules that strategies break", columns, rows),
  );
}
