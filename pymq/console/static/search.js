"use strict";
// Says how far a search is while it goes on, and shows what it has found so far. At its end comes its page.
(() => {
  const form = document.querySelector("form[data-events]");
  const state = document.getElementById("progress");
  if (!form || !state || !window.EventSource) return;
  const { number } = pymqRows;

  const search = (page) => {
    const source = new EventSource(form.dataset.events + page.search);
    let rows = null;
    let following = "";
    const say = document.createElement("p");
    say.className = "scanned";
    say.textContent = "searching...";
    const stop = document.createElement("button");
    stop.type = "button";
    stop.textContent = "Stop";
    state.replaceChildren(say, stop);
    form.setAttribute("aria-busy", "true");

    const end = () => {
      source.close();
      stop.remove();
      form.removeAttribute("aria-busy");
    };
    stop.addEventListener("click", () => {
      end();
      say.textContent = say.textContent.replace("searching", "stopped");
      if (!following) return;
      const link = document.createElement("a");
      link.rel = "next";
      link.href = `${page.pathname}?${following}`;
      link.textContent = "Go on";
      say.append(" ", link);
    });
    source.addEventListener("progress", (event) => {
      const now = JSON.parse(event.data);
      following = now.query;
      say.textContent = `searching: scanned ${number(now.scanned)} of ${number(now.of)}, ${number(now.found)} found.`;
      if (rows === null) {
        for (const old of document.querySelectorAll("#main section, #main .scanned, #main .empty, #main .note")) {
          if (!state.contains(old)) old.remove();
        }
        rows = pymqRows.table(state);
      }
      for (const record of now.rows) rows.append(pymqRows.row(record, form.dataset.base));
    });
    source.addEventListener("done", (event) => {
      end();
      window.location.assign(`${page.pathname}?${JSON.parse(event.data).query}`);
    });
    // The page says what went wrong.
    for (const name of ["problem", "end", "error"]) {
      source.addEventListener(name, () => {
        end();
        window.location.assign(page.href);
      });
    }
  };

  const next = document.querySelector(".scanned a[rel=next]");
  if (next) {
    next.addEventListener("click", (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      search(new URL(next.href));
    });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    search(new URL(`${window.location.pathname}?${query}`, window.location.href));
  });
})();
