// The strategies: their ranking, time against memory, what was looked at.

// --- the ranking ---

function rankingTable(page) {
  const best = page.winner.step_time_s;
  const longest = Math.max(...page.candidates.map((c) => c.plan.step_time_s));
  const of = (key) => (row) => trained(row.plan)[key];
  const count = (key, head) => ({ key, head, value: of(key) });
  const recompute = (row) =>
    (row.plan.strategy.match(/recompute ([^,]*)/)?.[1] ?? "")
      .replace("selective=", "")
      .replace("layernorm", "norm")
      .replace("activation", "act");
  const columns = [
    { key: "place", head: "#", value: (row) => row.order, show: (row) => row.place },
    count("tp", "tp"),
    count("pp", "pp"),
    count("virtual_stages", "vs"),
    count("cp", "cp"),
    count("dp", "dp"),
    count("ep", "ep"),
    { key: "sharding", head: "sharding", value: of("sharding"), text: true },
    count("micro_batch", "mbs"),
    { key: "recompute", head: "recompute", value: recompute, text: true },
    {
      key: "step_time_s",
      head: "step",
      value: (row) => row.plan.step_time_s,
      show: (row) => exact(seconds(row.plan.step_time_s), row.plan.step_time_s, "s"),
    },
    {
      key: "relative",
      head: "to first",
      value: (row) => row.plan.step_time_s / best,
      show: (row) => `${significant(row.plan.step_time_s / best, 3)}×`,
    },
    {
      key: "mfu",
      head: "MFU",
      value: (row) => utilisation(row.plan).mfu,
      filterValue: (row) => 100 * utilisation(row.plan).mfu,
      show: (row) => percent(utilisation(row.plan).mfu),
    },
    {
      key: "peak_bytes",
      head: "peak",
      value: (row) => row.plan.memory.peak_bytes,
      filterValue: (row) => bytesIn(row.plan.memory.peak_bytes),
      show: (row) => exact(bytes(row.plan.memory.peak_bytes), row.plan.memory.peak_bytes, "bytes"),
    },
    {
      key: "fit_probability",
      head: "fits",
      value: (row) => row.plan.memory.fit_probability,
      filterValue: (row) => 100 * row.plan.memory.fit_probability,
      show: (row) => percent(row.plan.memory.fit_probability),
    },
    {
      key: "parts",
      head: "where time goes",
      value: (row) => row.plan.step_time_s,
      text: true,
      show: (row) => sparkBar(row.plan.parts_s, row.plan.step_time_s, longest),
    },
  ].filter((c) => !(c.key === "ep" && page.candidates.every((row) => trained(row.plan).ep === 1)));
  return new DataTable("ranking", columns, page.candidates, {
    filtered: "filter: zero3 tp=4 step<16 fits>95",
    kind: (row) => `${row.plan === page.shown ? "chosen" : ""} ${row.other ? "other" : ""}`,
  });
}

function ranking(page) {
  if (!page.plan) return "";
  const { data } = page;
  const ties =
    data.ties > 1
      ? ` Places marked = are ties: closer than the error of ratios; more memory to spare goes first.`
      : "";
  return section(
    "ranking",
    "The strategies",
    `The best of each kind that leaves ${percent(data.headroom)} of memory free. Rows without a number are kinds that are slower than a numbered one and need no less memory.${ties} A click on a row shows that plan in the sections below.`,
    page.ranking.markup(),
  );
}

// --- time against memory ---

