// A run: what it is, how far, what is wrong with it, and its curves, which go on while it trains.

const GROUPS = [
  ["Loss", /^(train|validation)\/(loss|epoch_loss)$/],
  ["Gradient norm", /^train\/(applied_)?gradient_norm$/],
  ["Learning rate", /^train\/learning_rate/],
];
const LATER = [
  ["Samples per second", /^throughput\/samples_per_second$/],
  ["Wait for data (share)", /^throughput\/data_wait_fraction$/],
  ["Use (percent)", /^system\/.*percent/],
  ["Memory (bytes)", /^system\/.*memory.*bytes/],
];
const ORDER = ["train/loss", "validation/loss", "train/epoch_loss"];
const MAX_LINES = 8;

function chartGroups(keys) {
  const left = new Set(keys.filter((key) => key !== "epoch"));
  const take = (title, pattern) => {
    const found = [...left].filter((key) => pattern.test(key)).sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
    found.forEach((key) => left.delete(key));
    return found.length ? [{ title, keys: found }] : [];
  };
  const first = GROUPS.flatMap(([title, pattern]) => take(title, pattern));
  const later = LATER.flatMap(([title, pattern]) => take(title, pattern));
  const layers = {};
  for (const key of [...left].filter((key) => key.startsWith("layers/"))) {
    left.delete(key);
    (layers[key.split("/")[1]] ||= []).push(key);
  }
  const metrics = {};
  for (const key of left) (metrics[key.split("/").slice(1).join("/") || key] ||= []).push(key);
  const named = Object.entries(metrics).map(([title, found]) => ({ title, keys: found }));
  const [loss, ...others] = first;
  return {
    shown: [...(loss ? [loss] : []), ...named.filter((one) => one.keys.some((key) => key.startsWith("validation/"))), ...others],
    more: [...named.filter((one) => !one.keys.some((key) => key.startsWith("validation/"))), ...later],
    layers: Object.entries(layers).map(([title, found]) => ({ title: title.replaceAll("_", " "), keys: found })),
  };
}

function linesOf(group) {
  const strip = group.keys.length > 1 ? group.keys[0].split("/")[0] : "";
  const isLayers = strip === "layers";
  return group.keys.slice(0, MAX_LINES).map((key, i) => ({
    key, label: isLayers ? key.split("/").slice(2).join("/") : key, 
    colour: key.startsWith("validation/") ? 1 : key === "train/epoch_loss" ? 2 : key.startsWith("train/") && i === 1 ? 2 : i,
  }));
}

class Curves {
  // The charts of one run. `fetchCurves(keys)` gives { curves, cursor }.
  constructor(fetchCurves) {
    Object.assign(this, { fetchCurves, charts: [], cursor: null, log: false, smooth: 0, marks: [] });
    this.element = h("div");
    this.grid = h("div", { class: "charts" });
    const smooth = h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: 0, oninput: () => this.set({ smooth: Number(smooth.value) }) });
    const log = h("button", { type: "button", "aria-pressed": "false", onclick: () => { this.set({ log: !this.log }); log.setAttribute("aria-pressed", String(this.log)); } }, "Log scale");
    this.element.append(h("div", { class: "tools" }, log, h("label", {}, "Smoothing", smooth), h("span", { class: "soft small" }, "Drag to zoom, double-click to reset. Bands: lowest to highest.")), this.grid);
  }

  set(change) { Object.assign(this, change); this.draw(); }

  async show(groups) {
    this.groups = groups;
    const known = new Map(this.charts.map((chart) => [chart.name, chart]));
    this.charts = groups.map((group) => {
      const name = JSON.stringify(group);
      return known.get(name) || Object.assign(new Chart(group.title, linesOf(group)), { name });
    });
    for (const chart of known.values()) if (!this.charts.includes(chart)) chart.close();
    this.grid.replaceChildren(...this.charts.map((chart) => chart.element));
    await this.reload();
  }

  get keys() { return this.charts.flatMap((chart) => chart.lines.map((line) => line.key)); }

  async reload() {
    if (!this.keys.length) return;
    const found = await this.fetchCurves(this.keys);
    for (const chart of this.charts) for (const line of chart.lines) if (found.curves[line.key]) chart.feed(line.key, found.curves[line.key]);
    this.cursor = found.cursor;
    this.draw();
  }

  push(points) {
    let full = false;
    for (const chart of this.charts) for (const line of chart.lines) if (points[line.key]) full = chart.push(line.key, points[line.key]) || full;
    this.draw();
    return full;
  }

  draw() {
    for (const chart of this.charts) {
      Object.assign(chart, { log: this.log, smooth: this.smooth, marks: this.marks });
      chart.draw();
    }
  }

  close() { this.charts.forEach((chart) => chart.close()); }
}

function remaining(run) {
  const seconds = run.heartbeat_at - run.started_at;
  if (!LIVING.has(run.state) || !run.total_steps || run.step < 2 || !(seconds > 0)) return null;
  return (seconds / run.step) * (run.total_steps - run.step);
}

function alertCard(alert, ...links) {
  return h("article", { class: `card alert ${alert.severity}` },
    h("div", { class: "row spread" }, h("h3", {}, alert.title || alert.id), badge(alert.severity, alert.state === "recurring" ? `${alert.severity}, recurring` : alert.severity)),
    h("p", {}, alert.message),
    (alert.fixes || []).map((fix) => h("p", { class: "small" }, "Fix: ", fix.text || fix)),
    alert.fix ? h("p", { class: "small" }, "Fix: ", h("code", {}, alert.fix)) : null,
    h("p", { class: "small row" }, links, alert.document && documentLink(alert.document)));
}

function runFacts(view, progress) {
  const best = view.best || {};
  const left = progress && remaining(progress);
  return facts([
    ["State", badge(view.state, view.stage && LIVING.has(view.state) ? `${view.state}: ${view.stage}` : view.state)],
    ["Step", view.total_steps ? `${number(view.step)} of ${number(view.total_steps)}` : number(view.step)],
    ["Epoch", view.total_epochs ? `${number(view.epoch)} of ${number(view.total_epochs)}` : number(view.epoch)],
    ["Best", best.value === undefined ? null : `${best.metric} ${number(best.value)} (epoch ${best.epoch})`],
    ["Time", duration(view.seconds)],
    ["Left", left === null || left === undefined ? null : `about ${duration(left)}`],
    ["Speed", view.samples_per_second ? `${number(view.samples_per_second)} samples/s` : null],
    ["Attempt", view.attempt > 1 ? view.attempt : null],
    ["Ended by", view.stop_reason],
    ["Data", view.data_version],
  ]);
}

function failureCard(failure) {
  if (!failure) return null;
  return h("div", { class: "card alert critical" }, h("h3", {}, `${failure.category}: ${failure.message}`), h("p", {}, failure.remedy),
    failure.document && h("p", { class: "small" }, documentLink(failure.document)),
    failure.traceback && h("details", {}, h("summary", {}, "Traceback"), h("pre", { tabindex: "0" }, failure.traceback)),
    (failure.last_lines || []).length ? h("details", {}, h("summary", {}, "Last lines"), h("pre", { tabindex: "0" }, failure.last_lines.join("\n"))) : null);
}
