// The answer: yes or no, its figures, and the other questions.

// --- the answer ---

function verdict(page) {
  const { winner, plan } = page;
  if (!winner) return nothingFits(page);
  if (!winner.feasible) return refusal(page, winner);
  const odds = winner.memory.fit_probability;
  const opening = page.question?.answers === false ? "Not in time" : plan ? "Yes" : "It fits";
  const doubt = odds >= 0.75 ? ", with little memory to spare" : ", though memory is nearly full";
  const text = html`${opening}: <span id="step-time" data-value=${winner.step_time_s}
    >${seconds(winner.step_time_s)}</span> a step at ${percent(utilisation(winner).mfu)} MFU${odds >= 0.95 ? "" : doubt}.`;
  const lead = html`${plan ? "Best layout" : "Layout"}: <strong>${winner.strategy}</strong>.`;
  return section("verdict", text, lead, [headline(page, winner), job(page.data.job)], "The answer");
}

// A run that breaks a rule or does not fit; where something makes it fit, what.
function refusal(page, { infeasible: { rule, message }, step_time_s, memory }) {
  const [fits] = (page.data.changes ?? []).filter((c) => c.fits).sort((a, b) => a.step_time_s - b.step_time_s);
  const over = step_time_s ? memory.peak.needed_bytes - memory.capacity_bytes : 0;
  const title = over > 0 ? `No: it needs ${bytes(over, 3)} more memory than a device has.` : `No: ${rule}.`;
  const change = fits && html` It would fit with <strong>${fits.change}</strong>, with a step of ${seconds(fits.step_time_s)}.`;
  const lead = html`${message[0].toUpperCase()}${message.slice(1)}.${change}`;
  return section("verdict", title, lead, step_time_s ? headline(page, page.winner) : "", "The answer");
}

function headline({ data: { usd_per_billion_tokens: cost } }, winner) {
  const { memory, step_time_s, peak } = winner,
    use = utilisation(winner),
    tokens = trained(winner).global_batch * winner.run.model.seq_len,
    interval = intervalBar(step_time_s, winner.step_time_interval_s, (t) => seconds(t, 3));
  return html`<dl class="tiles">
      ${tile("Step time", exact(seconds(step_time_s), step_time_s, "s"), interval)}
      ${tile("Throughput", derived(grouped(throughput(winner)), throughput(winner), "tokens/s"), `tokens/s, ${grouped(winner.tokens_per_s_per_device)} per device; ${short(tokens)} tokens a step`)}
      ${tile("Utilisation", html`${exact(percent(use.mfu), use.mfu)} MFU`, `${tflops(use.tflops_per_device)} of ${tflops(peak.tflops_per_device)} ${peak.format} per device`)}
      ${tile("Memory", exact(bytes(memory.peak.needed_bytes), memory.peak.needed_bytes, "bytes"), `of ${bytes(memory.capacity_bytes)} usable: fits with ${percent(memory.fit_probability)}`)}
      ${isNumber(cost) && tile("Cost", exact(dollars(cost), cost, "USD"), "for 10⁹ tokens, by public prices or --price")}
    </dl>
    <p class="small">The bar is the interval that holds the measured step time with ${percent(winner.interval_level, 2)} probability.</p>`;
}

function job(job) {
  if (!job) return "";
  const money = (value) => `$${short(value)}`;
  const figure = (name, write, key, unit) => {
    const interval = job[key.replace(/(_s|_usd|_mwh)?$/, "_interval$1")];
    return isNumber(job[key]) && tile(name, exact(write(job[key]), job[key], unit), interval.map((v) => write(v)).join(" to "));
  };
  return html`<h3>The whole job: ${short(job.tokens)} tokens in ${grouped(job.steps)} steps</h3>
    <dl class="tiles">
      ${figure("Time", longTime, "wall_time_s", "s")}
      ${tile("Goodput", exact(percent(job.goodput), job.goodput), `${significant(job.interruptions, 3)} interruptions expected`)}
      ${figure("Device-hours", short, "device_hours", "")}
      ${figure("Money", money, "cost_usd", "USD")}
      ${figure("Energy", energy, "energy_mwh", "MWh")}
    </dl>`;
}

function nothingFits({ data }) {
  const lead = `${runName(data.query)}: every one of ${grouped(data.evaluated)} strategies breaks a rule or needs more memory than a device has.`;
  return section("verdict", "No: nothing fits.", lead, "", "The answer");
}

function warnings({ shown }) {
  if (!shown?.warnings?.length) return "";
  return section("warnings", "Read with care", "", html`<ul>${shown.warnings.map((w) => html`<li>${w}</li>`)}</ul>`);
}

// --- several questions ---

const askedText = ({ asked }) => Object.values(asked).join(", ");

function questionsTable({ keys, best, plans }, asked) {
  const first = (row) => row.answer.plans[0];
  const of = (value) => (row) => first(row) && value(first(row));
  const outcome = (row) => (row.answers ? "yes" : first(row) ? "too late" : "nothing fits");
  const columns = [
    ...keys.map((key) => wordColumn(key, words(key), (row) => row.asked[key])),
    wordColumn("verdict", "answer", (row) => (row === plans[best] ? "best" : outcome(row))),
    timeColumn("step_time_s", "step", of((p) => p.step_time_s)),
    countColumn("throughput", "tokens/s", of(throughput)),
    percentColumn("mfu", "MFU", of((p) => utilisation(p).mfu)),
    bytesColumn("peak_bytes", "peak", of((p) => p.memory.peak_bytes)),
    percentColumn("fit_probability", "fits", of((p) => p.memory.fit_probability)),
    exactColumn(dollars, "USD")("cost", "10⁹ tokens", (row) => row.answer.usd_per_billion_tokens),
    exactColumn(longTime, "s")("job", "whole job", (row) => row.answer.job?.wall_time_s),
    timeColumn("kept", "first's layout here", (row) => row.kept?.step_time_s),
    wordColumn("layout", "layout", of((p) => p.strategy), { wide: true }),
  ].filter((c) => !["job", "kept"].includes(c.key) || plans.some((row) => isNumber(c.value(row))));
  const kind = (row) => ({ chosen: row === plans[asked] });
  return table("questions", "questions", columns, plans, { kind, choose: (row) => ask(plans.indexOf(row)) });
}

function questionsSection({ asked }) {
  if (!questions) return "";
  const answered = questions.plans.filter((row) => row.answer.plans.length);
  const of = (value) => Object.fromEntries(answered.map((row) => [askedText(row), value(row.answer.plans[0])]));
  const capacity = Math.max(...answered.map((row) => row.answer.plans[0].memory.capacity_bytes));
  const opening = questions.best === null ? "None has an answer." : "The page opens with the best of them.";
  const charts = answered.length > 1 && [
    html`<h3>Where the step's time goes, by question</h3>`,
    partsChart("parts of the step of each question's best plan", of((plan) => plan)),
    html`<h3>What a device needs, by question</h3>`,
    memoryChart("memory of each question's best plan", of((plan) => neededTerms(plan.memory.peak)), capacity),
  ];
  return section(
    "questions",
    "The questions",
    `${opening} A row that is chosen shows its answer below; of the best alone the timeline and the roofline are drawn.`,
    [questionsTable(questions, asked), charts],
  );
}
