// Tables that are sorted by a click on a header and filtered by a word.

// A column is {key, head, value(row), show(row), text: true for words}.
class DataTable {
  constructor(name, columns, rows, options = {}) {
    Object.assign(this, { name, columns, rows, filter: "", sorted: null, down: false }, options);
  }

  words(row) {
    return this.columns
      .map((c) => String(c.value(row) ?? ""))
      .join(" ")
      .toLowerCase();
  }

  // Every word of the filter stands in the row, or a comparison "step<16" holds.
  keeps(row) {
    return this.filter
      .toLowerCase()
      .split(/\s+/)
      .filter(Boolean)
      .every((word) => {
        const compared = word.match(/^([a-z_]+)(<=|>=|<|>|=)(.+)$/);
        const column =
          compared &&
          this.columns.find((c) => [c.key, c.head].some((n) => n.toLowerCase() === compared[1]));
        if (!column) return this.words(row).includes(word);
        const value = column.filterValue ? column.filterValue(row) : column.value(row);
        const limit = Number(compared[3]);
        if (!Number.isFinite(limit)) return String(value).toLowerCase() === compared[3];
        return {
          "<": value < limit,
          ">": value > limit,
          "<=": value <= limit,
          ">=": value >= limit,
          "=": value === limit,
        }[compared[2]];
      });
  }

  ordered() {
    const rows = this.rows.filter((row) => this.keeps(row));
    const column = this.columns.find((c) => c.key === this.sorted);
    if (!column) return rows;
    const sign = this.down ? -1 : 1;
    return rows.sort((a, b) => {
      const [one, other] = [column.value(a), column.value(b)];
      if (one === other) return 0;
      if (one === null || one === undefined) return 1;
      if (other === null || other === undefined) return -1;
      return sign * (one < other ? -1 : 1);
    });
  }

  body() {
    const rows = this.ordered();
    if (rows.length === 0)
      return markup`<tr><td colspan="${this.columns.length}" class="none">nothing has these words</td></tr>`;
    return rows.map(
      (row) => markup`<tr data-row="${this.rows.indexOf(row)}"
      class="${this.kind ? this.kind(row) : ""}">${this.columns.map(
        (c) =>
          markup`<td class="${c.text ? "text" : ""}">${c.show ? c.show(row) : c.value(row)}</td>`,
      )}</tr>`,
    );
  }

  heads() {
    return this.columns.map(
      (c) => markup`<th scope="col" class="${c.text ? "text" : ""}"
      aria-sort="${this.sorted === c.key ? (this.down ? "descending" : "ascending") : "none"}">
      <button type="button" data-sort="${c.key}">${c.head}</button></th>`,
    );
  }

  markup() {
    return markup`<div class="table" data-table="${this.name}">
      ${
        this.filtered
          ? markup`<input type="search" placeholder="${this.filtered}"
        aria-label="filter" value="${this.filter}">`
          : ""
      }
      <div class="scroll"><table><thead><tr>${this.heads()}</tr></thead>
      <tbody>${this.body()}</tbody></table></div></div>`;
  }

  // Makes the drawn table answer; `choose(row)` on a click.
  listen(root, choose) {
    const place = root.querySelector(`[data-table="${this.name}"]`);
    if (!place) return;
    const redraw = () => {
      place.querySelector("thead tr").innerHTML = safe(this.heads());
      place.querySelector("tbody").innerHTML = safe(this.body());
    };
    place.querySelector("input")?.addEventListener("input", (event) => {
      this.filter = event.target.value;
      redraw();
    });
    place.querySelector("table").addEventListener("click", (event) => {
      const key = event.target.closest("[data-sort]")?.dataset.sort;
      const row = event.target.closest("tr[data-row]");
      if (key) {
        this.down = this.sorted === key && !this.down;
        this.sorted = key;
        redraw();
        place.querySelector(`[data-sort="${key}"]`).focus();
      } else if (row && choose) {
        choose(this.rows[Number(row.dataset.row)]);
      }
    });
  }
}
