// The question: fields of the form, and the address that keeps them.

"use strict";

const byId = (id) => document.getElementById(id);
const form = byId("question");

const MEANINGS = {
  plan: "Searches every layout for the model on these devices; what you give under more options is kept.",
  predict: "One run in full: of options, a launch file or a run record. A layout that is left out is 1.",
  diagnose: "Where the time of a measured step went: a run, and its training log or profile.",
};
const BUTTONS = { plan: "Plan", predict: "Predict", diagnose: "Diagnose" };

// The fields with a text, by their names; files are sent and kept nowhere.
function questionOf(form) {
  const question = {};
  for (const [name, value] of new FormData(form))
    if (typeof value === "string" && value.trim() !== "" && isShown(form.elements[name])) question[name] = value.trim();
  return question;
}

const isShown = (element) => element instanceof RadioNodeList || element.closest("[hidden]") === null;

const filesOf = (form) =>
  [...form.elements].filter((e) => e.type === "file" && e.files.length > 0 && isShown(e));

// What is sent: files of fields that are shown, and nothing that is empty.
function messageOf(question, inputs) {
  const message = new FormData();
  for (const [name, value] of Object.entries(question)) message.append(name, value);
  for (const input of inputs) for (const file of input.files) message.append(input.name, file);
  return message;
}

const kindOf = (form) => form.elements.kind.value;

function showKind() {
  const kind = kindOf(form);
  byId("meaning").textContent = MEANINGS[kind];
  byId("ask").textContent = BUTTONS[kind];
  for (const field of form.querySelectorAll("[data-kinds]"))
    field.hidden = !field.dataset.kinds.split(" ").includes(kind);
  byId("rank").hidden = form.elements.fine_tuning.value === "";
}

// Puts a question into the form.
function fillForm(question) {
  form.reset();
  for (const [name, value] of Object.entries(question)) {
    const element = form.elements[name];
    if (!element || element.type === "file") continue;
    if (element instanceof HTMLSelectElement && ![...element.options].some((option) => option.value === value))
      element.add(new Option(value, value));
    element.value = value;
  }
  showKind();
}

const addressOf = (question) => "/?" + new URLSearchParams(question);
const addressed = () => Object.fromEntries(new URLSearchParams(location.search));

// A question in a few words: "llama3-8b on 16 h100, --tp 2", or the names of its files.
function labelOf(question, inputs = []) {
  const { kind, model, gpus, hardware, options, ...others } = question;
  if (!model && inputs.length > 0) return inputs.flatMap((input) => [...input.files].map((file) => file.name)).join(", ");
  const rest = Object.entries(others).map(([name, value]) => `${name.replaceAll("_", "-")} ${value}`);
  const first = `${model ?? ""} on ${gpus ?? "?"} ${hardware ?? "h100"}`;
  return [first, ...rest, ...(options ? [options] : [])].join(", ");
}

// The names of the catalogue that fields suggest.
async function suggest() {
  const names = await (await fetch("/names.json")).json();
  const listed = (id, entries) =>
    byId(id).replaceChildren(...entries.map(([value, label]) => new Option(label ?? "", value)));
  listed("models", names.models.map((one) => [one.id, one.aliases]));
  listed("accelerators", names.hardware.map((one) => [one.id, one.name]));
  listed("frameworks", names.frameworks.map((id) => [id]));
  for (const precision of names.precisions) byId("precision").add(new Option(precision, precision));
  for (const target of names.targets) byId("to").add(new Option(target, target));
  byId("version").textContent = `llmsim ${names.version}`;
}
