// Where a step's time and memory go.

// --- where the time goes ---

function timeSection({ shown, winner }) {
  const [largest, time] = Object.entries(shown.parts_s)[0];
  const terms = Object.entries(shown.breakdown_s).sort(([, a], [, b]) => b - a);
  const longest = terms[0][1];
  const against = ([name, value]) => value - (winner.breakdown_s?.[name] ?? 0);
  const columns = [
    wordColumn("term", "term", ([name]) => words(name)),
    timeColumn("time", "time", ([, value]) => value),
    column("share", "share", ([, value]) => value / shown.step_time_s, (v) => percent(v, 2), (v) => 100 * v),
    column("difference", "against first", against, (v) => (shown === winner ? "" : signed(v, (t) => seconds(t, 3)))),
    wordColumn("bar", "of the longest", ([, value]) => value, { show: ([, value]) => shareBar(value / longest) }),
  ];
  return section(
    "time",
    "Where the step's time goes",
    `${largest} take ${percent(time / shown.step_time_s, 2)} of ${seconds(shown.step_time_s)}. The terms add up to the step of the busiest pipeline stage.`,
    [partsChart("parts of the step", { "": shown }, ""), table("terms", "terms of the step", columns, terms)],
  );
}

// --- memory ---

// As `predict --explain memory` lists them, largest first.
const kTensorColumns = [
  wordColumn("tensor", "tensor", (row) => row.tensor),
  wordColumn("shape", "shape of one", (row) => row.shape),
  wordColumn("dtype", "format", (row) => row.dtype),
  countColumn("layers", "layers", (row) => row.layers),
  countColumn("micro_batches", "micro-batches in flight", (row) => row.micro_batches),
  bytesColumn("size_bytes", "size of all", (row) => row.size_bytes),
  wordColumn("why", "why it lives", (row) => row.why),
];

function memorySection({ shown, winner, data }) {
  const { memory, interval_level } = shown,
    { peak } = memory;
  const needed = (s) => (s.stage === peak.stage ? neededTerms({ ...peak, terms: s.terms }) : s.terms);
  const stages = Object.fromEntries(memory.stages.map((s) => [`stage ${s.stage}, ${s.phase}`, needed(s)]));
  const phases = Object.fromEntries(memory.timeline.map((p) => [p.phase, p.terms]));
  const [low, high] = memory.peak_interval_bytes;
  const tensors = (shown === winner && data.step?.memory) || [];
  const passes = `${peak.passes_in_flight} forward ${peak.passes_in_flight === 1 ? "pass" : "passes"} in flight`;
  return section(
    "memory",
    "Memory of a device",
    `${bytes(peak.needed_bytes)} needed of ${bytes(memory.capacity_bytes)}: it fits with ${percent(memory.fit_probability)} probability. The peak of ${bytes(memory.peak_bytes)} (${bytes(low)} to ${bytes(high)} with ${percent(interval_level, 2)}) is on stage ${peak.stage}, in the ${peak.phase} phase, with ${passes}; allocator gaps and the driver's context come on top.`,
    [
      html`<h3>By pipeline stage, at its peak</h3>`,
      memoryChart("memory by pipeline stage", stages, memory.capacity_bytes),
      html`<h3>Through the step, on stage ${peak.stage}</h3>`,
      memoryChart("memory through the step", phases, memory.capacity_bytes),
      tensors.length > 0 && [
        html`<h3>At the peak, tensor by tensor</h3>`,
        table("tensors", "tensors at the peak", kTensorColumns, tensors, { filter: "filter: saved size_bytes>1" }),
      ],
    ],
  );
}
