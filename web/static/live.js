// Regions that stay current, and relative times. The server says on /live which regions of the page have changed; each then asks for
// itself again, at most about once a second. Without that it asks every few seconds. Every page works without any of it.
"use strict";

const clockOf = ms => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// ---- What the page says about itself: nothing while all is well.
const status = {
  feed: "", fetch: "",
  set(who, text) {
    this[who] = text;
    const out = document.getElementById("live-status"), say = this.fetch || this.feed;
    if (out && out.textContent !== say) out.textContent = say;
  },
};

// ---- <live-region src="…" every="5s">: brings in the server's fresh rendering of itself while somebody can see it; with once, one time.
// Rows in a list that the pointer is in keep their places until it leaves.
const lists = "tbody, ul.attention";
let pointing = false; // with something that hovers: a finger leaves :hover behind
addEventListener("pointerover", e => { pointing = e.pointerType !== "touch"; }, { capture: true, passive: true });

class LiveRegion extends HTMLElement {
  connectedCallback() {
    this.period = Math.max(1, parseFloat(this.getAttribute("every")) || 5) * 1000;
    this.misses = 0;
    this.asked = 0; // when it last asked
    this.good = Date.now(); // when it last had an answer
    this.rest = 0; // how long it leaves the server alone afterwards
    this.seen = () => { if (!document.hidden) this.soon(); };
    document.addEventListener("visibilitychange", this.seen);
    this.addEventListener("pointerleave", () => this.release());
    this.addEventListener("pointerover", e => { if (this.held && !this.held.list.contains(e.target) && !e.target.closest(".held")) this.release(); });
    if (this.hasAttribute("once")) { this.refresh(); return; }
    LiveRegion.all.add(this);
    feed.open();
    this.plan();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
    LiveRegion.all.delete(this);
    feed.open();
  }

  // Now and then in any case: less often while the server says what changes.
  plan() {
    if (this.hasAttribute("once")) {
      if (this.misses) this.at(2000 * this.misses); else this.removeAttribute("aria-busy");
      return;
    }
    const wait = feed.live ? Math.max(15000, 3 * this.period) : this.period * Math.min(12, 1 + this.misses);
    this.at(wait);
  }

  // As soon as the pace allows, and not all browsers at once.
  soon() {
    const pace = Math.max(feed.pace, this.rest);
    this.at(Math.max(0, this.asked + pace - Date.now()) + Math.random() * 0.3 * feed.pace);
  }

