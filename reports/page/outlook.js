// More and fewer devices, and what would change the answer.

// --- more and fewer devices ---

function scalingSection({ data, winner }) {
  const points = (data.scaling ?? []).filter((s) => s.plan);
  if (points.length < 2) return "";
  const base = throughput(winner) / devices(winner);
  const [left, right, top, bottom] = [80, 620, 30, 260];
  const counts = points.map((s) => s.num_devices);
  const rates = points.map((s) => throughput(s.plan));
  const x = logarithmic(counts[0] / 1.2, counts.at(-1) * 1.2, left, right);
  const [low, high] = [Math.min(...rates) / 1.4, Math.max(...rates, base * counts.at(-1)) * 1.2];
  const y = logarithmic(low, high, bottom, top);
  const yTicks = decades(low / 10, high)
    .flatMap((v) => [v, 2 * v, 5 * v])
    .filter((v) => v >= low && v <= high);
  const chart = markup`<svg viewBox="0 0 640 304" role="img" aria-label="scaling">${[
    frame({
      left,
      right,
      top,
      bottom,
      x,
      y,
      xTicks: counts.map((c) => [c, grouped(c)]),
      yTicks: yTicks.map((v) => [v, short(v)]),
      xTitle: "devices",
      yTitle: "tokens/s",
    }),
    path(
      counts.map((c) => [x(c), y(base * c)]),
      "ideal",
    ),
    path(
      points.map((s) => [x(s.num_devices), y(throughput(s.plan))]),
      "front",
    ),
    points.map((s) =>
      dot(
        x(s.num_devices),
        y(throughput(s.plan)),
        5,
        "var(--accent)",
        `${grouped(s.num_devices)} devices: ${grouped(throughput(s.plan))} tokens/s, ${s.plan.strategy}`,
        "mark",
      ),
    ),
  ]}</svg>`;
  const table = markup`<table><thead><tr><th>devices</th><th>step</th><th>MFU</th><th>efficiency</th><th>fits</th><th class="text">layout</th></tr></thead>
    <tbody>${data.scaling.map((s) =>
      s.plan
        ? markup`<tr class="${s.plan.run.hardware.num_devices === devices(winner) ? "chosen" : ""}"><td>${grouped(s.num_devices)}</td>
    <td>${exact(seconds(s.plan.step_time_s), s.plan.step_time_s, "s")}</td><td>${percent(utilisation(s.plan).mfu)}</td>
    <td>${percent(throughput(s.plan) / s.num_devices / base)}</td><td>${percent(s.plan.memory.fit_probability)}</td>
    <td class="text small">${s.plan.strategy}</td></tr>`
        : markup`<tr><td>${grouped(s.num_devices)}</td><td class="text" colspan="5">nothing fits</td></tr>`,
    )}</tbody></table>`;
  return section(
    "scaling",
    "Fewer and more devices",
    `The same ${grouped(trained(winner).global_batch)} sequences a step, planned anew for each number of devices. Efficiency is of the throughput per device, relative to ${grouped(devices(winner))}; the dashed line keeps it.`,
    markup`<div class="beside">${chart}<div class="scroll">${table}</div></div>`,
  );
}

// --- what would change it ---

function changesSection({ data }) {
  const changes = (data.changes ?? []).filter(
    (c) =>
      c.fits &&
      (Math.abs(c.relative_time - 1) >= 1e-3 || Math.abs((c.planned_time ?? 1) - 1) >= 1e-3),
  );
  const switches = (data.assumed_switches ?? []).filter((s) => Math.abs(s.other_way - 1) >= 0.005);
  if (changes.length === 0 && switches.length === 0) return "";
  const signed = (ratio) =>
    isNumber(ratio) && ratio !== 1
      ? `${ratio < 1 ? "−" : "+"}${significant(Math.abs(100 * (ratio - 1)), 2)} %`
      : ratio === 1
        ? "0 %"
        : "";
  const best = (c) => Math.min(c.relative_time, c.planned_time ?? c.relative_time);
  return section(
    "changes",
    "What would change it",
    "One thing changed at a time, and what the step's time then does.",
    [
      changes.length
        ? markup`<table><thead><tr><th class="text">change</th><th>step</th><th>planned anew</th><th>fits</th></tr></thead>
      <tbody>${changes
        .sort((a, b) => best(a) - best(b))
        .slice(0, 16)
        .map(
          (c) => markup`<tr><td class="text">${c.change}</td>
      <td>${signed(c.relative_time)}</td><td>${signed(c.planned_time)}</td><td>${percent(c.fit_probability)}</td></tr>`,
        )}</tbody></table>`
        : "",
      switches.length
        ? markup`<p>Assumed switches, and what the other way would do: ${switches.map(
            (s, i) => markup`${i ? "; " : ""}${words(s.key)}
      is ${s.on ? "on" : "off"} (${signed(s.other_way)})`,
          )}.</p>`
        : "",
    ],
  );
}
