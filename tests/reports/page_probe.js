// Runs in a page after its own script: uses it as a reader would, and writes "right" or what is
// wrong to the body.
(() => {
  const wrong = [];
  const expect = (what, condition) => {
    if (!condition) wrong.push(what);
  };
  const answer = JSON.parse(document.getElementById("data").textContent);
  const several = Array.isArray(answer.keys);
  const backtest = Array.isArray(answer.groups);
  const plan = backtest
    ? null
    : several
      ? answer.plans[answer.best ?? 0].answer.plans[0]
      : Array.isArray(answer.plans)
        ? answer.plans[0]
        : answer;
  // Of several answers without a best one no step is drawn.
  const drawn = backtest ? null : (several ? answer.plans[answer.best ?? 0].answer : answer).step;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const text = () => one("main").textContent;

  expect("no headline", one("#verdict h2")?.textContent.trim().length > 3);
  for (const word of ["NaN", "undefined", "Infinity", "[object"])
    expect(
      `${word} is on the page`,
      !text().includes(word) && !one("main").innerHTML.includes(`"${word}`),
    );

  if (plan?.step_time_s) {
    const fits = plan.feasible; // what does not fit has no step time as its headline
    if (fits) {
      const headline = one("#step-time");
      expect(
        "the headline is not the JSON's step time",
        Number(headline?.dataset.value) === plan.step_time_s,
      );
      const [shown, unit] = headline.textContent.split(" ");
      const seconds = Number(shown) * { s: 1, ms: 1e-3, µs: 1e-6 }[unit];
      expect("the headline is rounded wrongly", Math.abs(seconds / plan.step_time_s - 1) < 1e-3);
    }
    const kernels = drawn ? ["pipeline", "roofline"] : [];
    for (const id of ["time", "memory", "conventions", "evidence", ...kernels])
      expect(`no section ${id}`, one(`#${id}`) !== null);
    for (const drawing of all("svg *"))
      for (const { name, value } of drawing.attributes)
        if (/NaN|undefined|Infinity/.test(value))
          wrong.push(`${drawing.tagName} ${name} = ${value}`);

    const choose = (id, value) => {
      one(`#${id}`).value = value;
      one(`#${id}`).dispatchEvent(new Event("change"));
    };
    choose("bytes", "GB");
    expect(
      "GiB after the switch to GB",
      text().includes(" GB") && !one("#memory").textContent.includes("GiB"),
    );
    choose("bytes", "GiB");
    choose("convention", "6N");
    const mfu = (100 * plan.conventions["6N"].mfu).toPrecision(3);
    expect(
      `the verdict does not say ${mfu} % by 6N`,
      one(fits ? "#verdict h2" : "#verdict").textContent.includes(`${mfu} %`),
    );
    choose("convention", "gemm_causal");

    if (drawn) {
      const place = one("#pipeline .timeline");
      const { left, top, width } = place.getBoundingClientRect();
      const at = (type, share) =>
        place.dispatchEvent(
          new PointerEvent(type, {
            clientX: left + share * width,
            clientY: top + 5,
            bubbles: true,
          }),
        );
      const before = one("#pipeline h3").textContent;
      at("pointerdown", 0.5);
      at("pointerup", 0.6);
      expect(
        "the timeline does not follow the pointer",
        one("#pipeline h3").textContent !== before,
      );
    }
  }

  if (several) {
    const other = answer.plans.findIndex(
      (p, i) => i !== (answer.best ?? 0) && p.answer.plans.length,
    );
    one(`[data-question="${other}"] td`).click();
    expect(
      "another question has the same headline",
      Number(one("#step-time").dataset.value) === answer.plans[other].answer.plans[0].step_time_s,
    );
  }

  if (!several && Array.isArray(answer.plans) && plan) {
    const rows = () => all("#ranking tbody tr[data-row]");
    const candidates = answer.plans.length + answer.others.length;
    expect("not a row for each plan", rows().length === candidates);
    one('#ranking [data-sort="peak_bytes"]').click();
    const peaks = rows().map((row) =>
      Number(row.querySelector('[data-tip$=" bytes"]').dataset.tip.split(" ")[0]),
    );
    expect(
      "not sorted by a click",
      peaks.every((peak, i) => i === 0 || peak >= peaks[i - 1]),
    );
    const filter = one("#ranking input");
    filter.value = "tp=12345";
    filter.dispatchEvent(new Event("input"));
    expect("not filtered", rows().length === 0);
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
    if (candidates > 1) {
      one('#ranking tr[data-row="1"] td').click();
      expect("a click on a row does not choose it", one(".chosen-plan") !== null);
      one("#back").click();
      expect("there is no way back", one(".chosen-plan") === null);
    }
  }
  if (backtest) {
    expect(
      "the headline is not the JSON's median error",
      Number(one("#median-error").dataset.value) === answer.overall.macro_median_abs_error,
    );
    expect(
      "not a point for each scored run",
      all("#scatter circle").length ===
        answer.runs.filter((run) => run.scored.includes("step_time") && run.predicted_s > 0).length,
    );
    one("#groups tbody tr td").click();
    expect(
      "a click on a study does not mark its runs",
      one("#scatter strong")?.textContent === answer.groups[0].group,
    );
  }
  wrong.push(...failures);
  document.body.dataset.probe = wrong.length ? wrong.join("; ") : "right";
})();