  at(wait) {
    const due = Date.now() + wait;
    if (this.timer && this.due <= due && this.due > Date.now()) return; // something sooner is planned
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => { this.timer = 0; this.refresh(); }, wait);
  }

  async refresh() {
    if (document.hidden || !this.isConnected || this.asking) return; // visibilitychange starts it again
    if (this.busy()) { this.at(1000); return; }
    this.asking = true;
    this.asked = Date.now();
    try {
      const answer = await fetch(this.getAttribute("src"), { headers: { "Weir-Fragment": "1" }, redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(20000) });
      if (answer.type === "opaqueredirect" || answer.status === 401) { feed.signedOut(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const html = await answer.text();
      this.rest = Math.min(20000, 10 * (Date.now() - this.asked)); // what takes long is asked for less often
      if (this.busy() && !this.hasAttribute("once")) this.at(1000); else this.show(html);
      this.misses = 0;
      this.good = Date.now();
      status.set("fetch", "");
    } catch {
      if (++this.misses > 1) status.set("fetch", `Weir has not answered since ${clockOf(this.good)}. What you see may be out of date.`);
    } finally {
      this.asking = false;
    }
    this.plan();
  }

  // Not under the reader's hands: text being selected, a field being filled in, a question being answered.
  busy() {
    const selection = getSelection();
    return !!document.querySelector("dialog[open]:not(.calm-dialog), live-region details.confirm[open]") ||
      (selection && !selection.isCollapsed && this.contains(selection.anchorNode)) ||
      (this.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), textarea, select"));
  }

  show(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const under = pointing ? this.querySelector(`:is(${lists}):hover`) : null;
    if (under) {
      const next = fresh.content.querySelectorAll(lists)[[...this.querySelectorAll(lists)].indexOf(under)];
      const news = next && rowNews(under, next);
      if (!next || news.moved) {
        this.hold(html, under, next ? news.fresh : 0);
        if (!next) return;
        keepPlaces(under, next);
      } else {
        this.unhold();
      }
    } else {
      this.unhold();
    }
    this.morph(fresh.content);
  }

  // Changes what differs and leaves the rest alone, so that focus, scroll position and what is open stay.
  morph(content) {
    for (const old of this.querySelectorAll("details[id]")) {
      const next = content.getElementById(old.id);
      if (next) next.open = old.open;
    }
    for (const box of this.querySelectorAll("input[type=checkbox], input[type=radio]")) {
      if (box.checked === box.defaultChecked) continue;
      const same = `input[type=${box.type}][name="${CSS.escape(box.name)}"][value="${CSS.escape(box.value)}"]`;
      const next = box.id ? content.getElementById(box.id) : content.querySelector(same);
      if (next) next.checked = box.checked;
    }
    enhance(content);
    const before = new Set(rowsOf(this).map(keyOf));
    nameRows(this);
    nameRows(content);
    if (this.pill) content.append(this.pill.cloneNode(true));
    Idiomorph.morph(this, [...content.childNodes], { morphStyle: "innerHTML", ignoreActiveValue: true });
    this.pill = this.querySelector(":scope > .held");
    const added = rowsOf(this).filter(row => !before.has(keyOf(row)));
    if (before.size && added.length * 2 <= before.size) for (const row of added) row.classList.add("fresh");
    tick();
    this.dispatchEvent(new CustomEvent("live:shown", { bubbles: true }));
  }

  hold(html, list, fresh) {
    this.held = { html, list };
    if (!this.pill) {
      this.pill = document.createElement("button");
      this.pill.type = "button";
      this.pill.className = "held primary small";
      this.append(this.pill);
    }
    this.pill.textContent = fresh ? `${fresh} new – show` : "Changed – show";
  }

  unhold() {
    this.held = null;
    this.pill?.remove();
    this.pill = null;
  }

  release() {
    if (!this.held) return;
    const template = document.createElement("template");
    template.innerHTML = this.held.html;
    this.unhold();
    this.morph(template.content);
  }
}
LiveRegion.all = new Set();

// ---- Rows are known by their id, or by where their first link leads.
const rowsOf = root => [...root.querySelectorAll("tbody > tr, ul.attention > li")];
function keyOf(row) { return row.id || row.querySelector("a[href]")?.getAttribute("href") || ""; }
function nameRows(root) {
  const seen = new Set();
  for (const row of rowsOf(root)) {
    const key = keyOf(row);
    if (row.id || !key || seen.has(key)) continue;
    seen.add(key);
    row.id = "row:" + key;
  }
}

// What a fresh list has that the shown one has not, and whether anything would move.
function rowNews(shown, fresh) {
  const plain = row => keyOf(row).replace(/^row:/, "");
  const had = [...shown.children].map(plain), has = [...fresh.children].map(plain);
  return { fresh: has.filter(k => !had.includes(k)).length, moved: had.length !== has.length || had.some((k, i) => k !== has[i]) };
}

// Puts the fresh rows into the shown order; what is gone stays for now, what is new is left out.
function keepPlaces(shown, fresh) {
  const byKey = new Map([...fresh.children].map(row => [keyOf(row), row]));
  fresh.replaceChildren(...[...shown.children].map(row => byKey.get(keyOf(row).replace(/^row:/, "")) ?? row.cloneNode(true)));
}

// ---- The stream that says what has changed: one for the page, only while it is in view.
const feed = {
  live: false, pace: 1000, tries: 0, heard: 0, since: 0,

  // Called whenever what there is to watch may have changed.
  open() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), 0);
  },

  connect() {
    const regions = [...LiveRegion.all], on = regions.slice(0, 8).map(r => r.getAttribute("src"));
    const url = "/live?" + new URLSearchParams(on.map(src => ["on", src]));
    if (this.source && this.url === url) return;
    this.close();
    if (!window.EventSource || !on.length || document.hidden || this.out) return;
    this.url = url;
    const source = this.source = new EventSource(url);
    const hear = (name, f) => source.addEventListener(name, e => { this.heard = Date.now(); f(JSON.parse(e.data)); });
    hear("hello", () => {
      this.live = true;
      this.tries = this.since = 0;
      document.documentElement.dataset.live = "on";
      status.set("feed", "");
    });
    hear("change", change => {
      this.pace = change.pace;
      for (const i of change.regions) regions[i]?.soon();
    });
    hear("beat", () => {});
    hear("end", why => { if (why === "signed-out") this.signedOut(); else this.lost(); });
    source.onerror = () => this.lost();
  },

  close() {
    this.source?.close();
    this.source = null;
    this.live = false;
    delete document.documentElement.dataset.live;
  },

  // Until it is back, the regions ask by themselves.
  lost() {
    this.close();
    this.since ||= Date.now();
    if (++this.tries > 1) status.set("feed", `Live updates stopped at ${clockOf(this.since)}. Until they are back, this page refreshes every few seconds.`);
    for (const region of LiveRegion.all) region.plan();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), Math.min(30000, 500 * 2 ** this.tries) * (0.5 + Math.random()));
  },

  signedOut() {
    this.out = true;
    this.close();
    status.set("fetch", "You are signed out. Reload the page to sign in.");
  },
};

