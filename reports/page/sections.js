// What all parts of the page have in common.  A part takes what it draws from the answer and gives its elements, or nothing.

const kTitles = new Map(); // of the sections that are on the page, by their names

function section(id, title, lead, content, inContents = title) {
  kTitles.set(id, inContents);
  return html`<section key=${id} id=${id} aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    ${lead && html`<p class="lead">${lead}</p>`}${content}
  </section>`;
}

const tile = (name, value, note) =>
  html`<div class="tile"><dt>${name}</dt><dd>${value}</dd><dd class="note">${note}</dd></div>`;

// A choice of the page: [value, text] of each option.
const choice = (id, text, options, value, turn) =>
  html`<label>${text} <select id=${id} value=${value} onChange=${(event) => turn(event.target.value)}>
    ${options.map(([key, name]) => html`<option value=${key} key=${key}>${name}</option>`)}</select></label>`;

const runName = ({ model, hardware: { accelerator, num_devices, system } }) =>
  `${model.name} on ${grouped(num_devices)} × ${accelerator}${system ? ` (${system})` : ""}`;
