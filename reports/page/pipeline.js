// The pipeline's timeline: the whole step, and a part of it in full.

const kPasses = {
  forward: "--forward",
  backward: "--backward",
  data_gradient: "--backward",
  weight_gradient: "--weights",
  forward_and_backward: "--both",
  passes: "--many",
  bubble: "--bubble",
  end_of_step: "--end",
  communication: "--comm",
  send: "--send",
};
const passColour = (category) => `var(${kPasses[category] ?? "--comm"})`;

// Rows of events between two times; `tall` high, marks only where there is room for them.
function lanes(rows, [from, to], top, tall, gap) {
  const x = linear(from, to, kLaneLeft, kLaneRight);
  return rows.map((row, i) => {
    const y = top + i * (tall + gap);
    return [
      label(kLaneLeft - 10, y + tall / 2 + 4, row.name, "name end"),
      row.events.map(([name, category, start, duration, exposed]) => {
        const a = Math.max(kLaneLeft, x(start)),
          b = Math.min(kLaneRight, x(start + duration));
        if (b - a < 0.1) return "";
        const tip =
          `${name}, ${category === name ? "" : `${words(category)}, `}${seconds(duration)} from ${seconds(start)}` +
          (exposed > 0 ? `, ${seconds(exposed)} exposed` : "");
        const drawn = box(a, y, b - a, tall, passColour(category), tip, b - a > 4 ? "pass" : "");
        const text = name.split(" ")[0];
        return b - a > 7 * text.length + 4 && tall > 14 && category !== "bubble"
          ? [drawn, label((a + b) / 2, y + tall / 2 + 4, text, "inside")]
          : drawn;
      }),
    ];
  });
}

const kLaneLeft = 130,
  kLaneRight = kWidth - 8;

function timeAxis([from, to], bottom) {
  const x = linear(from, to, kLaneLeft, kLaneRight);
  return [
    ticks(from, to, 8).map((v) => [
      line(x(v), 0, x(v), bottom),
      label(x(v), bottom + 16, tickText(v), "tick middle"),
    ]),
    label(
      (kLaneLeft + kLaneRight) / 2,
      bottom + 34,
      "seconds from the start of the step",
      "title middle",
    ),
  ];
}

// From the start, as long as some dozens of passes take.
function firstWindow(timeline) {
  const passes = timeline.stages[timeline.busiest_stage].streams[0].events.filter(
    (e) => e[1] !== "bubble",
  );
  const last = passes[Math.min(passes.length, 36) - 1];
  return [0, last ? last[2] + last[3] : timeline.step_time_s];
}

// The whole step, and under it a part of it in full.
function pipelineSection(page) {
  const { timeline } = page.data.step ?? {};
  if (!timeline || page.shown !== page.winner) return "";
  const whole = [0, timeline.step_time_s],
    part = page.window ?? firstWindow(timeline);
  const rows = timeline.stages.flatMap((stage) =>
    stage.streams.map(({ stream, events }) => ({
      name: stream === "compute" ? `stage ${stage.stage}` : stream,
      events,
      own: stream === "compute",
    })),
  );
  const main = rows.filter((r) => r.own),
    side = rows.filter((r) => !r.own);
  const found = new Set(rows.flatMap((r) => r.events.map((e) => e[1])));
  const shown = Object.keys(kPasses).filter((c) => found.has(c));
  const thin = main.length > 8 ? 8 : 12,
    above = main.length * (thin + 3) + 4;
  const x = linear(...whole, kLaneLeft, kLaneRight);
  const overview = svg(
    above + 38,
    [
      timeAxis(whole, above),
      lanes(main, whole, 2, thin, 3),
      markup`<rect class="window" x="${x(part[0]).toFixed(1)}" y="0" width="${Math.max(2, x(part[1]) - x(part[0])).toFixed(1)}" height="${above}"/>`,
    ],
    "timeline of the step",
  );
  const lower = main.length * 24 + (side.length ? 28 : 0),
    bottom = lower + side.length * 17 + 4;
  const closer = svg(
    bottom + 38,
    [
      timeAxis(part, bottom),
      lanes(main, part, 2, 20, 4),
      side.length
        ? label(kLaneLeft - 10, lower - 6, `beside stage ${timeline.busiest_stage}:`, "tick end")
        : "",
      lanes(side, part, lower, 13, 4),
    ],
    "part of the timeline",
  );
  return section(
    "pipeline",
    "The pipeline's timeline",
    `One step on every pipeline stage.${timeline.stages.length > 1 ? ` Stage ${timeline.busiest_stage} is the busiest, ${percent(page.shown.bubble)} of its pipeline time is bubble.` : ""} Drag over a part of either drawing to see it in full, double-click for the start.`,
    [
      legend(
        shown.map((c) => [
          c === "passes" ? "passes of other micro-batches" : words(c),
          passColour(c),
        ]),
      ),
      markup`<div class="timeline" data-from="${whole[0]}" data-to="${whole[1]}">${overview}</div>
      <h3>${seconds(part[0])} to ${seconds(part[1])}, pass by pass</h3>
      <div class="timeline" data-from="${part[0]}" data-to="${part[1]}">${closer}</div>`,
    ],
  );
}
