// Charts by Observable Plot, drawn to the width of their place and again when it changes.

const { Plot, useEffect, useLayoutEffect, useRef, useState } = libraries;

// What draws itself by the width of its place: called again when the page is printed.
const drawnToWidth = new Set();

// A drawing that draw(width) makes, an SVG element, whose name screen readers say.
function Chart({ label, draw, drawn }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    let last = 0;
    const redraw = () => {
      const width = place.current?.clientWidth ?? 0;
      if (width === 0 || width === last) return;
      last = width;
      const svg = draw(width);
      // The names of marks are none that screen readers may say: the drawing is one image.
      for (const mark of svg.querySelectorAll("[aria-label]")) {
        mark.dataset.mark = mark.getAttribute("aria-label");
        mark.removeAttribute("aria-label");
      }
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", label);
      place.current.replaceChildren(svg);
      drawn?.(svg);
    };
    redraw();
    const observer = new ResizeObserver(() => requestAnimationFrame(redraw));
    observer.observe(place.current);
    drawnToWidth.add(redraw);
    return () => {
      observer.disconnect();
      drawnToWidth.delete(redraw);
    };
  });
  return html`<div class="chart" ref=${place}></div>`;
}

const kStyle = { fontSize: "12px", overflow: "visible" };
const narrow = (width) => width < 560;
const plotted = (width, { marks, ...options }) =>
  Plot.plot({ width, color: { type: "identity" }, style: kStyle, ...options, marks: marks.filter(Boolean) });

// Marks {x, y, tip} between two axes, under what the pointer says of them.
const axes = (width, { points, marks, ...options }) =>
  plotted(width, {
    marginLeft: 56,
    marginTop: 28,
    marginBottom: 40,
    ...options,
    x: { grid: true, tickFormat: tickText, ...options.x },
    y: { grid: true, tickFormat: tickText, ...options.y },
    marks: [...marks, tips(points)],
  });

const xy = (more) => ({ x: "x", y: "y", ...more });
const tips = (marks) => Plot.tip(marks, Plot.pointer(xy({ title: "tip", lineWidth: 24, fontSize: 12 })));
const kDashed = { stroke: "var(--soft)", strokeDasharray: "5 4" };
const kLimit = { stroke: "var(--limit)", strokeDasharray: "5 4" };
const tickText = (value) => String(Number(value.toPrecision(6)));

// Round values on a logarithmic axis: 1, 2 and 5 of each power of ten, or the powers alone.
function roundValues(from, to, factors = [1, 2, 5]) {
  const list = [];
  for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; ++power)
    list.push(...factors.map((f) => f * 10 ** power).filter((v) => v >= from && v <= to));
  return list;
}

// --- colours ---

const kParts =
  "GEMMs,attention,recomputation,memory-bound kernels,communication,pipeline bubble,host,slowest device,the rest".split(",");
const partColour = (part) => `var(--part-${Math.max(0, kParts.indexOf(part))})`;

// What lasts is blue, what a step makes is green, the logits stand out, buffers are grey.
const kMemory = [
  ["weights"], ["gathered_weights", "cast_weights"], ["gradients"], ["main_gradients", "gradient_buffers"], ["master_weights"],
  ["optimizer_states"], ["activations"], ["recomputed_activations"], ["activation_gradients"], ["logits"],
  ["optimizer_temporaries"], ["pipeline_buffers", "dispatch_buffers"], ["gradient_buckets"],
  ["workspaces", "buffers", "framework"], ["gaps"], ["context"],
];
const kOther = 13;
const kPale = [4, 5, 8, 14, 15].map((i) => `var(--memory-${i})`); // too light for white
function memoryColour(term) {
  const i = kMemory.findIndex((terms) => terms.includes(term));
  return `var(--memory-${i < 0 ? kOther : i})`;
}

// The names of what objects have, each once, with their colours.
function legend(objects, colour, write = words) {
  const names = [...new Set(objects.flatMap((object) => Object.keys(object)))];
  const entry = (name) => html`<li><i style="background:${colour(name)}"></i>${write(name)}</li>`;
  return html`<ul class="legend">${names.map(entry)}</ul>`;
}

// --- bars ---

// Rows {name, pieces} of bars, each cut in pieces {name, value, colour, tip}, of which those that have room say their names;
// `title` is that of the axis in `unit`, a limit {value, name} may stand on it.
function StackedBars({ label, rows, title, unit = 1, limit }) {
  const pieces = rows.flatMap((row) => {
    let to = 0;
    return row.pieces.map((piece) => {
      const from = to;
      to += piece.value / unit;
      return { ...piece, row: row.name, y: row.name, from, to, x: (from + to) / 2 };
    });
  });
  const most = 1.02 * Math.max(...pieces.map((piece) => piece.to), (limit?.value ?? 0) / unit);
  const longest = Math.max(...rows.map((row) => row.name.length));
  const draw = (width) => {
    const marginLeft = title ? Math.min(0.36 * width, 7 * longest + 14) : 0;
    const says = ({ from, to, name }) => ((to - from) / most) * (width - marginLeft - 12) > 6.8 * name.length + 8;
    const textColour = (piece) => (kPale.includes(piece.colour) ? "#14181c" : "var(--inside)");
    const limitText = { x: most / 1.02, frameAnchor: "top", textAnchor: "end", dx: 2, dy: -14, fill: "var(--limit)" };
    return plotted(width, {
      marginLeft,
      marginRight: 12,
      marginTop: limit ? 20 : 4,
      marginBottom: title ? 36 : 4,
      height: rows.length * 32 + (title ? 40 : 8) + (limit ? 16 : 0),
      x: { domain: [0, most], label: title, axis: title ? "bottom" : null, grid: Boolean(title) },
      y: { axis: title ? "left" : null, domain: rows.map((row) => row.name), label: null, tickSize: 0, padding: 0.18 },
      marks: [
        Plot.barX(pieces, { x1: "from", x2: "to", y: "y", fill: "colour" }),
        Plot.text(pieces.filter(says), xy({ text: "name", fill: textColour })),
        limit && Plot.ruleX([limit.value / unit], kLimit),
        limit && Plot.text([limit], { ...limitText, x: limit.value / unit, text: "name" }),
        tips(pieces),
      ],
    });
  };
  return html`<${Chart} label=${label} draw=${draw} />`;
}

