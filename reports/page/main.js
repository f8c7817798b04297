// Reads the answer, draws the page, and draws it again when a switch is turned.

const data = JSON.parse(document.getElementById("data").textContent);

// Several questions with their answers, or none.
const questions = Array.isArray(data.keys) ? data : null;

// "1=", "2=", "3": the first `ties` are ties.
const placeOf = (index, ties) => `${index + 1}${index < ties && ties > 1 ? "=" : ""}`;

// The plans that are ranked and, with no place, those of other kinds.
const candidatesOf = ({ plans, ties, others = [] }) => [
  ...plans.map((plan, order) => ({ plan, order, place: placeOf(order, ties), other: false })),
  ...others.map((plan, i) => ({ plan, order: plans.length + i, place: "", other: true })),
];

// What the page shows: the answer of a plan, or of one run.
function pageOf(answer, question) {
  const plan = Array.isArray(answer.plans);
  const winner = plan ? answer.plans[0] : answer;
  return { data: answer, question, plan, candidates: plan ? candidatesOf(answer) : [], winner, shown: winner };
}

const answerTo = (i) => ({ asked: i, ...pageOf(questions.plans[i].answer, questions.plans[i]) });

const backtest = data.groups && { data, validation: { group: "", quantity: "time" } };
const diagnosis = data.findings && { data, diagnosis: true, winner: { run: data.run } };
let page = backtest ?? diagnosis ?? (questions ? answerTo(questions.best ?? 0) : pageOf(data));

function update(changes) {
  page = { ...page, ...changes };
  draw();
}

const ask = (index) => update({ first: undefined, second: undefined, ...answerTo(index) });
const choose = (plan) => update({ shown: plan });

function turn(key, value) {
  settings[key] = value;
  draw();
}

// --- the head of the page ---

const bytesChoice = () =>
  choice("bytes", "bytes in", Object.keys(kBytes).map((unit) => [unit, unit]), settings.bytes, (unit) => turn("bytes", unit));

const conventionNames = () => Object.keys(page.winner?.conventions ?? {});

function conventionChoice() {
  const names = conventionNames().map((name) => [name, name === "gemm_causal" ? `${name} (exact work)` : name]);
  return names.length > 0 && choice("convention", "MFU counts", names, settings.convention, (name) => turn("convention", name));
}

function header() {
  const run = page.winner?.run ?? page.data.query;
  const { global_batch, precision, optimizer, framework } = run.training;
  return html`<header><p class="kind">llmsim · ${page.plan ? "plan" : page.diagnosis ? "diagnosis" : "prediction"}</p><h1>${runName(run)}</h1>
    <p class="small">${short(run.model.num_parameters)} parameters, ${grouped(run.model.seq_len)} tokens a sequence, ${grouped(global_batch)} sequences a step, ${precision}, ${optimizer}, ${framework}</p>
    <form class="switches">${bytesChoice()} ${conventionChoice()}</form></header>`;
}

// --- the page ---

const contents = () =>
  html`<nav aria-label="sections">${[...kTitles].map(([id, title]) => html`<a key=${id} href="#${id}">${title}</a>`)}</nav>`;

const footer = () =>
  html`<footer class="small">Drawn by Observable Plot and D3 (ISC licence), Tabulator and Preact (MIT) and htm (Apache-2.0), whose licences
    stand at the head of their script in this file. It asks the network for nothing: save it, send it, print it.</footer>`;

function shownPlan() {
  if (page.shown === page.winner) return "";
  return html`<p class="chosen-plan" role="status">The sections below show: <strong>${page.shown.strategy}</strong>
    <button type="button" id="back" onClick=${() => choose(page.winner)}>back to the first</button></p>`;
}

function sections() {
  if (page.validation) return validationSections(page);
  if (page.diagnosis) return diagnosisSections(page);
  const { winner, shown } = page;
  const simulated = winner && isNumber(shown.step_time_s);
  const parts = [
    ...[verdict, warnings, questionsSection],
    ...(winner ? [ranking, comparisonSection, shownPlan] : []),
    ...(simulated ? [timeSection, memorySection, pipelineSection, rooflineSection, communicationSection] : []),
    ...(winner ? [paretoSection, scalingSection, changesSection] : []),
    failuresSection,
    ...(simulated ? [conventionsSection] : []),
    ...(winner ? [evidenceSection, commandSection] : []),
  ];
  return parts.map((part) => part(page));
}

// Of another question everything is new: the order of tables, and what was filtered.
function draw() {
  kTitles.clear();
  const drawn = sections();
  const head = page.validation ? validationHeader(page) : header();
  render(html`<div key=${page.asked}>${head}${contents()}${drawn}${footer()}</div>`, document.getElementById("page"));
}

// On paper the page is as wide as on a large screen, and smaller: style.css.
function layOut(printing) {
  document.documentElement.classList.toggle("printing", printing);
  for (const redraw of drawnToWidth) redraw();
}
addEventListener("beforeprint", () => layOut(true));
addEventListener("afterprint", () => layOut(false));

document.title = `${page.validation ? "Validation" : runName(page.winner?.run ?? page.data.query)} – llmsim`;
settings.convention = conventionNames().includes("gemm_causal") ? "gemm_causal" : "";
draw();
