// What pages do under the hand: confirmations in a dialog, copy buttons, forms that are sent once. Every page works without it.
"use strict";

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
  // Not on the button: a second press of Enter, or one held down, must not answer a question that nobody has read.
  const heading = dialog.querySelector("h2");
  heading.tabIndex = -1;
  (dialog.querySelector("input:not([type=hidden]), textarea, select") || heading).focus();
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

// ---- What was just done goes by itself, unless somebody is reading it.
for (const toast of document.querySelectorAll(".toast")) {
  const leave = () => { if (toast.matches(":hover, :focus-within")) setTimeout(leave, 2000); else toast.remove(); };
  setTimeout(leave, 8000);
  toast.querySelector("[data-dismiss]").addEventListener("click", () => { toast.remove(); document.getElementById("main").focus(); });
}

// ---- An address that ends with the name of an action opens it.
function openNamed() {
  const named = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && named.matches("details.confirm") && !document.querySelector("dialog[open]")) openConfirm(named);
}
addEventListener("hashchange", openNamed);

// ---- <input data-choose-all="NAME">: checks all boxes of that name in its form, and shows whether all, some or none are; [data-chosen]
// says how many.
function countChosen(all) {
  const form = all.closest("form"), boxes = [...form.querySelectorAll(`input[type=checkbox][name="${all.dataset.chooseAll}"]`)];
  const n = boxes.filter(box => box.checked).length, out = form.querySelector("[data-chosen]");
  all.disabled = !boxes.length;
  all.checked = n > 0 && n === boxes.length;
  all.indeterminate = n > 0 && n < boxes.length;
  const say = n ? `${n} of ${boxes.length} chosen` : "None chosen";
  if (out && out.textContent !== say) out.textContent = say; // what has not changed is not said again
}
const countAllChosen = root => { for (const all of root.querySelectorAll("input[data-choose-all]")) countChosen(all); };

document.addEventListener("change", e => {
  const form = e.target.matches("input[type=checkbox]") && e.target.form, name = form && e.target.dataset.chooseAll;
  if (name) for (const box of form.querySelectorAll(`input[type=checkbox][name="${name}"]`)) box.checked = e.target.checked;
  if (form) countAllChosen(form);
});
document.addEventListener("live:shown", e => countAllChosen(e.target));
addEventListener("pageshow", () => countAllChosen(document)); // a browser checks what was checked before it went back

function enhance(root) {
  countAllChosen(root);
  if (navigator.clipboard) for (const b of root.querySelectorAll("button[data-copy][hidden]")) b.hidden = false;
}

enhance(document);
openNamed();
document.querySelector("nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
