// Operators on the roofline, and communication by link.

// --- the roofline ---

function rooflineSection(page) {
  const { step } = page.data;
  if (!step || page.shown !== page.winner) return "";
  const kernels = [...step.gemm, ...step.attention].filter((k) => k.moved_bytes > 0);
  if (kernels.length === 0) return "";
  const { roofline } = step,
    peak = roofline.peak_flops_per_s,
    memory = roofline.memory_bytes_per_s;
  const intensity = (k) => k.flops / k.moved_bytes;
  const ridge = peak / memory;
  const low = Math.min(ridge / 10, ...kernels.map(intensity)) / 1.5;
  const high = Math.max(ridge * 20, ...kernels.map(intensity)) * 1.5;
  const least = Math.min(peak / 10, ...kernels.map((k) => k.flops_per_s)) / 1.3;
  const [left, right, top, bottom] = [120, kWidth - 12, 30, 330];
  const x = logarithmic(low, high, left, right),
    y = logarithmic(least, peak * 1.6, bottom, top);
  const edge = Math.max(low, least / memory);
  const colours = {
    forward: "var(--forward)",
    dgrad: "var(--backward)",
    wgrad: "var(--weights)",
    backward: "var(--both)",
  };
  const yTicks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
    .map((s) => [s * peak, s])
    .filter(([v]) => v >= least)
    .map(([v, share]) => [v, `${significant(v / 1e12, 3)} (${100 * share} %)`]);
  return section(
    "roofline",
    "Roofline of the operators",
    `Every GEMM and attention kernel of a layer, the embedding and the head, as fast as it runs within the step. Peak ${tflops(peak / 1e12)} in ${roofline.format}, memory ${significant(memory / 1e12, 3)} TB/s by the data sheet (dashed: the ${significant(roofline.achieved_memory_bytes_per_s / 1e12, 3)} TB/s that copies reach).`,
    [
      legend([...new Set(kernels.map((k) => k.pass))].map((p) => [p, colours[p]])),
      svg(
        374,
        [
          frame({
            left,
            right,
            top,
            bottom,
            x,
            y,
            xTicks: decades(low, high).map((v) => [v, tickText(v)]),
            yTicks,
            xTitle: "FLOPs per byte of device memory moved",
            yTitle: "TFLOP/s, share of peak",
          }),
          path(
            [
              [x(edge), y(edge * memory)],
              [x(ridge), y(peak)],
              [x(high), y(peak)],
            ],
            "roof",
          ),
          path(
            [
              [
                x(Math.max(low, least / roofline.achieved_memory_bytes_per_s)),
                y(Math.max(low * roofline.achieved_memory_bytes_per_s, least)),
              ],
              [x(peak / roofline.achieved_memory_bytes_per_s), y(peak)],
            ],
            "roof achieved",
          ),
          [...kernels]
            .sort((a, b) => (b.pass === "forward") - (a.pass === "forward"))
            .map((k) =>
              dot(
                x(intensity(k)),
                y(k.flops_per_s),
                k.pass === "forward" ? 7 : 4.5,
                colours[k.pass],
                `${k.label} ${k.pass}${k.shape ? ` ${k.shape}` : ""}: ${significant(k.flops_per_s / 1e12)} TFLOP/s, ${percent(k.flops_per_s / k.peak_flops_per_s)} of peak, ${significant(intensity(k), 3)} FLOP/B, ${seconds(k.time_s)}, bound by ${k.bound_by}`,
                "mark",
              ),
            ),
        ],
        "roofline",
      ),
    ],
  );
}

// --- communication ---

function communicationSection({ shown, data, winner }) {
  const rows = shown.communication
    .filter((c) => c.ranks > 1 && c.time_s > 0)
    .sort((a, b) => b.time_s - a.time_s);
  if (rows.length === 0) return "";
  const places = shown === winner ? (data.step?.collective ?? []) : [];
  const place = (row) => places.find((p) => p.group === row.group && p.ranks === row.ranks);
  const link = (row) => (place(row) ? (place(row).domains > 1 ? "network" : "scale-up") : "");
  const speed = (row) => {
    const found = places.filter((p) => p.collective === row.collective && p.group === row.group);
    const most = found.sort((a, b) => b.count * b.time_s - a.count * a.time_s)[0];
    return most ? exact(rate(most.busbw_bytes_per_s), most.busbw_bytes_per_s, "bytes/s") : "";
  };
  const longest = rows[0].time_s,
    exposed = rows.reduce((sum, row) => sum + row.exposed_s, 0);
  const linked = places.length > 0,
    contention = shown.breakdown_s.contention ?? 0;
  return section(
    "communication",
    "Communication by link",
    `${seconds(exposed)} of it is waited for, ${percent(exposed / shown.step_time_s, 2)} of the step; the pale part of a bar is hidden behind compute.${contention > 0 ? ` What runs beside compute slows it down by another ${seconds(contention)}.` : ""}`,
    markup`<table class="bars"><thead><tr><th class="text">collective</th><th class="text">group</th><th>ranks</th>
      ${linked && markup`<th class="text">link</th><th>bus bandwidth</th>`}<th>calls</th><th>bytes</th><th>time</th><th>exposed</th><th></th></tr></thead>
      <tbody>${rows.map(
        (
          row,
        ) => markup`<tr><td class="text">${words(row.collective)}</td><td class="text">${words(row.group)}</td>
      <td>${row.ranks}</td>${linked && markup`<td class="text" data-tip="${place(row)?.place ?? ""}">${link(row)}</td><td>${speed(row)}</td>`}
      <td>${grouped(row.count)}</td><td>${exact(bytes(row.bytes, 3), row.bytes, "bytes")}</td>
      <td>${exact(seconds(row.time_s, 3), row.time_s, "s")}</td><td>${exact(seconds(row.exposed_s, 3), row.exposed_s, "s")}</td>
      <td class="bar"><i class="hidden" style="width:${((100 * row.time_s) / longest).toFixed(2)}%"></i><i class="over"
      style="width:${((100 * Math.min(row.exposed_s, row.time_s)) / longest).toFixed(2)}%"></i></td></tr>`,
      )}</tbody></table>`,
  );
}
