// What all parts of the page have in common.  A part takes what it draws from the JSON and gives
// markup.

const section = (id, title, lead, content) => markup`<section id="${id}"><h2>${title}</h2>
  ${lead && markup`<p class="lead">${lead}</p>`}${content}</section>`;

const tile = (name, value, note) =>
  markup`<div class="tile"><dt>${name}</dt><dd>${value}</dd><dd class="note">${note}</dd></div>`;

const runName = (run) => {
  const { accelerator, num_devices, system } = run.hardware;
  return `${run.model.name} on ${grouped(num_devices)} × ${accelerator}${system ? ` (${system})` : ""}`;
};
