"use strict";
// Rows of messages, made of nodes and never of markup.
const pymqRows = (() => {
  const names = ["store_time", "broker", "queue", "offset", "tags", "keys", "body_begin"];
  const labels = ["Stored", "Broker", "Queue", "Offset", "Tag", "Keys", "Body"];

  const number = (count) => count.toLocaleString("en-US");

  const visible = (text) =>
    text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (one) => "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));

  // Returns the body of the page's table. A page without one gets it after an element.
  const table = (place) => {
    const found = document.querySelector("#main table tbody");
    if (found) return found;
    const made = document.createElement("table");
    const head = made.createTHead().insertRow();
    for (const label of labels) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = label;
      head.append(cell);
    }
    const empty = document.querySelector("#main .empty");
    if (empty) empty.replaceWith(made);
    else place.after(made);
    return made.createTBody();
  };

  // Returns a row of a message. Addresses of pages begin with the base.
  const row = (record, base) => {
    const line = document.createElement("tr");
    names.forEach((name, at) => {
      const cell = document.createElement(at ? "td" : "th");
      cell.dataset.name = labels[at];
      if (!at) cell.scope = "row";
      if (name === "queue" || name === "offset") cell.className = "n";
      const value = record[name];
      const text = value === null ? "\u2013" : visible(typeof value === "number" ? number(value) : String(value));
      if (at) cell.textContent = text;
      else {
        const link = document.createElement("a");
        link.href = base + record.path;
        link.textContent = text;
        cell.append(link);
      }
      line.append(cell);
    });
    return line;
  };

  return { number, visible, table, row };
})();
