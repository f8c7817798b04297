// Where a step's time and memory go.

// --- where the time goes ---

function timeSection({ shown, winner }) {
  const parts = Object.entries(shown.parts_s);
  const scale = kWidth / shown.step_time_s;
  const pieces = parts.map(([name, time]) => [
    `${name} ${percent(time / shown.step_time_s, 2)}`,
    time,
    partColour(name),
    `${name}: ${seconds(time)}, ${percent(time / shown.step_time_s)} (${time} s)`,
  ]);
  const others = shown === winner ? {} : winner.breakdown_s;
  const terms = Object.entries(shown.breakdown_s).sort(([, a], [, b]) => b - a);
  const longest = terms[0][1];
  const largest = parts[0];
  return section(
    "time",
    "Where the step's time goes",
    `${largest[0]} take ${percent(largest[1] / shown.step_time_s, 2)} of ${seconds(shown.step_time_s)}. The terms add up to the step of the busiest pipeline stage.`,
    [
      svg(34, stack(0, 2, 30, pieces, scale), "parts of the step"),
      legend(parts.map(([name]) => [name, partColour(name)])),
      markup`<table class="bars"><thead><tr><th class="text">term</th><th>time</th><th>share</th>
      ${shown !== winner ? markup`<th>against first</th>` : ""}<th></th></tr></thead><tbody>${terms.map(
        ([name, time]) => markup`<tr>
      <td class="text">${words(name)}</td><td>${exact(seconds(time), time, "s")}</td>
      <td>${percent(time / shown.step_time_s, 2)}</td>
      ${shown !== winner ? markup`<td>${difference(time - (others[name] ?? 0))}</td>` : ""}
      <td class="bar"><i style="width:${((100 * time) / longest).toFixed(2)}%"></i></td></tr>`,
      )}</tbody></table>`,
    ],
  );
}

const difference = (time) => `${time < 0 ? "−" : "+"}${seconds(Math.abs(time), 3)}`;

// --- memory ---

function memoryBars(rows, capacity, most) {
  const left = 110,
    height = 26,
    gap = 8,
    bottom = rows.length * (height + gap) + 6;
  const scale = (kWidth - left - 12) / most;
  const x = (value) => left + value * scale;
  const axis = ticks(0, bytesIn(most)).map((v) => [v * kBytes[settings.bytes], tickText(v)]);
  return svg(
    bottom + 34,
    [
      axis.map(([v, text]) => [
        line(x(v), 0, x(v), bottom),
        label(x(v), bottom + 16, text, "tick middle"),
      ]),
      label(left - 10, bottom + 16, settings.bytes, "tick end"),
      rows.map(([name, pieces, tip], i) => {
        const y = 4 + i * (height + gap);
        return [
          label(left - 10, y + height / 2 + 4, name, "name end"),
          stack(
            left,
            y,
            height,
            Object.entries(pieces).map(([term, size]) => [
              words(term),
              size,
              memoryColour(term),
              `${tip}, ${words(term)}: ${bytes(size)} (${grouped(size)} bytes)`,
            ]),
            scale,
          ),
        ];
      }),
      capacity <= most
        ? [
            line(x(capacity), 0, x(capacity), bottom, "limit"),
            label(x(capacity) - 5, bottom + 30, `usable ${bytes(capacity)}`, "limit end"),
          ]
        : "",
    ],
    "memory",
  );
}

function memorySection({ shown, winner }) {
  const { memory } = shown,
    { peak } = memory;
  const sum = (terms) => Object.values(terms).reduce((a, b) => a + b, 0);
  const stages = memory.stages.map((s) => [
    `stage ${s.stage}`,
    {
      ...s.terms,
      ...(s.stage === peak.stage ? { gaps: peak.gaps_bytes, context: peak.context_bytes } : {}),
    },
    `stage ${s.stage}, ${s.phase}`,
  ]);
  const phases = memory.timeline.map((p) => [p.phase, p.terms, p.phase]);
  const most = 1.02 * Math.max(memory.capacity_bytes, ...stages.map(([, t]) => sum(t)));
  const names = [...new Set([...stages, ...phases].flatMap(([, terms]) => Object.keys(terms)))];
  const [low, high] = memory.peak_interval_bytes;
  const where = [`stage ${peak.stage}`, `the ${peak.phase} phase`].join(", in ");
  return section(
    "memory",
    "Memory of a device",
    `${bytes(peak.needed_bytes)} needed of ${bytes(memory.capacity_bytes)}: it fits with ${percent(memory.fit_probability)} probability. The peak of ${bytes(memory.peak_bytes)} (${bytes(low)} to ${bytes(high)} with ${percent(shown.interval_level, 2)}) is on ${where}, with ${peak.passes_in_flight} forward ${peak.passes_in_flight === 1 ? "pass" : "passes"} in flight; allocator gaps and the driver's context come on top.`,
    [
      legend(names.map((name) => [words(name), memoryColour(name)])),
      markup`<h3>By pipeline stage, at its peak</h3>`,
      memoryBars(stages, memory.capacity_bytes, most),
      markup`<h3>Through the step, on stage ${peak.stage}</h3>`,
      memoryBars(phases, memory.capacity_bytes, most),
      ...(shown === winner ? tensorTable(data.step?.memory ?? []) : []),
    ],
  );
}

// The tensors at the peak, largest first, as `predict --explain memory` lists them.
function tensorTable(rows) {
  if (rows.length === 0) return [];
  return [
    markup`<h3>At the peak, tensor by tensor</h3>`,
    markup`<table><thead><tr><th class="text">tensor</th><th class="text">shape of one</th><th class="text">format</th>
    <th>layers</th><th>micro-batches in flight</th><th>size of all</th><th class="text">why it lives</th></tr></thead><tbody>${rows.map(
      (row) => markup`<tr><td class="text">${row.tensor}</td><td class="text">${row.shape}</td><td class="text">${row.dtype}</td>
      <td>${row.layers ?? ""}</td><td>${row.micro_batches ?? ""}</td>
      <td>${exact(bytes(row.size_bytes), row.size_bytes, "bytes")}</td><td class="text">${row.why}</td></tr>`,
    )}</tbody></table>`,
  ];
}
