"use strict";
// What pages do beside being pages: search while you type, keys, times of your zone, copied commands.
// Every page works without it. It builds nodes and never markup.

(() => {
  const SEARCH_PAUSE_MS = 150;
  // The one way from text to nodes: an answer of this console, parsed into a document that runs nothing.
  const policy = window.trustedTypes ? window.trustedTypes.createPolicy("pymq", { createHTML: (text) => text }) : null;
  const parsed = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");

  // -- times ----------------------------------------------------------------------------------------------------------

  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const localize = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.valueOf())) continue;
      time.title = `${local.format(at)} (${time.dateTime})`;
      if (time.textContent === time.dateTime) time.textContent = `${local.format(at)} (${time.dateTime})`;
    }
  };

  // -- parts of a page that change ------------------------------------------------------------------------------------

  let asked = null;
  // Replaces the element of this id by that of the page at an address. Goes to the address when that fails,
  // unless it stays: then the element is left as it is.
  const replace = async (id, address, stays = false) => {
    if (asked) asked.abort();
    const mine = (asked = new AbortController());
    const here = document.getElementById(id);
    here.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { signal: mine.signal, headers: { accept: "text/html" } });
      if (answer.redirected || !(answer.headers.get("content-type") || "").startsWith("text/html")) {
        window.location.assign(address);
        return;
      }
      const there = parsed(await answer.text()).getElementById(id);
      if (there === null) {
        window.location.assign(address);
        return;
      }
      localize(there);
      here.replaceWith(document.adoptNode(there));
    } catch (error) {
      if (error.name !== "AbortError" && !stays) window.location.assign(address);
    } finally {
      here.removeAttribute("aria-busy");
      if (asked === mine) asked = null;
    }
  };

  // Loads an element again that says after how many seconds: until the page has one that doesn't. Not while hidden.
  const refresh = (id) => {
    const here = document.getElementById(id);
    if (here === null || !here.dataset.refreshS) return;
    window.setTimeout(async () => {
      if (!document.hidden) await replace(id, window.location.href, true);
      refresh(id);
    }, 1000 * Number(here.dataset.refreshS));
  };

  const live = (form) => {
    let waiting = 0;
    const look = () => {
      const address = `${window.location.pathname}?${new URLSearchParams(new FormData(form))}`;
      window.history.replaceState(null, "", address);
      replace(form.dataset.live, address);
    };
    form.addEventListener("input", () => {
      window.clearTimeout(waiting);
      waiting = window.setTimeout(look, SEARCH_PAUSE_MS);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      window.clearTimeout(waiting);
      look();
    });
  };

  // -- keys -----------------------------------------------------------------------------------------------------------

  const isTyping = (target) => target.matches("input, select, textarea, [contenteditable]");
  const pages = new Map();
  for (const link of document.querySelectorAll("nav a[data-key]")) pages.set(link.dataset.key, link);
  let isGoing = false;

  const step = (by) => {
    const rows = [...document.querySelectorAll("main tbody tr:has(a)")];
    if (rows.length === 0) return;
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    const next = now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + by));
    rows[next].querySelector("a").focus();
  };

  const press = (key) => {
    if (isGoing) {
      isGoing = false;
      if (pages.has(key)) pages.get(key).click();
      return pages.has(key);
    }
    const search = document.querySelector("input[type=search]");
    if (key === "g") isGoing = true;
    else if (key === "/" && search) search.focus();
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "?" && pages.has("?")) pages.get("?").click();
    else return false;
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && isTyping(event.target)) {
      event.target.blur();
      return;
    }
    if (!isTyping(event.target) && press(event.key)) event.preventDefault();
  });

  // -- begin ----------------------------------------------------------------------------------------------------------

  localize(document);
  for (const form of document.querySelectorAll("form[data-live]")) live(form);
  for (const part of document.querySelectorAll("[data-refresh-s][id]")) refresh(part.id);
  for (const command of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "Copied";
    });
    command.after(" ", button);
  }
})();
