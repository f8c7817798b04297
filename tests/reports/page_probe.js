// Runs in a page after its own script: uses it as a reader would, and writes "right" or what is
// wrong to the body.
(async () => {
  const wrong = [];
  const expect = (what, condition) => {
    if (!condition) wrong.push(what);
  };
  const answer = JSON.parse(document.getElementById("data").textContent);
  const several = Array.isArray(answer.keys);
  const backtest = Array.isArray(answer.groups);
  const shown = several ? answer.plans[answer.best ?? 0].answer : answer;
  const diagnosis = Array.isArray(answer.findings);
  const plan = backtest || diagnosis ? null : Array.isArray(shown.plans) ? shown.plans[0] : shown;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const text = () => one("main").textContent;
  const rows = (name) => all(`[data-table="${name}"] .tabulator-row`);
  // Tables and charts draw themselves a moment after what they are asked to show.
  const drawn = () => new Promise((done) => setTimeout(done, 300));
  const type = async (input, value) => {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await drawn();
  };
  const choose = async (id, value) => {
    one(`#${id}`).value = value;
    one(`#${id}`).dispatchEvent(new Event("change", { bubbles: true }));
    await drawn();
  };
  const click = async (element) => {
    if (element) element.click();
    else wrong.push("nothing to click on");
    await drawn();
  };

  // --- every page ---

  // What is shown of a value is that value: to four digits, or three, in its unit.
  const kUnits = {
    s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9, minutes: 60, hours: 3600, days: 86400, "%": 0.01,
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
    "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, MWh: 1, GWh: 1e3, K: 1e3, M: 1e6, T: 1e12,
  }; // prettier-ignore
  const numbers = new Set();
  JSON.stringify(answer, (_, value) => (typeof value === "number" && numbers.add(value), value));
  function checkValues() {
    for (const element of all("[data-value]")) {
      const value = Number(element.dataset.value);
      expect(`${element.dataset.value} is not in the JSON`, numbers.has(value));
      const [, digits, unit] = element.textContent.match(/^[$]?(-?[\d.,]+) ?(.*)$/) ?? [];
      const size = unit === "TFLOP/s" ? (value > 1e6 ? 1e12 : 1) : unit === "B" && value >= 1e9 ? 1e9 : (kUnits[unit] ?? 1);
      const written = Number(digits?.replaceAll(",", "")) * size;
      const error = Math.abs(written - value);
      expect(`${element.textContent} of ${value}`, error <= 6e-3 * Math.abs(value) || error <= 0.5);
    }
    expect("no values", all("[data-value]").length > 0 || !plan?.feasible);
    for (const word of ["NaN", "undefined", "Infinity", "[object"])
      expect(`${word} is on the page`, !text().includes(word) && !one("main").innerHTML.includes(`"${word}`));
    for (const drawing of all("svg *"))
      for (const { name, value } of drawing.attributes)
        if (/NaN|undefined|Infinity/.test(value)) wrong.push(`${drawing.tagName} ${name} = ${value}`);
  }
  // Charts are as wide as their place, their texts as large as they were meant; nothing but tables
  // scrolls sideways.
  function checkLayout(where) {
    const { scrollWidth } = document.scrollingElement;
    expect(`${where}: the page is ${scrollWidth} wide in ${innerWidth}`, scrollWidth <= innerWidth);
    for (const svg of all(".chart svg").filter((svg) => svg.parentElement.clientWidth > 0)) {
      const place = svg.parentElement.clientWidth;
      expect(`${where}: a chart of ${svg.getAttribute("width")} in ${place}`, Number(svg.getAttribute("width")) === place);
      for (const { textContent, style } of svg.querySelectorAll("text"))
        expect(`${where}: small: ${textContent}`, parseFloat(getComputedStyle(svg).fontSize) >= 11 && !style.fontSize);
    }
  }
  // A scroll bar that appears makes places narrower, and charts draw themselves anew a moment later.
  async function settled() {
    const width = (svg) => svg.parentElement.clientWidth;
    const late = (svg) => width(svg) > 0 && Number(svg.getAttribute("width")) !== width(svg);
    for (let i = 0; i < 20 && all(".chart svg").some(late); ++i) await drawn();
  }
  function checkPareto() {
    const boxes = all('#pareto [data-mark="places"] text, #pareto [data-mark="text"] text').map((label) => label.getBoundingClientRect());
    const apart = (a, b) => a.right <= b.left || a.left >= b.right || a.bottom <= b.top || a.top >= b.bottom;
    expect("places of the Pareto chart lie on each other", boxes.every((a, i) => boxes.slice(i + 1).every((b) => apart(a, b))));
  }
  await drawn();
  expect("no headline", one("#verdict h2")?.textContent.trim().length > 3);
  expect("sections that the contents do not name", all("main section").length === all("nav a").length);
  for (const link of all("nav a")) expect(`${link.textContent} leads nowhere`, one(link.getAttribute("href")) !== null);
  checkValues();
  await settled();
  checkLayout("as opened");
  checkPareto();

  if (diagnosis) {
    expect("not a row for each line", rows("lines").length === answer.profile.lines.length);
    expect("the answer has other findings", all("#verdict ol li").length === answer.findings.length);
  }

  // --- a plan or a run ---

  if (plan?.step_time_s) {
    const fits = plan.feasible; // what does not fit has no step time as its headline
    if (fits) expect("the headline is not the JSON's", Number(one("#step-time").dataset.value) === plan.step_time_s);
    const kernels = shown.step ? ["pipeline", "roofline"] : [];
    for (const id of ["time", "memory", "conventions", "evidence", ...kernels]) expect(`no section ${id}`, one(`#${id}`) !== null);
    await choose("bytes", "GB");
    expect("GiB after the switch to GB", text().includes(" GB") && !one("#memory").textContent.includes("GiB"));
    checkValues();
    await choose("bytes", "GiB");
    await choose("convention", "6N");
    const mfu = (100 * plan.conventions["6N"].mfu).toPrecision(3);
    expect(`the verdict does not say ${mfu} % by 6N`, one(fits ? "#verdict h2" : "#verdict").textContent.includes(`${mfu} %`));
    await choose("convention", "gemm_causal");
    expect("a term is missing", rows("terms").length === Object.keys(plan.breakdown_s).length);
  }
  if (shown.step && plan) {
    const place = one("#pipeline .timeline");
    const { left, top, width } = place.getBoundingClientRect();
    const at = (kind, share) =>
      place.dispatchEvent(new PointerEvent(kind, { clientX: left + share * width, clientY: top + 5, bubbles: true }));
    const heading = () => one("#pipeline h3").textContent;
    const before = heading();
    at("pointerdown", 0.5);
    at("pointermove", 0.6);
    at("pointerup", 0.6);
    await drawn();
    expect("the timeline does not follow the pointer", heading() !== before);
    const [, , , , start] = all("#pipeline .buttons button");
    await click(start);
    expect("the timeline does not return to its start", heading() === before);
  }
  if (several) {
    expect("not a row for each question", rows("questions").length === answer.plans.length);
    const other = answer.plans.findIndex((p, i) => i !== (answer.best ?? 0) && p.answer.plans.length);
    await click(rows("questions")[other]);
    expect("another question has the same headline", Number(one("#step-time").dataset.value) === answer.plans[other].answer.plans[0].step_time_s);
    checkValues();
  }
  if (!several && Array.isArray(answer.plans) && plan) {
    const candidates = [...answer.plans, ...answer.others];
    expect("not a row for each plan", rows("ranking").length === candidates.length);
    await click(one('[data-table="ranking"] [tabulator-field="peak_bytes"] button'));
    const peaks = rows("ranking").map((row) => Number(row.querySelector('[tabulator-field="peak_bytes"] .exact').dataset.value));
    expect("not sorted by a click", peaks.every((peak, i) => i === 0 || peak >= peaks[i - 1]));
    const filter = one("#ranking input");
    await type(filter, "tp=12345");
    expect("not filtered", rows("ranking").length === 0);
    await type(filter, "");
    expect("not all without a filter", rows("ranking").length === candidates.length);
    if (candidates.length > 1) {
      const row = () => one('[data-table="ranking"] [data-row="1"]');
      row().focus();
      row().dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await drawn();
      expect("the Enter key does not choose a row", one(".chosen-plan")?.textContent.includes(candidates[1].strategy));
      expect("the row that was chosen loses the focus", document.activeElement === row());
      await click(one("#back"));
      expect("there is no way back", one(".chosen-plan") === null);
      // Side by side: the figures of both, and their difference.
      const last = candidates.length - 1;
      await click(one(`[data-table="ranking"] [data-row="${last}"] button`));
      const [, , first, second, , ratio] = rows("beside")
        .find((r) => r.textContent.includes("step time"))
        .querySelectorAll(".tabulator-cell");
      const time = (cell) => Number(cell.querySelector(".exact").title.split(" ")[0]);
      expect("the first is not the winner", time(first) === plan.step_time_s);
      expect("the second is not the chosen one", time(second) === candidates[last].step_time_s);
      const change = 100 * (candidates[last].step_time_s / plan.step_time_s - 1);
      const said = Number(ratio.textContent.replace("−", "-").replace("%", ""));
      expect(`${ratio.textContent} is not ${change} %`, Math.abs(said - change) <= 6e-3 * Math.abs(change));
    }
  }

  // --- a back-test ---

  if (backtest) {
    expect("the headline is not the JSON's", Number(one("#median-error").dataset.value) === answer.overall.macro_median_abs_error);
    const scored = answer.runs.filter((run) => run.scored.includes("step_time") && run.predicted_s > 0);
    expect("not a point for each scored run", all('#scatter [data-mark="dot"] circle').length === scored.length);
    await click(rows("groups")[0]);
    expect("a click on a study does not mark its runs", one("#scatter strong")?.textContent === answer.groups[0].group);
  }

  // --- narrower, and on paper ---

  // Without frames no observer notices the new width (page_accessibility has them).
  one("main").style.maxWidth = "330px";
  for (const redraw of drawnToWidth) redraw();
  await drawn();
  await settled();
  checkLayout("narrower");
  checkPareto();
  one("main").style.maxWidth = "";
  dispatchEvent(new Event("beforeprint"));
  await drawn();
  const paper = one("main").clientWidth;
  expect(`${paper} pixels on paper`, paper === 1040);
  for (const part of all("svg, .tabulator-table"))
    expect(`${part.closest("section")?.id}: cut on paper`, part.getBoundingClientRect().width <= paper + 1);
  dispatchEvent(new Event("afterprint"));
  wrong.push(...failures);
  document.body.dataset.probe = wrong.length ? [...new Set(wrong)].slice(0, 9).join("; ") : "right";
})().catch((error) => (document.body.dataset.probe = error.stack));
