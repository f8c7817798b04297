// Saved questions, which this browser keeps, and how they are compared.

const SAVED = "llmsim questions";

function savedQuestions() {
  try {
    return JSON.parse(localStorage.getItem(SAVED)) ?? [];
  } catch {
    return [];
  }
}

function keep(questions) {
  localStorage.setItem(SAVED, JSON.stringify(questions));
  showSaved();
}

function saveQuestion(question) {
  const questions = savedQuestions();
  const text = JSON.stringify(question);
  if (!questions.some((one) => JSON.stringify(one) === text)) keep([...questions, question]);
}

function savedElement(question, index) {
  const item = document.createElement("li");
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  box.dataset.index = index;
  const text = document.createElement("span");
  text.textContent = `${BUTTONS[question.kind]}: ${labelOf(question)}`;
  label.append(box, text);
  const open = document.createElement("a");
  open.href = addressOf(question);
  open.textContent = "Ask";
  const remove = document.createElement("button");
  remove.type = "button";
  remove.textContent = "Remove";
  remove.setAttribute("aria-label", `Remove ${labelOf(question)}`);
  remove.addEventListener("click", () => keep(savedQuestions().filter((_, i) => i !== index)));
  item.append(label, open, remove);
  return item;
}

function showSaved() {
  const questions = savedQuestions();
  byId("saved").hidden = questions.length === 0;
  byId("questions").replaceChildren(...questions.map(savedElement));
  showComparable();
}

const chosenQuestions = () => {
  const questions = savedQuestions();
  return [...byId("questions").querySelectorAll("input:checked")].map((box) => questions[box.dataset.index]);
};

// Two or more of one kind.
function showComparable() {
  const questions = chosenQuestions();
  byId("compare").disabled = questions.length < 2 || new Set(questions.map((one) => one.kind)).size > 1;
}

async function compareSaved() {
  const questions = chosenQuestions().map((question) => ({ ...question, label: labelOf(question) }));
  const message = { kind: "compare", questions: JSON.stringify(questions) };
  await answerQuestion(message, [], "Compared");
}
