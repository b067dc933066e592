"use strict";
// Follows a topic: puts new rows on top of the table, keeps a fixed number, and says what it does not show.
(() => {
  const place = document.getElementById("tail");
  const state = document.getElementById("tail-state");
  if (!place || !window.EventSource) return;
  const rowsMax = Number(place.dataset.rows);
  const names = ["store_time", "broker", "queue", "offset", "tags", "keys", "body_begin"];
  const labels = ["Stored", "Broker", "Queue", "Offset", "Tag", "Keys", "Body"];
  let paused = false;
  let skipped = 0;
  const since = new Date().toISOString().slice(11, 19);

  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Pause";
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) skipped = 0;
    say(paused ? "paused" : "waiting for the next messages");
  });
  place.append(button);

  function say(text) {
    state.textContent = text;
  }

  function visible(text) {
    return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (one) => "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));
  }

  function body() {
    let found = document.querySelector("#main table tbody");
    if (found) return found;
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const label of labels) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = label;
      head.append(cell);
    }
    found = table.createTBody();
    const empty = document.querySelector("#main .empty");
    if (empty) empty.replaceWith(table);
    else place.after(table);
    return found;
  }

  function row(record) {
    const line = document.createElement("tr");
    names.forEach((name, at) => {
      const cell = document.createElement(at ? "td" : "th");
      cell.dataset.name = labels[at];
      if (!at) cell.scope = "row";
      if (name === "queue" || name === "offset") cell.className = "n";
      const value = record[name];
      const text = value === null ? "\u2013" : visible(typeof value === "number" ? value.toLocaleString("en-US") : String(value));
      if (at) cell.textContent = text;
      else {
        const link = document.createElement("a");
        link.href = place.dataset.base + record.path;
        link.textContent = text;
        cell.append(link);
      }
      line.append(cell);
    });
    return line;
  }

  const number = (count) => count.toLocaleString("en-US");
  const source = new EventSource(place.dataset.events);
  source.addEventListener("open", () => say(`live since ${since} UTC`));
  source.addEventListener("round", (event) => {
    const found = JSON.parse(event.data);
    const hidden = found.unread + found.unshown;
    if (paused) {
      skipped += found.arrived;
      say(`paused: ${number(skipped)} messages came, and are not shown`);
      return;
    }
    const rows = body();
    for (const record of found.rows) rows.prepend(row(record));
    while (rows.rows.length > rowsMax) rows.lastElementChild.remove();
    const failed = Object.entries(found.failed).map(([broker, why]) => `; ${visible(broker)} can't be read: ${visible(why)}`);
    const more = hidden ? `, ${number(hidden)} more not shown (too many)` : "";
    say(`live since ${since} UTC: ${number(found.arrived)} new in the last second, ${number(found.rows.length)} shown${more}${failed.join("")}`);
  });
  source.addEventListener("problem", (event) => say(`no answer: ${visible(JSON.parse(event.data))}; trying again`));
  source.addEventListener("end", (event) => {
    source.close();
    say(`ended: ${visible(JSON.parse(event.data))}`);
  });
  source.addEventListener("error", () => {
    say(source.readyState === EventSource.CLOSED ? "the stream can't be opened: load the page again to see why" : "the connection is lost; trying again");
  });
})();
