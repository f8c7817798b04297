// The answer: yes or no, its figures, and the other questions.

// --- the answer ---

function verdict(page) {
  const { winner } = page;
  if (!winner) return nothingFits(page);
  const late = page.plan && questions?.plans[asked].answers === false;
  if (!winner.feasible) return refusal(page, winner);
  const odds = winner.memory.fit_probability;
  const opening = late ? "Not in time" : page.plan ? "Yes" : "It fits";
  const surely =
    odds >= 0.95
      ? ""
      : odds >= 0.75
        ? ", with little memory to spare"
        : ", though memory is nearly full";
  const text = markup`${opening}: <span id="step-time" data-value="${winner.step_time_s}"
    >${seconds(winner.step_time_s)}</span> a step at ${percent(utilisation(winner).mfu)} MFU${surely}.`;
  return section(
    "verdict",
    text,
    markup`${page.plan ? "Best layout" : "Layout"}: <strong>${winner.strategy}</strong>.`,
    [headline(page, winner), job(page.data.job)],
  );
}

// A run that breaks a rule or does not fit; where something makes it fit, what.
function refusal(page, { infeasible, step_time_s, memory }) {
  const fits = (page.data.changes ?? [])
    .filter((c) => c.fits)
    .sort((a, b) => a.step_time_s - b.step_time_s)[0];
  const over = step_time_s ? memory.peak.needed_bytes - memory.capacity_bytes : 0;
  const title =
    over > 0
      ? `No: it needs ${bytes(over, 3)} more memory than a device has.`
      : `No: ${infeasible.rule}.`;
  const text = `${infeasible.message[0].toUpperCase()}${infeasible.message.slice(1)}.`;
  return section(
    "verdict",
    title,
    fits
      ? markup`${text} It would fit with <strong>${fits.change}</strong>, with a step of ${seconds(fits.step_time_s)}.`
      : text,
    step_time_s ? headline(page, page.winner) : "",
  );
}

function headline(page, winner) {
  const [low, high] = winner.step_time_interval_s;
  const { memory } = winner,
    use = utilisation(winner),
    batch = trained(winner).global_batch;
  const cost = page.data.usd_per_billion_tokens;
  const tokens = batch * winner.run.model.seq_len;
  return markup`<dl class="tiles">
    ${tile(
      "Step time",
      exact(seconds(winner.step_time_s), winner.step_time_s, "s"),
      intervalBar(winner.step_time_s, [low, high], (t) => seconds(t, 3)),
    )}
    ${tile(
      "Throughput",
      exact(grouped(throughput(winner)), throughput(winner), "tokens/s"),
      `tokens/s, ${grouped(winner.tokens_per_s_per_device)} per device; ${short(tokens)} tokens a step`,
    )}
    ${tile(
      "Utilisation",
      exact(`${percent(use.mfu)} MFU`, use.mfu),
      `${tflops(use.tflops_per_device)} of ${tflops(winner.peak.tflops_per_device)} ${winner.peak.format} per device`,
    )}
    ${tile(
      "Memory",
      exact(bytes(memory.peak.needed_bytes), memory.peak.needed_bytes, "bytes"),
      `of ${bytes(memory.capacity_bytes)} usable: fits with ${percent(memory.fit_probability)}`,
    )}
    ${cost ? tile("Cost", exact(dollars(cost), cost, "USD"), "for 10⁹ tokens, by public prices or --price") : ""}
    </dl>
    <p class="small">The bar is the interval that holds the measured step time with
    ${percent(winner.interval_level, 2)} probability.</p>`;
}

function job(job) {
  if (!job) return "";
  const range = (write, [low, high]) => `${write(low)} to ${write(high)}`;
  return markup`<h3>The whole job: ${short(job.tokens)} tokens in ${grouped(job.steps)} steps</h3><dl class="tiles">
    ${tile("Time", exact(longTime(job.wall_time_s), job.wall_time_s, "s"), range(longTime, job.wall_time_interval_s))}
    ${tile("Goodput", exact(percent(job.goodput), job.goodput), `${significant(job.interruptions, 3)} interruptions expected`)}
    ${tile("Device-hours", exact(short(job.device_hours), job.device_hours), range(short, job.device_hours_interval))}
    ${
      isNumber(job.cost_usd)
        ? tile(
            "Money",
            exact(`$${short(job.cost_usd)}`, job.cost_usd, "USD"),
            range((v) => `$${short(v)}`, job.cost_interval_usd),
          )
        : ""
    }
    ${
      isNumber(job.energy_mwh)
        ? tile(
            "Energy",
            exact(energy(job.energy_mwh), job.energy_mwh, "MWh"),
            range(energy, job.energy_interval_mwh),
          )
        : ""
    }
    </dl>`;
}

function nothingFits({ data }) {
  const { model, hardware } = data.query;
  return section(
    "verdict",
    "No: nothing fits.",
    `${runName({ model, hardware })}: every one of ${grouped(data.evaluated)} strategies breaks a rule or needs more memory than a device has.`,
    "",
  );
}

function warnings({ shown }) {
  if (!shown?.warnings?.length) return "";
  return section(
    "warnings",
    "Read with care",
    "",
    markup`<ul>${shown.warnings.map((w) => markup`<li>${w}</li>`)}</ul>`,
  );
}

// --- several questions ---

function questionsSection(questions, asked) {
  if (!questions) return "";
  const { keys, best, plans } = questions;
  const jobs = plans.some((p) => p.answer.job);
  const row = ({ asked: values, answers, answer }, i) => {
    const plan = answer.plans[0];
    const figures = plan
      ? markup`<td>${exact(seconds(plan.step_time_s), plan.step_time_s, "s")}</td>
      <td>${grouped(throughput(plan))}</td><td>${percent(utilisation(plan).mfu)}</td><td>${bytes(plan.memory.peak_bytes)}</td>
      <td>${percent(plan.memory.fit_probability)}</td><td>${dollars(answer.usd_per_billion_tokens)}</td>
      ${jobs && markup`<td>${answer.job ? longTime(answer.job.wall_time_s) : "–"}</td>`}<td class="text">${i === best ? "best" : answers ? "" : "too late"}</td>`
      : markup`<td class="text" colspan="8">nothing fits</td>`;
    return markup`<tr data-question="${i}" class="${i === asked ? "chosen" : ""}">${keys.map(
      (k) => markup`<td class="text">${values[k]}</td>`,
    )}${figures}</tr>`;
  };
  return section(
    "questions",
    "The questions",
    best === null
      ? "None has an answer. A click on a row shows what was found."
      : "The page opens with the best of them. A click on a row shows another answer; only of the best the timeline and the roofline are drawn.",
    markup`<div class="scroll"><table><thead><tr>${keys.map((k) => markup`<th class="text">${words(k)}</th>`)}<th>step</th><th>tokens/s</th><th>MFU</th><th>peak</th>
      <th>fits</th><th>for 10⁹ tokens</th>${jobs && markup`<th>whole job</th>`}<th></th></tr></thead><tbody>${plans.map(row)}</tbody></table></div>`,
  );
}