function paretoSection({ data, plan, winner, candidates }) {
  if (!plan || data.pareto.length < 2) return "";
  const plans = candidates.map((c) => ({
    ...c.plan,
    peak: c.plan.memory.peak_bytes,
    place: c.place,
  }));
  const usable = winner.memory.capacity_bytes;
  const times = [...data.pareto, ...plans].map((p) => p.step_time_s);
  const limit = 2.5 * winner.step_time_s;
  const near = data.pareto.filter((p) => p.step_time_s <= limit);
  const [left, right, top, bottom] = [70, kWidth - 12, 30, 300];
  const low = 0.98 * Math.min(...times),
    high = 1.03 * Math.min(limit, Math.max(...times));
  const most = 1.05 * Math.max(...[...near, ...plans].map((p) => p.peak_bytes ?? p.peak));
  const x = logarithmic(low, high, left, right),
    y = linear(0, most, bottom, top);
  const steps = near.flatMap((p, i) =>
    i === 0
      ? [[x(p.step_time_s), y(p.peak_bytes)]]
      : [
          [x(p.step_time_s), y(near[i - 1].peak_bytes)],
          [x(p.step_time_s), y(p.peak_bytes)],
        ],
  );
  const left_out = data.pareto.length - near.length;
  return section(
    "pareto",
    "Time against memory",
    `The Pareto front: of all that fits, nothing else is both faster and smaller. Numbered are the plans above, which leave memory free.${left_out ? ` ${left_out} that take more than 2.5 times as long as the best plan are left out.` : ""}`,
    svg(
      344,
      [
        frame({
          left,
          right,
          top,
          bottom,
          x,
          y,
          xTicks: ticks(low, high, 8).map((v) => [v, tickText(v)]),
          yTicks: ticks(0, bytesIn(most)).map((v) => [v * kBytes[settings.bytes], tickText(v)]),
          xTitle: "step time, s",
          yTitle: `peak memory, ${settings.bytes}`,
        }),
        usable <= most
          ? [
              line(left, y(usable), right, y(usable), "limit"),
              label(right, y(usable) - 6, "usable", "limit end"),
            ]
          : "",
        path(steps, "front"),
        near.map((p) =>
          dot(
            x(p.step_time_s),
            y(p.peak_bytes),
            3.5,
            "var(--accent)",
            `${p.strategy}: ${seconds(p.step_time_s)}, ${bytes(p.peak_bytes)}, fits with ${percent(p.fit_probability)}`,
            "mark",
          ),
        ),
        plans
          .filter((p) => p.step_time_s <= high)
          .map((p) => [
            dot(
              x(p.step_time_s),
              y(p.peak),
              5.5,
              "none",
              `${p.place && `${p.place}: `}${p.strategy}: ${seconds(p.step_time_s)}, ${bytes(p.peak)}`,
              p.place ? "plan" : "plan slower",
            ),
            p.place ? label(x(p.step_time_s) + 8, y(p.peak) - 6, p.place, "tick") : "",
          ]),
      ],
      "time against memory",
    ),
  );
}

// --- what failed ---

function failuresSection({ data, plan }) {
  if (!plan || Object.keys(data.rejected).length === 0) return "";
  const nearest = (rule) => data.nearest.find((n) => n.rule === rule);
  return section(
    "failures",
    "What was looked at",
    `${grouped(data.evaluated)} strategies in ${seconds(data.seconds, 3)}: ${grouped(data.priced)} simulated, ${grouped(data.pruned + data.feasible - data.priced)} ruled out by bounds; the others break a rule or do not fit.`,
    markup`<div class="scroll"><table><thead><tr><th class="text">rule</th><th>strategies</th><th class="text">nearest miss</th><th>needs</th><th>has</th></tr></thead>
    <tbody>${Object.entries(data.rejected)
      .sort(([, a], [, b]) => b - a)
      .map(
        ([rule, count]) => markup`<tr><td class="text">${rule}</td><td>${grouped(count)}</td>
    <td class="text small">${nearest(rule)?.strategy ?? ""}</td><td>${isNumber(nearest(rule)?.needed_bytes) ? bytes(nearest(rule).needed_bytes) : ""}</td>
    <td>${isNumber(nearest(rule)?.available_bytes) ? bytes(nearest(rule).available_bytes) : ""}</td></tr>`,
      )}</tbody></table></div>`,
  );
}
