// The page of a back-test: predicted against measured, each run with its interval.

const validation = { group: "", quantity: "time" };

// What is compared: step times or memory peaks.
const kCompared = {
  time: {
    measured: "measured_s",
    predicted: "predicted_s",
    interval: "interval_s",
    write: seconds,
    title: "step time, s",
    scored: "step_time",
    unit: () => 1,
  },
  memory: {
    measured: "measured_peak_bytes",
    predicted: "predicted_peak_bytes",
    interval: "peak_interval_bytes",
    write: bytes,
    title: "peak memory",
    scored: "memory",
    unit: () => kBytes[settings.bytes],
  },
};

function comparedRuns(data) {
  const { measured, predicted, scored } = kCompared[validation.quantity];
  return data.runs.filter(
    (run) => run.scored.includes(scored) && run[measured] > 0 && run[predicted] > 0,
  );
}

function scatter(data) {
  const { measured, predicted, interval, write, title, unit } = kCompared[validation.quantity];
  const runs = comparedRuns(data),
    chosen = (run) => run.group === validation.group;
  const values = runs.flatMap((run) => [run[measured], run[predicted]].map((v) => v / unit()));
  const [low, high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const [left, right, top, bottom] = [70, kWidth - 12, 30, 560];
  const x = logarithmic(low, high, left, right),
    y = logarithmic(low, high, bottom, top);
  const inside = (v) => Math.min(high, Math.max(low, v / unit()));
  const marks = decades(low, high).map((v) => [v, tickText(v)]);
  const draw = (run, colour, kind) => {
    const at = x(run[measured] / unit()),
      ratio = run[predicted] / run[measured] - 1;
    const ends = run[interval];
    const tip =
      `${run.id}: predicted ${write(run[predicted])}, measured ${write(run[measured])} (${ratio < 0 ? "−" : "+"}${significant(100 * Math.abs(ratio), 2)} %)` +
      (ends ? `, interval ${write(ends[0])} to ${write(ends[1])}` : "");
    return [
      ends ? line(at, y(inside(ends[0])), at, y(inside(ends[1])), `whisker ${kind}`) : "",
      dot(at, y(run[predicted] / unit()), 4, colour, tip, `mark ${kind}`),
    ];
  };
  const others = runs.filter((run) => !chosen(run)),
    own = runs.filter(chosen);
  return svg(
    606,
    [
      frame({
        left,
        right,
        top,
        bottom,
        x,
        y,
        xTicks: marks,
        yTicks: marks,
        xTitle: `measured ${title}${validation.quantity === "memory" ? `, ${settings.bytes}` : ""}`,
        yTitle: "predicted",
      }),
      path(
        [
          [x(low), y(low)],
          [x(high), y(high)],
        ],
        "ideal",
      ),
      others.map((run) =>
        draw(
          run,
          validation.group ? "var(--soft)" : "var(--accent)",
          validation.group ? "faded" : "",
        ),
      ),
      own.map((run) => draw(run, "var(--limit)", "")),
    ],
    "predicted against measured",
  );
}

const groupsTable = (data) =>
  new DataTable(
    "groups",
    [
      { key: "group", head: "study", value: (g) => g.group, text: true },
      { key: "n", head: "runs", value: (g) => g.n },
      {
        key: "missed",
        head: "missed",
        value: (g) => g.missed || null,
        show: (g) => g.missed || "–",
      },
      {
        key: "median_abs_error",
        head: "median error",
        value: (g) => g.median_abs_error,
        show: (g) => exact(percent(g.median_abs_error), g.median_abs_error),
      },
      {
        key: "bias",
        head: "bias",
        value: (g) => g.bias,
        show: (g) => exact(percent(g.bias), g.bias),
      },
      {
        key: "coverage",
        head: "in interval",
        value: (g) => g.coverage,
        show: (g) => percent(g.coverage),
      },
      {
        key: "memory_n",
        head: "peaks",
        value: (g) => g.memory_n || null,
        show: (g) => g.memory_n || "–",
      },
      {
        key: "memory_median_abs_error",
        head: "memory error",
        value: (g) => g.memory_median_abs_error,
        show: (g) => percent(g.memory_median_abs_error),
      },
      {
        key: "memory_coverage",
        head: "in interval",
        value: (g) => g.memory_coverage,
        show: (g) => percent(g.memory_coverage),
      },
      {
        key: "outcomes_right",
        head: "verdicts right",
        value: (g) => (g.outcomes ? g.outcomes_right / g.outcomes : null),
        show: (g) => (g.outcomes ? `${g.outcomes_right}/${g.outcomes}` : "–"),
      },
    ],
    data.groups,
    { filtered: "filter: n>10 bloom", kind: (g) => (g.group === validation.group ? "chosen" : "") },
  );

function validationPage(data, table) {
  const { overall } = data;
  return [
    markup`<header><p class="kind">llmsim · validation</p><h1>Predicted against measured runs</h1>
      <p class="small">${grouped(data.runs.length)} runs of ${grouped(data.groups.length)} studies</p>
      <form class="switches"><label>bytes in <select id="bytes"><option>GiB</option><option>GB</option></select></label>
      <label>compare <select id="quantity"><option value="time">step times</option><option value="memory">memory peaks</option></select></label></form></header>`,
    section(
      "verdict",
      markup`Step times within <span id="median-error" data-value="${overall.macro_median_abs_error}"
      >${percent(overall.macro_median_abs_error)}</span>, in the median.`,
      "Each study's median of |ln(predicted / measured)|, averaged over studies. The rates were fitted to many of these runs: llmsim calibrate fit prints the error of each study when it is left out.",
      markup`<dl class="tiles">
      ${tile("Runs scored", grouped(overall.n), `of ${grouped(overall.groups)} studies`)}
      ${tile("In the interval", exact(percent(overall.coverage), overall.coverage), "of measured step times; 90 % are meant to be")}
      ${tile("Memory peaks", exact(percent(overall.memory_macro_median_abs_error), overall.memory_macro_median_abs_error), `median error; ${grouped(overall.memory_n)} peaks`)}
      ${tile("Verdicts", exact(percent(overall.balanced_outcome_accuracy), overall.balanced_outcome_accuracy), `fits or not, balanced; ${grouped(overall.outcomes)} verdicts`)}</dl>`,
    ),
    section(
      "scatter",
      "Run by run",
      validation.group
        ? markup`In red: <strong>${validation.group}</strong>.`
        : "A point a run, with its interval; the dashed line is a prediction without error.",
      scatter(data),
    ),
    section(
      "groups",
      "By study",
      "A click on a row marks its runs above, another one takes the mark away.",
      table.markup(),
    ),
  ];
}

function startValidation(data) {
  document.title = "Validation – llmsim";
  const table = groupsTable(data),
    root = document.getElementById("page");
  const redraw = () => {
    root.innerHTML = safe(
      markup`${validationPage(data, table)}<div id="tip" role="tooltip" hidden></div>`,
    );
    for (const [id, values] of [
      ["bytes", settings],
      ["quantity", validation],
    ]) {
      const choice = document.getElementById(id);
      choice.value = values[id];
      choice.addEventListener("change", () => {
        values[id] = choice.value;
        redraw();
      });
    }
    table.listen(root, (group) => {
      validation.group = validation.group === group.group ? "" : group.group;
      redraw();
    });
  };
  redraw();
}
