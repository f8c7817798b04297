// The panel of an interactive page: the question's numbers, and how each other answer compares with
// that to the question as it was asked.

const kSlowTyping = 250; // milliseconds without a change, before the question is asked

// The option of "--gpus=256".
const optionOf = (word) => word.slice(2).split("=")[0];

// Powers of two times a number, whole and in bounds.
const doublings = (value, down, up, [least, most]) =>
  Array.from({ length: down + up + 1 }, (_, i) => value * 2 ** (i - down)).filter(
    (v) => Number.isInteger(v) && v >= least && v <= most,
  );

// Numbers with a slider: {option, head, unit, value, stops}.
function sliders(run) {
  const { hardware, model, training } = run;
  const bandwidth = hardware.inter_node_bytes_per_s_per_device;
  const number = (option, head, unit, value, reach, bounds) => ({
    option,
    head,
    unit,
    value,
    stops: doublings(value, ...reach, bounds),
  });
  const list = [
    number("gpus", "Devices", "", hardware.num_devices, [5, 5], [1, 1 << 20]),
    number("global-batch", "Batch", "sequences", training.global_batch, [5, 5], [1, 1 << 24]),
    number("seq-len", "Sequence", "tokens", model.seq_len, [4, 5], [128, 1 << 24]),
  ];
  if (!bandwidth) return list;
  const rate = bandwidth / 1e9;
  return [
    ...list,
    {
      option: "inter-node-bandwidth",
      head: "Network",
      unit: "GB/s/device",
      value: rate,
      stops: [0.125, 0.25, 0.5, 1, 2, 4, 8].map((times) => times * rate),
      ofHardware: true,
    },
  ];
}

const slider = ({ option, head, unit, value, stops }) => markup`<div class="knob">
  <label for="ask-${option}">${head}${unit && markup` <small>${unit}</small>`}</label>
  <input type="number" id="ask-${option}" data-ask="${option}" min="0" step="any"
    value="${value}">
  <input type="range" data-slide="${option}" aria-label="${head}" min="0"
    max="${stops.length - 1}" step="1" value="${stops.indexOf(value)}"></div>`;

const choice = (option, head, values) => markup`<div class="knob">
  <label for="ask-${option}">${head}</label>
  <select id="ask-${option}" data-ask="${option}">${values.map(
    ([value, text]) => markup`<option value="${value}">${text}</option>`,
  )}</select></div>`;

class Replanning {
  constructor(place, question, packed, answer, show) {
    Object.assign(this, { place, show, first: answer, arguments: question.arguments });
    this.run = answer.plans[0]?.run ?? answer.query;
    this.knobs = sliders(this.run);
    this.planner = new Planner(packed, JSON.stringify(question.rows), (told) => this.tell(told));
    this.draw(question.rows);
    this.compare(answer);
  }

  draw(rows) {
    const devices = rows.accelerator.rows.map(([id, name]) => [id, name]).sort();
    const own = `${this.run.hardware.accelerator}, as asked`;
    const batches = [["", "as asked"], ...[1, 2, 4, 8, 16, 32].map((n) => [n, n])];
    this.place.innerHTML = safe(markup`<h2>What if?</h2>
      <p class="lead">Change the question: the planner stands in this page and searches every
      strategy anew. All that is below follows.</p>
      <div class="knobs">${this.knobs.map(slider)}
      ${choice("micro-batch", "Micro-batch", batches)}
      ${choice("hardware", "Hardware", [["", own], ...devices])}</div>
      <div class="outcome"></div>
      <p class="small"><span role="status">The answer as it was asked.</span>
      <button type="button" class="reset" hidden>back to the question as asked</button></p>
      <pre class="asked"></pre>`);
    this.place.addEventListener("input", (event) => this.changed(event.target));
    this.place.querySelector(".reset").addEventListener("click", () => this.reset());
    this.place.querySelector(".asked").textContent = this.command();
  }

  field(option) {
    return this.place.querySelector(`[data-ask="${option}"]`);
  }

