// Router: the part of the address behind # names the page; a page that goes on has one stream at a time.

const ROUTES = [
  [/^#\/projects\/([^/]+)$/, projectPage],
  [/^#\/runs\/([^/]+)$/, runPage],
  [/^#\/compare\/([^/]+)$/, comparisonPage],
  [/^#\/studies\/([^/]+)$/, studyPage],
  [/^#\/documents\/(.+)$/, documentPage],
  [/^/, overviewPage],
];
const state = { page: null, source: null, visit: 0 };
const main = document.getElementById("main");
const live = document.getElementById("live");

function showLive(kind, text) {
  live.className = `live ${kind}`;
  live.textContent = text;
}

function follow(page) {
  if (state.source) state.source.close();
  state.source = null;
  const address = page.stream && page.stream();
  if (!address || kept) { showLive("", kept ? "kept" : ""); return; }
  const source = new EventSource(address);
  state.source = source;
  source.onopen = () => showLive("on", "live");
  source.onerror = () => showLive("off", "no connection");
  source.onmessage = async (event) => {
    if (state.source !== source) return;
    const news = JSON.parse(event.data);
    if (page.reloads && page.reloads(news)) { await visit(false); return; }
    if (page.take) await page.take(news);
  };
}

async function visit(moves = true) {
  const number = ++state.visit;
  const [pattern, make] = ROUTES.find(([pattern]) => pattern.test(location.hash));
  const parts = pattern.exec(location.hash).slice(1).map(decodeURIComponent);
  let page;
  try { page = await make(...parts); } catch (error) { page = { title: "Not found", place: [], element: problem(error) }; }
  if (number !== state.visit) { if (page.close) page.close(); return; }
  if (state.page && state.page.close) state.page.close();
  state.page = page;
  page.restream = () => state.page === page && follow(page);
  document.title = page.place.length ? `${page.title} – Trainwright` : "Trainwright";
  showPlace(page.place);
  main.replaceChildren(page.element);
  if (moves) { window.scrollTo(0, 0); if (state.moved) main.focus({ preventScroll: true }); state.moved = true; }
  if (page.start) { try { await page.start(); } catch (error) { main.prepend(problem(error)); } }
  if (number === state.visit) follow(page);
  document.documentElement.dataset.ready = location.hash || "#/";
}

function showPlace(place) {
  const parts = [["#/", "Trainwright"], ...place];
  document.getElementById("place").replaceChildren(...parts.flatMap(([to, text], i) => [
    i ? h("span", { "aria-hidden": "true", class: "soft" }, "/") : "",
    i === parts.length - 1 && i ? h("span", { class: "now", "aria-current": "page" }, text) : link(to, text)]));
}

function setTheme(name) {
  document.documentElement.style.colorScheme = name || "light dark";
  fill(document.getElementById("theme"), h("span", { class: "word" }, "Theme: "), name || "system");
  Chart.theme = `${name}${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (state.page && state.page.redraw) state.page.redraw();
}

// A browser without storage forgets the theme.
function startTheme() {
  const names = ["", "light", "dark"];
  let now = "";
  try { now = localStorage.getItem("theme") || ""; } catch {}
  setTheme(now);
  document.getElementById("theme").addEventListener("click", () => {
    now = names[(names.indexOf(now) + 1) % 3];
    try { localStorage.setItem("theme", now); } catch {}
    setTheme(now);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(now));
}

startTheme();
document.addEventListener("visibilitychange", () => {
  if (document.hidden && state.source) { state.source.close(); state.source = null; showLive("", "paused"); }
  else if (!document.hidden && state.page && !state.source) visit(false);
});
if (kept && !location.hash) location.hash = kept.home;
window.addEventListener("hashchange", () => visit());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
visit();
