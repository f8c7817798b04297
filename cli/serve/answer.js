// An answer: asked for in lines of JSON, which can be cancelled, and shown.

let asking = null; // of the question that is asked now: its AbortController
let shown = null; // the question that is answered: { question, inputs }

// Calls `tell` with each line of a response.
async function readLines(response, tell) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) tell(JSON.parse(line));
  }
}

// Asks, and gives what is done; `tell` hears what comes before.  The last question is cancelled.
async function ask(message, tell) {
  asking?.abort();
  const controller = (asking = new AbortController());
  const start = Date.now();
  let doing = "asking";
  const clock = () => {
    const seconds = Math.round((Date.now() - start) / 1000);
    byId("progress").textContent = doing + (seconds > 1 ? `, ${seconds} s so far` : "");
  };
  const timer = setInterval(clock, 500);
  byId("cancel").hidden = false;
  clock();
  try {
    const response = await fetch("/ask", { method: "POST", body: message, signal: controller.signal });
    if (!response.ok) return { error: await response.text() };
    let done = { error: "the connection ended before the answer" };
    await readLines(response, (line) => {
      if (line.done) done = line.done;
      else if (line.progress || line.waiting) doing = line.progress ?? "waiting for other questions";
      else tell(line);
      clock();
    });
    return done;
  } catch (error) {
    return { error: controller.signal.aborted ? "cancelled" : String(error.message), cancelled: controller !== asking };
  } finally {
    clearInterval(timer);
    if (controller === asking) {
      asking = null;
      byId("cancel").hidden = true;
      byId("progress").textContent = "";
    }
  }
}

function showError(text) {
  byId("error").hidden = !text;
  byId("error").textContent = text ?? "";
}

// Nothing of an answer before this one.
function clearAnswer(title) {
  byId("answer").hidden = false;
  byId("title").textContent = title;
  document.title = `${title} - llmsim`;
  showError("");
  for (const id of ["messages", "uses", "files", "page", "screen", "share", "open", "export"]) byId(id).hidden = true;
  byId("page").removeAttribute("src");
}

function showText(line) {
  byId("screen").hidden = false;
  byId("screen").open = true;
  byId("command").textContent = line.command;
  byId("text").textContent = line.text;
}

function showPage(path) {
  byId("page").src = path + "?framed";
  byId("page").hidden = false;
  byId("screen").open = false;
  byId("share").href = path + "?download";
  byId("open").href = path;
  byId("share").hidden = byId("open").hidden = false;
}

function showDone(done) {
  showError(done.error);
  const messages = done.messages ?? "";
  byId("messages").hidden = messages === "";
  byId("messages").textContent = messages;
  if (done.error) return;
  byId("uses").hidden = false;
  if (done.page) showPage(done.page);
}

// Asks the question of the form, or what `message` says in its place, and shows the answer.
async function answerQuestion(question, inputs, title, message = messageOf(question, inputs)) {
  clearAnswer(title);
  const done = await ask(message, showText);
  if (done.cancelled) return;
  shown = { question, inputs };
  showDone(done);
  const canExport = !done.error && (question.kind === "plan" || question.kind === "predict");
  byId("export").hidden = !canExport;
  byId("save").hidden = inputs.length > 0 || !canExport;
}

// --- launch files ---

function fileElement(file) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = file.name;
  const link = document.createElement("a");
  link.href = file.path;
  link.download = file.name;
  link.textContent = "Download";
  const text = document.createElement("pre");
  text.textContent = file.text;
  details.append(summary, link, text);
  return details;
}

function showFiles(done) {
  showError(done.error);
  if (done.error) return;
  const archive = document.createElement("p");
  archive.className = "actions";
  const link = document.createElement("a");
  link.id = "archive";
  link.href = done.archive;
  link.download = "launch.tar.gz";
  link.textContent = "Download launch.tar.gz";
  archive.append(link);
  byId("files").replaceChildren(archive, ...done.files.map(fileElement));
  byId("files").hidden = false;
  byId("messages").hidden = !done.messages;
  byId("messages").textContent = done.messages;
}

async function exportFiles() {
  const { kind, ...question } = shown.question;
  const message = messageOf({ ...question, kind: "export", of: kind, to: byId("to").value }, shown.inputs);
  const done = await ask(message, () => {});
  if (!done.cancelled) showFiles(done);
}
