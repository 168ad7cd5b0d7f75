"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, i) => {
    const cell = row.cells[i];
    const text = cell.dataset.value ?? cell.textContent;
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text;
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  heads.forEach((head, i) => {
    head.tabIndex = 0;
    const sort = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, i), row]);
      rows.sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
      body.append(...rows.map(([, row]) => row));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
for (const box of document.querySelectorAll("input.filter")) {
  const rows = [...box.parentElement.querySelector("table").tBodies[0].rows];
  const count = box.parentElement.querySelector("output");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  });
}
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", open);
open();
