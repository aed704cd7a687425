// The view of a run inside an agent's client, by the messages of MCP Apps (2026-01-26). It asks the host alone.

// Where an answer's _meta has them:
const CURVES = "trainwright/curves";
const AGAIN_MILLISECONDS = 5000;
const main = document.getElementById("main");
const waiting = new Map();
const app = { number: 0, curves: null, run: null, timer: null };

function send(message) { window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*"); }

function ask(method, params) {
  const id = ++app.number;
  send({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function documentLink(path) { return h("code", {}, path); }

function show(result) {
  const view = result.structuredContent || {};
  const found = (result._meta || {})[CURVES];
  if (!view.run_id && !found) {
    fill(main, (result.content || []).filter((block) => block.type === "text").map((block) => h("pre", {}, block.text)));
    return;
  }
  if (!app.curves) {
    app.curves = new Curves(async () => app.found);
    app.head = h("div");
    app.alerts = h("div", { class: "cards" });
    fill(main, app.head, app.curves.element, app.alerts);
  }
  const progress = found ? found.progress : view;
  const all = { seconds: progress.heartbeat_at - progress.started_at, ...view, ...progress };
  fill(app.head, h("h1", {}, view.run_id || progress.run_id), runFacts(all, progress), progressBar(all), failureCard(view.failure));
  fill(app.alerts, (view.alerts || []).map((alert) => alertCard(alert)));
  app.run = progress;
  if (found) {
    app.found = found.curves;
    app.curves.show(chartGroups(Object.keys(found.curves.curves)).shown);
  }
  send({ method: "ui/notifications/size-changed", params: { width: document.documentElement.scrollWidth, height: main.scrollHeight + 40 } });
  again();
}

function again() {
  clearTimeout(app.timer);
  if (!app.canCall || !app.run || !LIVING.has(app.run.state)) return;
  app.timer = setTimeout(async () => {
    try { show(await ask("tools/call", { name: "run_status", arguments: { run_id: app.run.run_id } })); } catch { /* the host does not let it ask */ }
  }, AGAIN_MILLISECONDS);
}

function takeContext(context) {
  if (context && context.theme) { document.documentElement.style.colorScheme = context.theme; Chart.theme = context.theme; }
  if (app.curves) app.curves.draw();
}

window.addEventListener("message", (event) => {
  if (event.source !== window.parent || !event.data || event.data.jsonrpc !== "2.0") return;
  const { id, method, params, result, error } = event.data;
  if (method === undefined && waiting.has(id)) {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(error); else resolve(result);
  } else if (method === "ui/notifications/tool-result") show(params);
  else if (method === "ui/notifications/host-context-changed") takeContext(params);
  else if (method === "ui/resource-teardown") { clearTimeout(app.timer); send({ id, result: {} }); }
  else if (method === "ping") send({ id, result: {} });
});

ask("ui/initialize", { protocolVersion: "2026-01-26", appInfo: { name: "trainwright", version: "1" }, appCapabilities: {} }).then((answer) => {
  app.canCall = Boolean(((answer || {}).hostCapabilities || {}).serverTools);
  takeContext((answer || {}).hostContext);
  send({ method: "ui/notifications/initialized" });
});
