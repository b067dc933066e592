"use strict";
// Follows a topic: puts new rows on top of the table, keeps a fixed number, and says what it does not show.
(() => {
  const place = document.getElementById("tail");
  const state = document.getElementById("tail-state");
  if (!place || !window.EventSource) return;
  const rowsMax = Number(place.dataset.rows);
  const { number, visible } = pymqRows;
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
    const rows = pymqRows.table(place);
    for (const record of found.rows) rows.prepend(pymqRows.row(record, place.dataset.base));
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