  changed({ dataset, value }) {
    const knob = this.knobs.find((k) => k.option === (dataset.slide ?? dataset.ask));
    const other = dataset.slide ? "ask" : "slide";
    if (knob) {
      const mate = this.place.querySelector(`[data-${other}="${knob.option}"]`);
      const near = knob.stops.findIndex((stop) => stop >= Number(value));
      mate.value = dataset.slide ? knob.stops[value] : near < 0 ? knob.stops.length - 1 : near;
    }
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.ask(), kSlowTyping);
  }

  reset() {
    for (const { option, value, stops } of this.knobs) {
      this.field(option).value = value;
      this.place.querySelector(`[data-slide="${option}"]`).value = stops.indexOf(value);
    }
    for (const option of ["micro-batch", "hardware"]) this.field(option).value = "";
    this.ask();
  }

  // The words of the question as the panel has it.  What the panel does not say stays as asked; the
  // network is the hardware's where nobody has moved it.
  words() {
    const said = new Map();
    for (const { option, value, ofHardware } of this.knobs) {
      const now = this.field(option).value;
      if (!ofHardware || Number(now) !== value) said.set(option, now);
    }
    for (const option of ["micro-batch", "hardware"])
      if (this.field(option).value) said.set(option, this.field(option).value);
    const replaced = new Set(said.keys());
    replaced.add("global-batch-tokens");
    if (said.has("hardware")) replaced.add("system");
    return [
      ...this.arguments.filter((word) => !replaced.has(optionOf(word))),
      ...[...said].map(([option, value]) => `--${option}=${value}`),
    ];
  }

  command() {
    const quoted = (word) => (/^[\w\-./=+,:]+$/.test(word) ? word : `'${word}'`);
    return `llmsim plan ${this.words().map(quoted).join(" ")}`;
  }

  say(text) {
    this.place.querySelector("[role=status]").textContent = text;
  }

  ask() {
    this.say("Planning …");
    this.place.classList.add("busy");
    this.place.querySelector(".asked").textContent = this.command();
    this.place.querySelector(".reset").hidden = false;
    this.planner.ask(this.words());
  }

  tell({ answer, error, milliseconds }) {
    this.place.classList.remove("busy");
    if (error) {
      this.say(`Not planned: ${error}`);
      return;
    }
    const searched = `${grouped(answer.evaluated)} strategies`;
    this.say(`Planned anew in ${seconds(milliseconds / 1000, 2)}, in this page: ${searched}.`);
    this.place.dataset.milliseconds = milliseconds;
    this.compare(answer);
    this.show(answer);
  }

  // The answer beside that to the question as it was asked.
  compare(answer) {
    const rows = [["as asked", this.first]];
    if (answer !== this.first) rows.push(["now", answer]);
    const longest = Math.max(...rows.map(([, a]) => a.plans[0]?.step_time_s ?? 0));
    this.place.querySelector(".outcome").innerHTML = safe(markup`<div class="scroll"><table>
      <thead><tr><th></th><th>step</th><th>tokens/s</th><th>MFU</th><th>peak</th><th>fits</th>
      <th>for 10⁹ tokens</th><th class="text">where time goes</th><th class="text">layout</th></tr>
      </thead><tbody>${rows.map(([name, a]) => this.row(name, a, longest))}</tbody></table></div>`);
  }

  row(name, { plans: [plan], usd_per_billion_tokens: cost }, longest) {
    const head = markup`<th class="text" scope="row">${name}</th>`;
    if (!plan) return markup`<tr>${head}<td class="text" colspan="8">nothing fits</td></tr>`;
    const before = this.first.plans[0];
    const change = (value, old) =>
      before && plan !== before && markup` <small>${significant(value / old, 3)}×</small>`;
    const time = plan.step_time_s;
    return markup`<tr>${head}
      <td>${exact(seconds(time), time, "s")}${change(time, before?.step_time_s)}</td>
      <td>${grouped(throughput(plan))}${before && change(throughput(plan), throughput(before))}</td>
      <td>${percent(utilisation(plan).mfu)}</td><td>${bytes(plan.memory.peak_bytes)}</td>
      <td>${percent(plan.memory.fit_probability)}</td><td>${dollars(cost)}</td>
      <td class="text">${sparkBar(plan.parts_s, time, longest)}</td>
      <td class="text small">${plan.strategy}</td></tr>`;
  }
}

// The panel in `place`, where the page has a planner; `show` draws another answer.
function startReplanning(place, answer, show) {
  const packed = document.getElementById("planner");
  if (!packed) return;
  place.hidden = false;
  const question = JSON.parse(document.getElementById("question").textContent);
  new Replanning(place, question, packed.textContent, answer, show);
}
