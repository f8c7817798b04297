// Connects the page's parts, and asks the question of its address.

// Errors are the program's, so that a mistyped name meets its advice.
function askForm() {
  const question = questionOf(form), inputs = filesOf(form);
  history.pushState(null, "", addressOf(question));
  answerQuestion(question, inputs, labelOf(question, inputs)).then(showAnswer);
}

// Of a tall form its answer is out of sight.
function showAnswer() {
  if (byId("answer").getBoundingClientRect().top > innerHeight / 2) byId("answer").scrollIntoView();
}

function askAddress() {
  const question = addressed();
  if (!question.kind) return;
  fillForm(question);
  if (question.model && (question.kind === "plan" || question.kind === "predict"))
    answerQuestion(questionOf(form), [], labelOf(question));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  askForm();
});
form.addEventListener("change", showKind);
byId("cancel").addEventListener("click", () => asking?.abort());
byId("save").addEventListener("click", () => saveQuestion(shown.question));
byId("launch").addEventListener("click", exportFiles);
byId("compare").addEventListener("click", () => compareSaved().then(showAnswer));
byId("questions").addEventListener("change", showComparable);
window.addEventListener("popstate", askAddress);
window.addEventListener("message", (event) => {
  const page = byId("page");
  const height = Number(event.data?.height);
  if (event.source === page.contentWindow && height > 0) page.style.height = `${Math.min(height, 40000)}px`;
});

showKind();
showSaved();
suggest().finally(askAddress);