// The parts of steps, of plans by their names.
function partsChart(label, plans, title = "step time, s") {
  const pieces = (row, { parts_s, step_time_s }) =>
    Object.entries(parts_s).map(([part, value]) => {
      const share = value / step_time_s;
      const tip = `${row && `${row}: `}${part}\n${seconds(value)}, ${percent(share)}`;
      return { name: `${part} ${percent(share, 2)}`, value, colour: partColour(part), tip };
    });
  const rows = Object.entries(plans).map(([name, plan]) => ({ name, pieces: pieces(name, plan) }));
  const parts = Object.values(plans).map((plan) => plan.parts_s);
  return [legend(parts, partColour), html`<${StackedBars} label=${label} title=${title} rows=${rows} />`];
}

// Memory by its terms, {name: terms}, under what a device can use.
function memoryChart(label, all, capacity) {
  const pieces = (row, terms) =>
    Object.entries(terms).map(([term, value]) => {
      const tip = `${row}, ${words(term)}\n${bytes(value)} (${grouped(value)} bytes)`;
      return { name: words(term), value, colour: memoryColour(term), tip };
    });
  const rows = Object.entries(all).map(([name, terms]) => ({ name, pieces: pieces(name, terms) }));
  const limit = { value: capacity, name: `usable ${bytes(capacity)}` };
  return [
    legend(Object.values(all), memoryColour),
    html`<${StackedBars} label=${label} title="memory, ${settings.bytes}" unit=${kBytes[settings.bytes]} limit=${limit} rows=${rows} />`,
  ];
}

// A small bar of a step's parts, for a row of a table.
function sparkBar(parts, longest) {
  const part = ([name, time]) =>
    html`<i title="${name} ${seconds(time)}" style="width:${(100 * time) / longest}%;background:${partColour(name)}"></i>`;
  return html`<span class="spark" role="img" aria-label="parts of the step">${Object.entries(parts).map(part)}</span>`;
}

// A bar of a share of the longest, and what of it lies over it.
const shareBar = (share, over = share) =>
  html`<span class="bar"><i class="under" style="width:${100 * share}%"></i><i style="width:${100 * over}%"></i></span>`;

// An estimate on its interval.
function intervalBar(estimate, [low, high], write) {
  const room = (high - low) / 4;
  const draw = (width) =>
    plotted(width, {
      height: 40,
      margin: 4,
      marginBottom: 22,
      x: { domain: [low - room, high + room], axis: null },
      y: { axis: null },
      marks: [
        Plot.link([0], { x1: low, x2: high, y: 0, stroke: "var(--soft)", strokeWidth: 3 }),
        Plot.dot([0], { x: estimate, y: 0, r: 5, fill: "var(--accent)" }),
        Plot.text([low, high], { x: [low, high], y: 0, dy: 20, text: write }),
      ],
    });
  return html`<${Chart} label="${write(low)} to ${write(high)}" draw=${draw} />`;
}

// --- labels that do not lie on each other ---

// Places for the labels of marks {x, y, text} in pixels: {x, y, text, anchor}.  Marks that touch have one label together; a label
// that has no room beside them and `others`, right of the axis at `leftmost`, is left out.
function placedLabels(marks, others, leftmost) {
  const groups = [];
  for (const { x, y, text } of marks) {
    const near = groups.find((g) => Math.hypot(g.x - x, g.y - y) < 13);
    if (near) near.text += `, ${text}`;
    else groups.push({ x, y, text });
  }
  const taken = [...groups, ...others].map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const free = ([left, top, right, bottom]) =>
    left > leftmost && taken.every((t) => right < t[0] || left > t[2] || bottom < t[1] || top > t[3]);
  // To a side of the mark, 0 at its left and 1 at its right, so many pixels lower.
  const sides = [1, 0].flatMap((side) => [-9, 11, 0].map((lower) => ({ side, lower })));
  return groups.flatMap((group) => {
    const wide = 7 * group.text.length; // of a digit at 12 pixels, with some room
    for (const { side, lower } of sides) {
      const x = group.x + (side ? 9 : -9),
        y = group.y + lower;
      const box = [side ? x : x - wide, y - 8, side ? x + wide : x, y + 8];
      if (!free(box)) continue;
      taken.push(box);
      return [{ x, y, text: group.text, anchor: side ? "start" : "end" }];
    }
    return [];
  });
}
