// Asks for the page again when the cluster has changed, and puts its main part in the place of the old one; and shows those rows of its
// tables that have what is searched for.
"use strict";

const state = document.getElementById("live");
const search = document.getElementById("search");
const live = document.body.dataset.live;
// Times are told as so long ago: they are asked for again once a minute.
const MINUTE = 60_000;

let isAsking = false;
let isDue = false;

// Asks for one page at a time: no answer takes the place of a newer one, and a slow cluster is not asked the more for being slow.
async function refresh() {
  isDue = isAsking;
  if (isAsking) return false;
  isAsking = true;
  let isNew = false;
  try {
    do {
      isDue = false;
      if (await ask()) isNew = true;
    } while (isDue);
  } finally {
    isAsking = false;
  }
  return isNew;
}

async function ask() {
  const read = (answer) => (answer.ok ? answer.text() : null);
  const text = await fetch(location.href, { signal: AbortSignal.timeout(MINUTE) }).then(read).catch(() => null);
  if (text === null) {
    state.textContent = "The page could not be read again";
    return false;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  const main = document.querySelector("main");
  if (fresh.innerHTML === shown) return false;
  shown = fresh.innerHTML;
  const focused = document.activeElement.getAttribute("href");
  main.replaceChildren(...fresh.childNodes);
  filter();
  // Whoever goes by keyboard stays where they were.
  if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  return true;
}

// What came from the server: a search changes what is on the page.
let shown = document.querySelector("main").innerHTML;

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("main tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
}

if (document.querySelector("main table")) {
  search.hidden = false;
  search.addEventListener("input", filter);
}

if (live) {
  let timer;
  const changes = new EventSource(live);
  changes.addEventListener("open", () => { state.textContent = "Live"; });
  changes.addEventListener("error", () => { state.textContent = "Not connected; trying again"; });
  changes.addEventListener("change", () => {
    // Never put off by the next one: a busy cluster would leave the page as it was.
    timer ??= setTimeout(async () => {
      timer = undefined;
      if (await refresh()) state.textContent = `Updated ${new Date().toLocaleTimeString()}`;
    }, 200);
  });
  setInterval(() => { if (!document.hidden) refresh(); }, MINUTE);
}
