// More and fewer devices, and what would change the answer.

// --- more and fewer devices ---

function scalingChart(points, base) {
  const ideal = points.map(({ x }) => ({ x, y: base * x }));
  const rates = [...points, ...ideal].map((p) => p.y),
    counts = points.map((p) => p.x);
  const domain = [Math.min(...rates) / 1.4, Math.max(...rates) * 1.2];
  const x = { type: "log", domain: [counts[0] / 1.2, counts.at(-1) * 1.2], label: "devices", ticks: counts, tickFormat: grouped };
  const y = { type: "log", domain, label: "tokens/s", ticks: roundValues(...domain), tickFormat: (v) => short(v) };
  const marks = [
    Plot.line(ideal, xy(kDashed)),
    Plot.line(points, xy({ stroke: "var(--accent)" })),
    Plot.dot(points, xy({ r: 5, fill: "var(--accent)" })),
  ];
  const draw = (width) => axes(width, { height: 280, x, y, points, marks });
  return html`<${Chart} label="throughput by number of devices" draw=${draw} />`;
}

function scalingSection({ data, winner }) {
  const rows = data.scaling ?? [];
  const planned = rows.filter((s) => s.plan);
  if (planned.length < 2) return "";
  const base = throughput(winner) / devices(winner);
  const points = planned.map(({ num_devices, plan }) => ({
    x: num_devices,
    y: throughput(plan),
    tip: `${grouped(num_devices)} devices: ${grouped(throughput(plan))} tokens/s\n${plan.strategy}`,
  }));
  const columns = [
    countColumn("num_devices", "devices", (s) => s.num_devices),
    timeColumn("step_time_s", "step", (s) => s.plan?.step_time_s),
    percentColumn("mfu", "MFU", (s) => s.plan && utilisation(s.plan).mfu),
    column("efficiency", "efficiency", ({ plan, num_devices }) => plan && throughput(plan) / num_devices / base, percent),
    percentColumn("fit_probability", "fits", (s) => s.plan?.memory.fit_probability),
    wordColumn("layout", "layout", (s) => s.plan?.strategy ?? "nothing fits", { wide: true }),
  ];
  const kind = (s) => ({ chosen: s.num_devices === devices(winner) });
  return section(
    "scaling",
    "Fewer and more devices",
    `The same ${grouped(trained(winner).global_batch)} sequences a step, planned anew for each number of devices. Efficiency is of the throughput per device, relative to ${grouped(devices(winner))}; the dashed line keeps it.`,
    [scalingChart(points, base), table("scaling", "plans by number of devices", columns, rows, { kind })],
  );
}

// --- what would change it ---

const relative = (ratio) => (isNumber(ratio) ? (ratio === 1 ? "0 %" : signedPercent(ratio - 1, 2)) : "");

function changesSection({ data }) {
  const moves = (ratio) => Math.abs((ratio ?? 1) - 1) >= 1e-3;
  const best = (c) => Math.min(c.relative_time, c.planned_time ?? c.relative_time);
  const changes = (data.changes ?? [])
    .filter((c) => c.fits && (moves(c.relative_time) || moves(c.planned_time)))
    .sort((a, b) => best(a) - best(b))
    .slice(0, 16);
  const switches = (data.assumed_switches ?? []).filter((s) => Math.abs(s.other_way - 1) >= 0.005);
  if (changes.length === 0 && switches.length === 0) return "";
  const columns = [
    wordColumn("change", "change", (c) => c.change),
    column("relative_time", "step", (c) => c.relative_time, relative),
    column("planned_time", "planned anew", (c) => c.planned_time, relative),
    percentColumn("fit_probability", "fits", (c) => c.fit_probability),
  ];
  const turned = switches.map((s) => `${words(s.key)} is ${s.on ? "on" : "off"} (${relative(s.other_way)})`).join("; ");
  return section("changes", "What would change it", "One thing changed at a time, and what the step's time then does.", [
    changes.length > 0 && table("changes", "changes", columns, changes),
    turned && html`<p>Assumed switches, and what the other way would do: ${turned}.</p>`,
  ]);
}
