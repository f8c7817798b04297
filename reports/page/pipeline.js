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

// Events of a row that lie between two times, as marks.
const eventsOf = ({ name: y, events }, [first, last]) =>
  events
    .map(([name, category, start, duration, exposed]) => {
      const [from, to] = [Math.max(first, start), Math.min(last, start + duration)];
      const kind = category === name ? "" : `${words(category)}, `;
      const waited = exposed > 0 ? `, ${seconds(exposed)} exposed` : "";
      const tip = `${name}, ${kind}${seconds(duration)}\nfrom ${seconds(start)}${waited}`;
      return { y, category, name: name.split(" ")[0], from, to, x: (from + to) / 2, tip };
    })
    .filter(({ from, to }) => to > from);

// Rows of events between two times, each `tall` pixels; `part`, two times, is framed.
function lanes(width, rows, times, tall, part) {
  const marginLeft = Math.min(0.36 * width, 6.8 * Math.max(...rows.map((row) => row.name.length)) + 12);
  const wide = ({ from, to }) => ((to - from) / (times[1] - times[0])) * (width - marginLeft - 12);
  const events = rows.flatMap((row) => eventsOf(row, times)).filter((e) => wide(e) >= 0.1);
  const named = events.filter((e) => tall > 14 && e.category !== "bubble" && wide(e) > 7 * e.name.length + 4);
  const bars = { x1: "from", x2: "to", y: "y", fill: (e) => passColour(e.category), strokeWidth: 0.4 };
  return plotted(width, {
    marginLeft,
    marginRight: 12,
    marginTop: 2,
    marginBottom: 38,
    height: rows.length * tall + 40,
    x: { domain: times, label: "seconds from the start of the step", ticks: narrow(width) ? 4 : 8, grid: true },
    y: { domain: rows.map((row) => row.name), type: "band", label: null, tickSize: 0, padding: 0.15 },
    marks: [
      Plot.barX(events, { ...bars, stroke: tall > 14 ? "var(--paper)" : "none" }),
      Plot.text(named, xy({ text: "name", fill: "var(--inside)", fontSize: 11 })),
      part && Plot.rectX([part], { x1: part[0], x2: part[1], fill: "none", stroke: "var(--ink)", strokeWidth: 1.5 }),
      tips(events),
    ],
  });
}

// From the start, as long as some dozens of passes take.
function firstWindow({ stages, busiest_stage, step_time_s }) {
  const { events } = stages[busiest_stage].streams[0];
  const passes = events.filter(([, category]) => category !== "bubble");
  const [, , start, duration] = passes.slice(0, 36).at(-1) ?? [];
  return [0, start + duration || step_time_s];
}

// A drawing of lanes on which a part is chosen by dragging.
function ChosenByDragging({ label, draw, choose }) {
  const [svg, begin, mark] = [useRef(null), useRef(null), useRef(null)];
  const left = () => svg.current.getBoundingClientRect().left;
  const scale = () => svg.current.scale("x");
  const span = (event) => [begin.current, event.clientX - left()].sort((a, b) => a - b);
  const drag = (event) => {
    if (begin.current === null) return;
    const [from, to] = span(event);
    Object.assign(mark.current.style, { left: `${from}px`, width: `${to - from}px` });
  };
  const end = (event) => {
    if (begin.current === null) return;
    const [first, last] = scale().domain;
    const times = span(event).map((x) => Math.min(last, Math.max(first, scale().invert(x))));
    begin.current = null;
    mark.current.style.width = 0;
    if (times[1] - times[0] > 0.003 * (last - first)) choose(times);
  };
  return html`<div class="timeline" onPointerDown=${(event) => (begin.current = event.clientX - left())} onPointerMove=${drag}
    onPointerUp=${end} onDblClick=${() => choose(null)}>
    <${Chart} label=${label} draw=${draw} drawn=${(made) => (svg.current = made)} /><i ref=${mark}></i></div>`;
}

// The same by buttons: sideways by half of what is seen, closer, wider.
function timeButtons([from, to], whole, choose) {
  const go = (centre, length) => () => {
    const half = Math.min(length, whole) / 2;
    const middle = Math.min(whole - half, Math.max(half, centre));
    choose([middle - half, middle + half]);
  };
  const [centre, length] = [(from + to) / 2, to - from];
  const buttons = {
    earlier: go(centre - length / 2, length),
    later: go(centre + length / 2, length),
    closer: go(centre, length / 2),
    wider: go(centre, length * 2),
    "from the start": () => choose(null),
  };
  return html`<p class="buttons">${Object.entries(buttons).map(
    ([name, act]) => html`<button type="button" class="small" onClick=${act}>${name}</button>`,
  )}</p>`;
}

function Timeline({ timeline }) {
  const [chosen, choose] = useState(null);
  const whole = [0, timeline.step_time_s],
    part = chosen ?? firstWindow(timeline);
  const rowsOf = (own) =>
    timeline.stages.flatMap(({ stage, streams }) =>
      streams
        .filter(({ stream }) => (stream === "compute") === own)
        .map(({ stream, events }) => ({ name: own ? `stage ${stage}` : stream, events })),
    );
  const [stages, side] = [rowsOf(true), rowsOf(false)];
  const found = new Set([...stages, ...side].flatMap((row) => row.events.map((e) => e[1])));
  const categories = Object.fromEntries(Object.keys(kPasses).filter((c) => found.has(c)).map((c) => [c, 0]));
  const overview = (width) => lanes(width, stages, whole, stages.length > 8 ? 11 : 15, part);
  const closer = (width) => lanes(width, [...stages, ...side], part, 23);
  return [
    legend([categories], passColour, (c) => (c === "passes" ? "passes of other micro-batches" : words(c))),
    html`<${ChosenByDragging} label="the whole step on every stage" choose=${choose} draw=${overview} />`,
    html`<h3>${seconds(part[0])} to ${seconds(part[1])}, pass by pass</h3>`,
    timeButtons(part, whole[1], choose),
    html`<${ChosenByDragging} label="a part of the step" choose=${choose} draw=${closer} />`,
    side.length > 0 && html`<p class="small">Streams without a number are beside stage ${timeline.busiest_stage}.</p>`,
  ];
}

function pipelineSection({ data, shown, winner }) {
  const { timeline } = data.step ?? {};
  if (!timeline || shown !== winner) return "";
  const busiest = ` Stage ${timeline.busiest_stage} is the busiest, ${percent(shown.bubble)} of its pipeline time is bubble.`;
  return section(
    "pipeline",
    "The pipeline's timeline",
    `One step on every pipeline stage.${timeline.stages.length > 1 ? busiest : ""} Drag over a part of either drawing to see it in full, double-click for the start.`,
    html`<${Timeline} timeline=${timeline} />`,
  );
}