document.addEventListener("visibilitychange", () => { if (document.hidden) feed.close(); else feed.open(); });
addEventListener("pagehide", () => feed.close());
addEventListener("pageshow", e => { if (e.persisted) feed.open(); });
setInterval(() => { if (feed.live && Date.now() - feed.heard > 45000) feed.lost(); }, 5000);
document.addEventListener("click", e => { const pill = e.target.closest("live-region > .held"); if (pill) pill.parentElement.release(); });

// ---- Relative times, in the server's words.
function relative(at, now) {
  const s = Math.round(Math.abs(now - at) / 1000);
  if (s < 1) return "now";
  const [length, unit] = s < 60 ? [1, "s"] : s < 3600 ? [60, "min"] : s < 172800 ? [3600, "h"] : s < 63113904 ? [86400, "d"] : [31556952, "y"];
  const n = Math.floor(s / length);
  return at > now ? `in ${n} ${unit}` : `${n} ${unit} ago`;
}

// The server's clock counts: a browser whose own is wrong must not show an age that is.
const skew = (Date.parse(document.body?.dataset.now) || Date.now()) - Date.now();

function tick() {
  if (document.hidden) return;
  for (const e of document.querySelectorAll("time[datetime] > .rel")) {
    const at = Date.parse(e.parentElement.dateTime); // not a number: beyond what a browser can date
    const text = at ? relative(at, Date.now() + skew) : e.textContent;
    if (e.textContent !== text) e.textContent = text;
  }
}

// The exact time, in the reader's own zone.
document.addEventListener("pointerover", e => {
  const time = e.target.closest?.("time[datetime]"), at = time && new Date(time.dateTime);
  if (at && !isNaN(at)) time.title = at.toLocaleString([], { dateStyle: "full", timeStyle: "long" }) + "\n" + at.toISOString().replace("T", " ").replace("Z", " UTC");
});

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && zone !== "UTC") document.getElementById("zone")?.append(`; point at one for the time in ${zone}`);

customElements.define("live-region", LiveRegion);
setInterval(tick, 1000);
tick();
