// Tables by Tabulator: sorted by a click on a head, filtered by words, with rows that can be chosen.
//
// A column is {key, head, value(row), show(row), compared(row), text: true for words, wide: true for sentences}: what it sorts by,
// what stands in it (the value where it is not said) and what a filter compares (likewise).

const { Tabulator, render } = libraries;

// Every word of the filter stands in the row, or a comparison "step<16" holds.
function keeps(columns, row, filter) {
  const all = columns.map((c) => String(c.value(row) ?? "").toLowerCase()).join(" ");
  const holds = (word) => {
    const [, name, sign, text] = word.match(/^([a-z_]+)(<=|>=|<|>|=)(.+)$/) ?? [];
    const column = columns.find((c) => [c.key, c.head].some((n) => n.toLowerCase() === name));
    if (!column) return all.includes(word);
    const value = (column.compared ?? column.value)(row);
    const order = Math.sign(value - Number(text));
    if (Number.isNaN(order)) return sign === "=" && String(value).toLowerCase() === text;
    return { "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0, "=": order === 0 }[sign];
  };
  return filter.toLowerCase().split(/\s+/).filter(Boolean).every(holds);
}

// What has no value comes last, up or down.
function ordered(a, b, up) {
  const missing = (value) => value === null || value === undefined;
  if (a === b) return 0;
  if (missing(a) || missing(b)) return missing(a) === up ? 1 : -1;
  return a < b ? -1 : 1;
}

function drawnCell(content) {
  const cell = document.createElement("span");
  render(html`${content}`, cell);
  return cell;
}

// A column as Tabulator describes it; `latest` has what the table was last asked to show.
const tabulatorColumn = ({ key, head, text, wide }, latest) => ({
  title: head,
  field: key,
  cssClass: `${text ? "text" : "number"}${wide ? " wide" : ""}`,
  minWidth: wide ? 200 : 24,
  maxWidth: wide ? 520 : undefined,
  variableHeight: Boolean(wide),
  headerSort: head !== "",
  titleFormatter: () => drawnCell(head && html`<button type="button">${head}</button>`),
  sorter: (a, b, one, other, column, direction) => ordered(a, b, direction === "asc"),
  formatter: (cell) => {
    const { show, value } = latest.current.columns.find((c) => c.key === key);
    return drawnCell((show ?? value)(latest.current.rows[cell.getData().index]));
  },
});

const dataOf = ({ columns, rows }) =>
  rows.map((row, index) => ({ index, ...Object.fromEntries(columns.map((c) => [c.key, c.value(row)])) }));

// A row that can be chosen answers to the Enter key too.
function dressRow(row, { rows, kind, choose }) {
  const element = row.getElement();
  const own = rows[row.getData().index];
  element.dataset.row = row.getData().index;
  for (const name of ["chosen", "second", "other"]) element.classList.toggle(name, Boolean(kind?.(own)[name]));
  if (!choose) return;
  element.tabIndex = 0;
  element.classList.add("choice");
  element.onkeydown = (event) => event.key === "Enter" && event.target === element && choose(own);
  element.onclick = (event) => event.target.closest("button") || choose(own);
}

const tabulator = (place, latest) =>
  new Tabulator(place, {
    data: dataOf(latest.current),
    columns: latest.current.columns.map((column) => tabulatorColumn(column, latest)),
    layout: latest.current.columns.at(-1).text ? "fitDataStretch" : "fitData",
    renderVertical: "basic",
    placeholder: "nothing has these words",
    headerSortElement: "<i></i>",
    rowFormatter: (row) => dressRow(row, latest.current),
  });

// What scrolls is the group of rows, so that keys reach it; Tabulator names what is in it.
function nameParts(grid, label) {
  grid.setAttribute("aria-label", label);
  grid.removeAttribute("aria-owns");
  grid.querySelector(".tabulator-tableholder").setAttribute("role", "rowgroup");
  grid.querySelector(".tabulator-table").setAttribute("role", "presentation");
}

// `choose(row)` on a click or the Enter key; kind(row) says what a row is: {chosen, second, other}.
function Table(props) {
  const { name, label, filter } = props;
  const place = useRef(null),
    table = useRef(null),
    latest = useRef(props);
  latest.current = props;
  const [sought, seek] = useState("");
  useEffect(() => {
    const made = tabulator(place.current, latest);
    const redraw = () => made.redraw(true);
    made.on("tableBuilt", () => {
      nameParts(made.element, label);
      table.current = made;
      drawnToWidth.add(redraw);
    });
    return () => {
      drawnToWidth.delete(redraw);
      table.current = null;
      made.destroy();
    };
  }, []);
  // Rows without a kind change when others are asked for; a row that has the focus keeps it.
  useEffect(() => {
    const index = place.current.contains(document.activeElement) && document.activeElement.dataset.row;
    const focus = () => index && place.current?.querySelector(`[data-row="${index}"]`)?.focus();
    table.current?.replaceData(dataOf(props)).then(focus);
  }, [props.rows, settings.bytes, settings.convention, props.kind && page]);
  useEffect(() => {
    table.current?.setFilter((data) => keeps(latest.current.columns, latest.current.rows[data.index], sought));
  }, [sought]);
  const input = html`<input type="search" placeholder=${filter} aria-label="filter: ${label}" value=${sought}
    onInput=${(event) => seek(event.target.value)} />`;
  return html`<div class="table" data-table=${name}>${filter && input}<div ref=${place}></div></div>`;
}

const table = (name, label, columns, rows, more) =>
  html`<${Table} key=${name} name=${name} label=${label} columns=${columns} rows=${rows} ...${more} />`;

// --- columns ---

const wordColumn = (key, head, value, more) => ({ key, head, value, text: true, ...more });

// Of sums, ratios and counts; a filter compares the value in the unit `shown`.
const column = (key, head, value, write = (v) => v ?? "", shown = (v) => v) => ({
  key,
  head,
  value,
  compared: (row) => shown(value(row)),
  show: (row) => write(value(row)),
});
const countColumn = (key, head, value) => column(key, head, value, (v) => (isNumber(v) ? grouped(v) : ""));

// Of values that the answer has.
const exactColumn = (write, unit, shown) => (key, head, value) =>
  column(key, head, value, (v) => (isNumber(v) ? exact(write(v), v, unit) : "–"), shown);
const timeColumn = exactColumn(seconds, "s");
const bytesColumn = exactColumn(bytes, "bytes", (value) => bytesIn(value));
const percentColumn = exactColumn(percent, "", (value) => 100 * value);
