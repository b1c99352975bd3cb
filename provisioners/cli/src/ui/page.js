// Asks for the page again when the cluster has changed, and puts its main part in the place of the old one.
"use strict";

const state = document.getElementById("live");
const live = document.body.dataset.live;

async function refresh() {
  const answer = await fetch(location.href).catch(() => null);
  if (!answer || !answer.ok) {
    state.textContent = "The page could not be read again";
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  const main = document.querySelector("main");
  if (fresh.innerHTML === main.innerHTML) return;
  const focused = document.activeElement.getAttribute("href");
  main.replaceChildren(...fresh.childNodes);
  // Whoever goes by keyboard stays where they were.
  if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  state.textContent = `Updated ${new Date().toLocaleTimeString()}`;
}

if (live) {
  let timer;
  const changes = new EventSource(live);
  changes.addEventListener("open", () => { state.textContent = "Live"; });
  changes.addEventListener("error", () => { state.textContent = "Not connected; trying again"; });
  changes.addEventListener("change", () => {
    // Never put off by the next one: a busy cluster would leave the page as it was.
    timer ??= setTimeout(() => {
      timer = undefined;
      refresh();
    }, 200);
  });
}
