"use strict";
// Sends the form whenever it changes, and puts the parts of the answer that are marked `data-live` in their places.
// Fields themselves are never replaced, so nobody loses what they type, nor their place.

const form = document.getElementById("form");
const token = document.querySelector("meta[name=studio-token]").content;
const slider = document.getElementById("slider"), busy = document.getElementById("busy");
const LOWEST = 0.1, STEPS = 100; // steps of the slider for a factor of ten
let waiting = 0, sending = null, polling = 0;

const epsilonAt = (step) => Number((LOWEST * 10 ** (step / STEPS)).toPrecision(2));
const stepOf = (epsilon) => Math.round(STEPS * Math.log10(epsilon / LOWEST));

function placeSlider(epsilon) {
  if (!(epsilon > 0)) return;
  slider.value = stepOf(epsilon);
  slider.setAttribute("aria-valuetext", `epsilon ${Number(epsilon.toPrecision(3))}`);
}

function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || other.outerHTML === part.outerHTML) continue;
    const opened = [...part.querySelectorAll("details")].map((each) => each.open);
    const hadFocus = part.contains(document.activeElement);
    part.innerHTML = other.innerHTML;
    Object.assign(part.dataset, other.dataset);
    const details = [...part.querySelectorAll("details")];
    if (details.length === opened.length) details.forEach((each, place) => { each.open = opened[place]; });
    if (hadFocus) (part.querySelector("[tabindex='-1'], button, summary") || part).focus({ preventScroll: true });
  }
  for (const id of ["budget", "by-field"]) document.getElementById(id).hidden = fresh.getElementById(id).hidden;
  document.getElementById("accuracy").className = fresh.getElementById("accuracy").className;
  const epsilon = Number(document.getElementById("answer").dataset.epsilon);
  if (form.elements.start.value === "accuracy" && epsilon > 0) form.elements.epsilon.value = Number(epsilon.toPrecision(3));
  placeSlider(Number(form.elements.epsilon.value));
  if (document.getElementById("run").dataset.running && !polling) polling = setTimeout(poll, 500);
}

async function ask(address, body) {
  if (sending) sending.abort();
  const mine = sending = new AbortController();
  document.body.classList.add("asking");
  const slow = setTimeout(() => { busy.hidden = body === undefined; }, 300);
  try {
    const headers = { "x-studio-token": token };
    const answer = await fetch(address, body === undefined ? { headers, signal: mine.signal } : { method: "POST", headers, body, signal: mine.signal });
    if (answer.ok) show(await answer.text());
    else problem("The studio refused. Open the address again that it printed.");
  } catch (error) {
    if (error.name !== "AbortError") problem("The studio does not answer. Is it still running?");
  } finally {
    clearTimeout(slow);
    if (sending === mine) { sending = null; busy.hidden = true; document.body.classList.remove("asking"); }
  }
}

function problem(text) {
  const line = document.createElement("p");
  line.className = "problem";
  line.setAttribute("role", "alert");
  line.textContent = text;
  document.getElementById("run").replaceChildren(line);
}

const fields = () => new URLSearchParams(new FormData(form));

async function poll() {
  polling = 0;
  if (sending) { polling = setTimeout(poll, 300); return; }
  await ask("/state");
}

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(() => ask("/view", fields()), 120);
}

slider.addEventListener("input", () => {
  form.elements.start.value = "epsilon";
  form.elements.epsilon.value = epsilonAt(Number(slider.value));
  placeSlider(Number(form.elements.epsilon.value));
});
form.elements.epsilon.addEventListener("input", () => { form.elements.start.value = "epsilon"; });
for (const name of ["for_users", "for_error"]) {
  form.elements[name].addEventListener("input", () => { form.elements.start.value = "accuracy"; });
}
form.addEventListener("input", later);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-act]");
  if (!button) return;
  clearTimeout(waiting);
  ask(button.dataset.act, fields());
});
if (form.elements.start.value === "accuracy") {
  form.elements.epsilon.value = document.getElementById("answer").dataset.epsilon || form.elements.epsilon.value;
}
placeSlider(Number(form.elements.epsilon.value));
if (document.getElementById("run").dataset.running) poll();
