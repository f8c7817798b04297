// Operators on the roofline, and communication by link.

// --- the roofline ---

const kPassColours = { forward: "--forward", dgrad: "--backward", wgrad: "--weights", backward: "--both" };
const kernelColour = (pass) => `var(${kPassColours[pass]})`;

function kernelPoint({ label, pass, shape, flops, moved_bytes, flops_per_s, peak_flops_per_s, time_s, bound_by }) {
  const rates = `${tflops(flops_per_s / 1e12)}, ${percent(flops_per_s / peak_flops_per_s)} of peak`;
  const intensity = `${significant(flops / moved_bytes, 3)} FLOP/B, ${seconds(time_s)}, bound by ${bound_by}`;
  return { pass, x: flops / moved_bytes, y: flops_per_s, tip: `${label} ${pass} ${shape ?? ""}\n${rates}\n${intensity}` };
}

function rooflineChart({ peak_flops_per_s: peak, memory_bytes_per_s, achieved_memory_bytes_per_s }, points) {
  const ridge = peak / memory_bytes_per_s;
  const low = Math.min(ridge / 10, ...points.map((p) => p.x)) / 1.5;
  const high = Math.max(ridge * 20, ...points.map((p) => p.x)) * 1.5;
  const least = Math.min(peak / 10, ...points.map((p) => p.y)) / 1.3;
  // From the left edge, or from the lowest rate that is drawn, up to the peak.
  const roof = (bytes_per_s) =>
    [Math.max(low, least / bytes_per_s), peak / bytes_per_s].map((x) => ({ x, y: Math.min(peak, x * bytes_per_s) }));
  const marks = [
    Plot.line([...roof(memory_bytes_per_s), { x: high, y: peak }], xy({ stroke: "var(--soft)" })),
    Plot.line(roof(achieved_memory_bytes_per_s), xy(kDashed)),
    Plot.dot(points, xy({ r: (p) => (p.pass === "forward" ? 7 : 4.5), fill: (p) => kernelColour(p.pass), stroke: "var(--paper)" })),
  ];
  const ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1].map((share) => share * peak).filter((v) => v >= least);
  const tickFormat = (v) => `${significant(v / 1e12, 3)} (${Math.round((100 * v) / peak)} %)`;
  const x = { type: "log", domain: [low, high], label: "FLOPs per byte of device memory moved", ticks: roundValues(low, high, [1]) };
  const y = { type: "log", domain: [least, 1.6 * peak], label: "TFLOP/s, share of peak", ticks, tickFormat };
  const draw = (width) => axes(width, { height: 350, marginLeft: 96, x, y, r: { type: "identity" }, points, marks });
  return html`<${Chart} label="kernels on the roofline" draw=${draw} />`;
}

const kKernelColumns = [
  wordColumn("label", "kernel", (k) => k.label),
  wordColumn("pass", "pass", (k) => k.pass),
  wordColumn("shape", "shape", (k) => k.shape ?? ""),
  timeColumn("time_s", "time", (k) => k.time_s),
  exactColumn((v) => tflops(v / 1e12), "FLOP/s", (v) => v / 1e12)("flops_per_s", "rate", (k) => k.flops_per_s),
  column("share", "of peak", (k) => k.flops_per_s / k.peak_flops_per_s, percent, (v) => 100 * v),
  wordColumn("bound_by", "bound by", (k) => k.bound_by),
];

function rooflineSection({ data, shown, winner }) {
  const { gemm = [], attention = [], roofline } = data.step ?? {};
  const kernels = [...gemm, ...attention].filter((k) => k.moved_bytes > 0);
  if (kernels.length === 0 || shown !== winner) return "";
  const terabytes = (value) => `${significant(value / 1e12, 3)} TB/s`;
  const passes = kernels.map((k) => ({ [k.pass]: 0 }));
  // Forward first, so that the smaller marks of the others lie on it.
  const points = kernels.map(kernelPoint).sort((a, b) => (b.pass === "forward") - (a.pass === "forward"));
  return section(
    "roofline",
    "Roofline of the operators",
    `Every GEMM and attention kernel of a layer, the embedding and the head, as fast as it runs within the step. Peak ${tflops(roofline.peak_flops_per_s / 1e12)} in ${roofline.format}, memory ${terabytes(roofline.memory_bytes_per_s)} by the data sheet (dashed: the ${terabytes(roofline.achieved_memory_bytes_per_s)} that copies reach).`,
    [
      legend(passes, kernelColour),
      rooflineChart(roofline, points),
      html`<details><summary>All ${kernels.length} kernels</summary>
        ${table("kernels", "kernels", kKernelColumns, kernels, { filter: "filter: mlp rate<500" })}</details>`,
    ],
  );
}

// --- communication ---

function communicationSection({ shown, data, winner }) {
  const rows = shown.communication.filter((c) => c.ranks > 1 && c.time_s > 0).sort((a, b) => b.time_s - a.time_s);
  if (rows.length === 0) return "";
  const places = (shown === winner && data.step?.collective) || [];
  const place = (row) => places.find((p) => p.group === row.group && p.ranks === row.ranks);
  const link = (row) => (place(row) ? (place(row).domains > 1 ? "network" : "scale-up") : "");
  const busbw = ({ collective, group }) =>
    places.filter((p) => p.collective === collective && p.group === group).sort((a, b) => b.count * b.time_s - a.count * a.time_s)[0]
      ?.busbw_bytes_per_s;
  const longest = rows[0].time_s;
  const bar = (row) => shareBar(row.time_s / longest, Math.min(row.exposed_s, row.time_s) / longest);
  const columns = [
    wordColumn("collective", "collective", (row) => words(row.collective)),
    wordColumn("group", "group", (row) => words(row.group)),
    countColumn("ranks", "ranks", (row) => row.ranks),
    wordColumn("link", "link", link, { show: (row) => html`<span title=${place(row)?.place}>${link(row)}</span>` }),
    exactColumn(rate, "bytes/s")("busbw", "bus bandwidth", busbw),
    countColumn("count", "calls", (row) => row.count),
    bytesColumn("bytes", "bytes", (row) => row.bytes),
    timeColumn("time_s", "time", (row) => row.time_s),
    timeColumn("exposed_s", "exposed", (row) => row.exposed_s),
    wordColumn("bar", "of the longest", (row) => row.time_s, { show: bar }),
  ];
  const exposed = rows.reduce((sum, row) => sum + row.exposed_s, 0),
    contention = shown.breakdown_s.contention ?? 0;
  const slows = contention > 0 ? ` What runs beside compute slows it down by another ${seconds(contention)}.` : "";
  return section(
    "communication",
    "Communication by link",
    `${seconds(exposed)} of it is waited for, ${percent(exposed / shown.step_time_s, 2)} of the step; the pale part of a bar is hidden behind compute.${slows}`,
    table("communication", "collectives", columns, rows),
  );
}
