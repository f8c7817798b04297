// Reads the answer, draws the page, and draws it again when a switch is turned.

const data = JSON.parse(document.getElementById("data").textContent);

// "1=", "2": the first `ties` are ties.
const placeOf = (index, ties) => (index < ties && ties > 1 ? "1=" : String(index + 1));

// What the page shows: the answer of a plan, or of one run.
function pageOf(answer) {
  const plan = Array.isArray(answer.plans);
  const candidates = !plan
    ? []
    : [
        ...answer.plans.map((p, i) => ({
          plan: p,
          order: i,
          place: placeOf(i, answer.ties),
          other: false,
        })),
        ...(answer.others ?? []).map((p, i) => ({
          plan: p,
          order: answer.plans.length + i,
          place: "",
          other: true,
        })),
      ];
  const winner = plan ? answer.plans[0] : answer;
  const page = { data: answer, plan, candidates, winner, shown: winner, window: null };
  if (plan && winner) page.ranking = rankingTable(page);
  page.facts = factsTable(page);
  return page;
}

// Several questions with their answers, or none.
const questions = Array.isArray(data.keys) ? data : null;

let asked = questions ? (questions.best ?? 0) : 0;
let page = data.groups ? null : pageOf(questions ? questions.plans[asked].answer : data);

// Shows the answer to another question.
function ask(index) {
  asked = index;
  page = pageOf(questions.plans[asked].answer);
  start();
}

const kBodySections = [
  timeSection,
  memorySection,
  pipelineSection,
  rooflineSection,
  communicationSection,
];
const kClosingSections = [paretoSection, scalingSection, changesSection, failuresSection];

function shownPlan() {
  if (page.shown === page.winner) return "";
  return markup`<p class="chosen-plan" role="status">The sections below show: <strong>${page.shown.strategy}</strong>
    <button type="button" id="back">back to the first</button></p>`;
}

function content() {
  if (!page.winner) return [verdict(page), questionsSection(questions), failuresSection(page)];
  const simulated = isNumber(page.shown.step_time_s);
  return [
    verdict(page),
    warnings(page),
    questionsSection(questions, asked),
    ranking(page),
    shownPlan(),
    simulated ? kBodySections.map((draw) => draw(page)) : "",
    kClosingSections.map((draw) => draw(page)),
    simulated ? conventionsSection(page) : "",
    evidenceSection(page),
    commandSection(page),
  ];
}

function draw() {
  const place = document.getElementById("content");
  place.innerHTML = safe(content());
  page.ranking?.listen(place, (row) => choose(row.plan));
  page.facts.listen(place);
  for (const row of place.querySelectorAll("[data-question]"))
    row.addEventListener("click", () => ask(Number(row.dataset.question)));
  document.getElementById("back")?.addEventListener("click", () => choose(page.winner));
  listenToTimeline();
}

function choose(plan) {
  page.shown = plan;
  page.window = null;
  draw();
}

// --- a part of the timeline is chosen by dragging ---

function listenToTimeline() {
  for (const place of document.querySelectorAll(".timeline")) {
    const [from, to] = [Number(place.dataset.from), Number(place.dataset.to)];
    const timeAt = (event) => {
      const { left, width } = place.getBoundingClientRect();
      const share =
        (((event.clientX - left) / width) * kWidth - kLaneLeft) / (kLaneRight - kLaneLeft);
      return from + Math.min(1, Math.max(0, share)) * (to - from);
    };
    let begin = null;
    place.addEventListener("pointerdown", (event) => {
      begin = timeAt(event);
      event.preventDefault();
    });
    place.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const chosen = [begin, timeAt(event)].sort((a, b) => a - b);
      begin = null;
      if (chosen[1] - chosen[0] < 0.003 * (to - from)) return;
      page.window = chosen;
      draw();
    });
    place.addEventListener("dblclick", () => {
      page.window = null;
      draw();
    });
  }
}

// --- what is behind a figure or a mark ---

function listenToPointer() {
  document.addEventListener("pointermove", (event) => {
    const tip = document.getElementById("tip");
    const marked = event.target.closest?.("[data-tip]");
    const text = marked?.dataset.tip ?? "";
    tip.textContent = text;
    tip.hidden = text === "";
    if (tip.hidden) return;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  });
}

// --- the head of the page ---

function conventionNames() {
  return Object.keys(page.winner?.conventions ?? {});
}

function header() {
  const run = page.winner?.run ?? page.data.query;
  return markup`<header><p class="kind">llmsim · ${page.plan ? "plan" : "prediction"}</p>
    <h1>${runName(run)}</h1>
    <p class="small">${short(run.model.num_parameters)} parameters, ${grouped(run.model.seq_len)} tokens a sequence,
    ${grouped(run.training.global_batch)} sequences a step, ${run.training.precision}, ${run.training.optimizer}, ${run.training.framework}</p>
    <form class="switches"><label>bytes in <select id="bytes"><option>GiB</option><option>GB</option></select></label>
    ${
      conventionNames().length
        ? markup`<label>MFU counts <select id="convention">${conventionNames().map(
            (name) =>
              markup`<option value="${name}">${name === "gemm_causal" ? "gemm_causal (exact work)" : name}</option>`,
          )}</select></label>`
        : ""
    }</form></header>`;
}

function start() {
  const run = page.winner?.run ?? page.data.query;
  if (!conventionNames().includes(settings.convention))
    settings.convention = conventionNames().includes("gemm_causal") ? "gemm_causal" : "";
  document.title = `${runName(run)} – llmsim`;
  document.getElementById("head").innerHTML = safe(header());
  const convention = document.getElementById("convention");
  if (convention) convention.value = settings.convention;
  convention?.addEventListener("change", () => {
    settings.convention = convention.value;
    draw();
  });
  document.getElementById("bytes").value = settings.bytes;
  document.getElementById("bytes").addEventListener("change", (event) => {
    settings.bytes = event.target.value;
    draw();
  });
  draw();
}

// What is drawn anew.
function lay() {
  document.getElementById("page").innerHTML = safe(markup`<div id="head"></div>
    <div id="content"></div><div id="tip" role="tooltip" hidden></div>`);
}

if (data.groups) {
  startValidation(data);
} else {
  lay();
  start();
}
listenToPointer();
