// The page of a back-test: predicted against measured, each run with its interval.

// What is compared: step times or memory peaks, by their keys.
const kPeakKeys = ["measured_peak_bytes", "predicted_peak_bytes", "peak_interval_bytes"];
const kCompared = {
  time: { scored: "step_time", title: "step time, s", keys: ["measured_s", "predicted_s", "interval_s"], write: seconds },
  memory: { scored: "memory", title: "peak memory", keys: kPeakKeys, write: bytes },
};

// The scored runs as marks of the chart, in `unit`.
function comparedRuns(runs, { scored, keys, write }, unit) {
  return runs
    .map((run) => ({ run, measured: run[keys[0]], predicted: run[keys[1]], ends: run[keys[2]] }))
    .filter(({ run, measured, predicted }) => run.scored.includes(scored) && measured > 0 && predicted > 0)
    .map(({ run: { id, group }, measured, predicted, ends }) => {
      const error = signedPercent(predicted / measured - 1, 2);
      const range = ends ? `\ninterval ${ends.map((v) => write(v)).join(" to ")}` : "";
      const tip = `${id}\npredicted ${write(predicted)}, measured ${write(measured)} (${error})${range}`;
      return { group, x: measured / unit, y: predicted / unit, ends: ends?.map((v) => v / unit), tip };
    });
}

function scatter(data, { quantity, group }) {
  const compared = kCompared[quantity];
  const memory = quantity === "memory";
  const points = comparedRuns(data.runs, compared, memory ? kBytes[settings.bytes] : 1);
  const values = points.flatMap(({ x, y }) => [x, y]);
  const domain = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const inside = (i) => (run) => Math.min(domain[1], Math.max(domain[0], run.ends[i]));
  const chosen = (run) => run.group === group;
  const colour = (run) => (chosen(run) ? "var(--limit)" : group ? "var(--soft)" : "var(--accent)");
  const opacity = (usual) => (run) => (chosen(run) ? 1 : group ? 0.2 : usual);
  points.sort((a, b) => chosen(a) - chosen(b)); // the chosen ones lie on the others
  const ranges = points.filter((run) => run.ends);
  const marks = [
    Plot.line(domain, { x: domain, y: domain, ...kDashed }),
    Plot.link(ranges, { x: "x", y1: inside(0), y2: inside(1), stroke: colour, strokeOpacity: opacity(0.25), strokeWidth: 1 }),
    Plot.dot(points, xy({ r: 4, fill: colour, fillOpacity: opacity(1), stroke: "var(--paper)" })),
  ];
  const axis = { type: "log", domain, ticks: roundValues(...domain, [1]) };
  const x = { ...axis, label: `measured ${compared.title}${memory ? `, ${settings.bytes}` : ""}` };
  const y = { ...axis, label: "predicted" };
  const opaque = { opacity: { type: "identity" } };
  const draw = (width) => axes(width, { height: Math.max(340, 0.6 * width), ...opaque, x, y, points, marks });
  return html`<${Chart} label="predicted against measured" draw=${draw} />`;
}

const orDash = (value) => value || "–";
const kGroupColumns = [
  wordColumn("group", "study", (g) => g.group),
  countColumn("n", "runs", (g) => g.n),
  column("missed", "missed", (g) => g.missed, orDash),
  percentColumn("median_abs_error", "median error", (g) => g.median_abs_error),
  percentColumn("bias", "bias", (g) => g.bias),
  percentColumn("coverage", "in interval", (g) => g.coverage),
  column("memory_n", "peaks", (g) => g.memory_n, orDash),
  percentColumn("memory_median_abs_error", "memory error", (g) => g.memory_median_abs_error),
  percentColumn("memory_coverage", "in interval", (g) => g.memory_coverage),
  {
    ...column("outcomes_right", "verdicts right", (g) => (g.outcomes ? g.outcomes_right / g.outcomes : null)),
    show: (g) => (g.outcomes ? `${g.outcomes_right}/${g.outcomes}` : "–"),
  },
];

const compare = (changes) => update({ validation: { ...page.validation, ...changes } });

function validationSections({ data: { overall, ...data }, validation }) {
  const { group } = validation;
  const title = html`Step times within <span id="median-error" data-value=${overall.macro_median_abs_error}
    >${percent(overall.macro_median_abs_error)}</span>, in the median.`;
  const share = (name, key, note) => tile(name, exact(percent(overall[key]), overall[key]), note);
  const tiles = html`<dl class="tiles">
    ${tile("Runs scored", exact(grouped(overall.n), overall.n), `of ${grouped(overall.groups)} studies`)}
    ${share("In the interval", "coverage", "of measured step times; 90 % are meant to be")}
    ${share("Memory peaks", "memory_macro_median_abs_error", `median error; ${grouped(overall.memory_n)} peaks`)}
    ${share("Verdicts", "balanced_outcome_accuracy", `fits or not, balanced; ${grouped(overall.outcomes)} verdicts`)}</dl>`;
  const marked = group
    ? html`In red: <strong>${group}</strong>.`
    : "A point a run, with its interval; the dashed line is a prediction without error.";
  const kind = (g) => ({ chosen: g.group === group });
  const mark = (g) => compare({ group: g.group === group ? "" : g.group });
  return [
    section(
      "verdict",
      title,
      "Each study's median of |ln(predicted / measured)|, averaged over studies. The rates were fitted to many of these runs: llmsim calibrate fit prints the error of each study when it is left out.",
      tiles,
      "The answer",
    ),
    section("scatter", "Run by run", marked, scatter(data, validation)),
    section(
      "groups",
      "By study",
      "A row that is chosen marks its runs above, chosen again it takes the mark away.",
      table("groups", "studies", kGroupColumns, data.groups, { filter: "filter: runs>10 bloom", kind, choose: mark }),
    ),
  ];
}

const kQuantities = [["time", "step times"], ["memory", "memory peaks"]];
const validationHeader = ({ data, validation }) =>
  html`<header><p class="kind">llmsim · validation</p><h1>Predicted against measured runs</h1>
    <p class="small">${grouped(data.runs.length)} runs of ${grouped(data.groups.length)} studies</p>
    <form class="switches">${bytesChoice()}
      ${choice("quantity", "compare", kQuantities, validation.quantity, (quantity) => compare({ quantity }))}</form></header>`;
