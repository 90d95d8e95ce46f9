// Finding by typing, and keys. All of it leads to pages that have links of their own.
"use strict";

// ---- The palette: a combobox over a list that the server fills.
const sheets = document.getElementById("sheets"); // not there for whoever is not signed in

const palette = {
  asked: 0,

  open() {
    if (!sheets || document.querySelector("dialog[open]")) return;
    this.dialog = sheet("palette");
    this.moved = false;
    [this.input, this.list, this.status] = this.dialog.querySelectorAll("input, ul, p");
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", e => this.key(e));
    this.list.addEventListener("click", e => this.go(e.target.closest("[role=option]")));
    this.list.addEventListener("pointermove", e => {
      const i = this.options().indexOf(e.target.closest("[role=option]"));
      if (i >= 0 && i !== this.at()) this.select(i);
    });
    this.ask();
  },

  options() { return [...this.list.querySelectorAll("[role=option]")]; },

  at() { return this.options().findIndex(o => o.getAttribute("aria-selected") === "true"); },

  select(i) {
    const options = this.options();
    if (!options.length) { this.input.removeAttribute("aria-activedescendant"); return; }
    i = (i + options.length) % options.length;
    options.forEach((o, n) => o.setAttribute("aria-selected", String(n === i)));
    options[i].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[i].id);
  },

  // What somebody has moved to stays chosen when a later answer still has it; else it is the first.
  async ask() {
    const turn = ++this.asked;
    this.list.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("/find?" + new URLSearchParams({ q: this.input.value }), { headers: { "Weir-Fragment": "1" }, redirect: "manual", signal: AbortSignal.timeout(10000) });
      if (turn !== this.asked) return; // something else has been typed meanwhile
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      if (turn !== this.asked) return;
      const kept = this.moved && this.options()[this.at()]?.dataset.href;
      this.list.replaceChildren(...fresh.content.children);
      this.select(Math.max(0, this.options().findIndex(o => o.dataset.href === kept)));
      const n = this.list.children.length;
      this.status.textContent = n === 1 ? "1 found" : `${n || "Nothing"} found`;
    } catch {
      if (turn !== this.asked) return;
      this.list.querySelectorAll(".skeleton").forEach(line => line.remove());
      this.status.textContent = "Weir does not answer. Try again.";
    } finally {
      if (turn === this.asked) this.list.removeAttribute("aria-busy");
    }
  },

  // What was chosen before the answer to the last key came would be something else.
  async go(option) {
    if (!option) return;
    const href = option.dataset.href, [path, hash] = href.split("#");
    this.dialog.close();
    if (hash && path === location.pathname) { location.hash = ""; location.hash = hash; } else location.assign(href);
  },

  key(e) {
    const moves = { ArrowDown: () => this.at() + 1, ArrowUp: () => this.at() - 1, PageDown: () => Math.min(this.at() + 6, this.options().length - 1), PageUp: () => Math.max(this.at() - 6, 0) };
    if (moves[e.key]) { e.preventDefault(); this.moved = true; this.select(moves[e.key]()); }
    if (e.key === "Enter") {
      e.preventDefault();
      if (this.wait || this.list.hasAttribute("aria-busy")) this.enter = true; else this.go(this.options()[this.at()]);
    }
  },

  typed() {
    clearTimeout(this.wait);
    this.enter = this.moved = false;
    this.wait = setTimeout(async () => {
      this.wait = 0;
      await this.ask();
      if (this.enter && !this.wait) { this.enter = false; this.go(this.options()[this.at()]); }
    }, 120);
  },
};

// sheet opens a copy of one of the dialogs in the page's template, which goes when it is closed.
function sheet(id) {
  const dialog = sheets.content.getElementById(id).cloneNode(true);
  dialog.addEventListener("click", e => { if (e.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// ---- Keys. Those without Ctrl can be turned off: some people's software speaks in keys.
let keysOn = true;
try { keysOn = localStorage.getItem("keys") !== "off"; } catch { /* no storage: they are on */ }

function openKeys() {
  if (!sheets || document.querySelector("dialog[open]")) return;
  const box = sheet("keys").querySelector("input");
  box.checked = keysOn;
  box.addEventListener("change", () => {
    keysOn = box.checked;
    try { localStorage.setItem("keys", keysOn ? "on" : "off"); } catch { /* until the page is left */ }
  });
}

const goes = { o: "/", d: "/destinations", a: "/lanes", e: "/events", l: "/deliveries", x: "/dead-letters", r: "/replays" };
let gAt = 0;

function step(by) {
  const links = [...document.querySelectorAll("main tbody > tr, main ul.attention > li")].map(row => row.querySelector("a[href]")).filter(link => link?.checkVisibility()); // not those in a fold
  const row = document.activeElement.closest("tbody > tr, ul.attention > li");
  const at = links.findIndex(link => row?.contains(link));
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[next]?.focus();
}

const keys = {
  "/": () => {
    const field = document.querySelector("main form[role=search] input[type=search]");
    if (field) { field.focus(); field.select(); } else palette.open();
  },
  "?": openKeys,
  j: () => step(1),
  k: () => step(-1),
  n: () => document.querySelector("main a[rel=next]")?.click(),
  p: () => document.querySelector("main a[rel=prev]")?.click(),
  g: () => { gAt = Date.now(); },
};

document.addEventListener("keydown", e => {
  if ((e.ctrlKey || e.metaKey) && !e.altKey && !e.shiftKey && e.key.toLowerCase() === "k") { e.preventDefault(); palette.open(); return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || !sheets || !keysOn) return;
  if (document.querySelector("dialog[open]") || e.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
  const to = Date.now() - gAt < 1500 ? goes[e.key] : null;
  gAt = 0;
  if (to) { e.preventDefault(); location.assign(to); return; }
  if (Object.hasOwn(keys, e.key)) { e.preventDefault(); keys[e.key](); }
});

document.addEventListener("click", e => {
  if (e.target.closest("[data-open=palette]")) palette.open();
  if (e.target.closest("[data-open=keys]")) openKeys();
});
