// What the pages do beyond plain HTML: regions that stay current, relative times, confirmations in a dialog, copy buttons.
// Every page works without it.
"use strict";

// ---- <live-region src="…" every="5s">: swaps in the server's fresh rendering of itself while somebody can see it.
class LiveRegion extends HTMLElement {
  connectedCallback() {
    this.period = Math.max(1, parseFloat(this.getAttribute("every")) || 5) * 1000;
    this.misses = 0;
    this.seen = () => { if (!document.hidden) this.refresh(); };
    document.addEventListener("visibilitychange", this.seen);
    this.plan();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }

  plan() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), this.period * Math.min(12, 1 + this.misses));
  }

  async refresh() {
    clearTimeout(this.timer);
    if (document.hidden || !this.isConnected) return; // visibilitychange starts it again
    // Not under the reader's hands: text being selected, a field being filled in, a question being answered.
    const selection = getSelection();
    const busy = document.querySelector("dialog[open], live-region details.confirm[open]") || (selection && !selection.isCollapsed && this.contains(selection.anchorNode)) ||
      (this.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"));
    if (!busy) {
      try {
        const answer = await fetch(this.getAttribute("src"), { headers: { "Weir-Fragment": "1" }, redirect: "manual", cache: "no-store" });
        if (answer.type === "opaqueredirect" || answer.status === 401) { this.say("You are signed out. Reload the page to sign in."); return; }
        if (!answer.ok) throw new Error(String(answer.status));
        this.swap(await answer.text());
        this.misses = 0;
        this.say("");
      } catch {
        this.misses++;
        if (this.misses > 1) this.say("Weir does not answer. What you see may be out of date.");
      }
    }
    this.plan();
  }

  swap(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    // Open details stay open, the focus stays on the same element, and boxes keep their scroll position.
    for (const old of this.querySelectorAll("details[id]")) {
      const next = fresh.content.getElementById(old.id);
      if (next) next.open = old.open;
    }
    const scrolls = [...this.querySelectorAll("[id]")].filter(e => e.scrollTop || e.scrollLeft).map(e => [e.id, e.scrollTop, e.scrollLeft]);
    const focus = this.contains(document.activeElement) ? LiveRegion.path(this, document.activeElement) : null;
    this.replaceChildren(fresh.content);
    for (const [id, top, left] of scrolls) { const e = document.getElementById(id); if (e) e.scrollTo(left, top); }
    if (focus) focus(this)?.focus({ preventScroll: true });
    enhance(this);
  }

  // A function that finds the counterpart of an element: by id, else a link by its address, else a summary by its details.
  static path(root, e) {
    if (e.id) return r => r.querySelector("#" + CSS.escape(e.id));
    if (e.tagName === "SUMMARY" && e.parentElement.id) return r => r.querySelector("#" + CSS.escape(e.parentElement.id) + " > summary");
    if (e.tagName === "A") {
      const same = [...root.querySelectorAll("a")].filter(a => a.href === e.href), n = same.indexOf(e);
      return r => [...r.querySelectorAll("a")].filter(a => a.href === e.href)[n];
    }
    return () => null;
  }

  say(text) {
    const out = document.getElementById("live-status");
    if (out && out.textContent !== text) out.textContent = text;
  }
}

// ---- Relative times, in the server's words.
function relative(at, now) {
  const s = Math.round(Math.abs(now - at) / 1000);
  if (s < 1) return "now";
  const [n, unit] = s < 60 ? [s, "s"] : s < 3600 ? [Math.floor(s / 60), "min"] : s < 172800 ? [Math.floor(s / 3600), "h"] : [Math.floor(s / 86400), "d"];
  return at > now ? `in ${n} ${unit}` : `${n} ${unit} ago`;
}

// The server's clock counts: a browser whose own is wrong must not show an age that is.
const skew = (Date.parse(document.body?.dataset.now) || Date.now()) - Date.now();

function tick() {
  for (const e of document.querySelectorAll("time[datetime] > .rel")) {
    const text = relative(Date.parse(e.parentElement.dateTime), Date.now() + skew);
    if (e.textContent !== text) e.textContent = text;
  }
}

// ---- <details class="confirm">: its content opens as a modal dialog.
function openConfirm(details) {
  const body = details.querySelector(".confirm-body");
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", body.querySelector("h2").id);
  dialog.append(body.cloneNode(true));
  body.remove(); // one of each id at a time
  dialog.addEventListener("close", () => {
    if (details.isConnected) { details.append(dialog.firstChild); details.querySelector("summary").focus(); }
    dialog.remove();
  });
  dialog.addEventListener("click", e => { if (e.target === dialog || e.target.closest("[data-close]")) { e.preventDefault(); dialog.close(); } });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("click", e => {
  const summary = e.target.closest("details.confirm > summary");
  if (summary && window.HTMLDialogElement) { e.preventDefault(); openConfirm(summary.parentElement); }
  const copy = e.target.closest("button[data-copy]");
  if (copy) {
    const text = document.getElementById(copy.dataset.copy)?.textContent ?? "";
    navigator.clipboard?.writeText(text).then(() => {
      const label = copy.querySelector(".label");
      label.textContent = "Copied";
      setTimeout(() => { label.textContent = "Copy"; }, 1500);
    });
  }
});

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", e => {
  if (e.target.method !== "post") return;
  if (e.target.dataset.sent) { e.preventDefault(); return; }
  e.target.dataset.sent = "1";
  setTimeout(() => { delete e.target.dataset.sent; }, 5000);
});
addEventListener("pageshow", () => { for (const f of document.forms) delete f.dataset.sent; });

function enhance(root) {
  if (navigator.clipboard) for (const b of root.querySelectorAll("button[data-copy][hidden]")) b.hidden = false;
}

customElements.define("live-region", LiveRegion);
document.documentElement.classList.add("js");
enhance(document);
document.querySelector("nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
setInterval(tick, 1000);
tick();
