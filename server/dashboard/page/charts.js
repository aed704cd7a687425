// Charts: the mean of each bucket as a line, its lowest and highest value as a band, so that no spike is lost.

// Points of one series before its curve is read again in buckets:
const FEW = 1500;
const HEIGHT = 220;

function colour(name) {
  const probe = colour.probe || (colour.probe = document.body.appendChild(h("i", { hidden: true })));
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
const seriesColour = (place) => colour(`--series-${(place % 8) + 1}`);
const faded = (rgb, share) => rgb.replace(/rgba?\(([^)]+)\)/, (_, parts) => `rgba(${parts.split(/[ ,/]+/).slice(0, 3).join(",")},${share})`);

function shortStep(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${Number((value / 1e9).toPrecision(4))}G`;
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  return size >= 1e4 ? `${Number((value / 1e3).toPrecision(4))}k` : String(value);
}

function smoothed(values, weight) {
  if (!weight) return values;
  let [sum, share] = [0, 0];
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

class Chart {
  // One figure. lines: [{ key, label, dashed }]; `feed` gives them their curves and then their new points.
  constructor(title, lines, options = {}) {
    Object.assign(this, { title, lines, options, curves: new Map(), log: false, smooth: 0, marks: [] });
    this.plot = h("div", { class: "plot", tabindex: "0", role: "img", onkeydown: (event) => this.move(event) });
    this.legend = h("ul", { class: "legend" });
    this.element = h("figure", { class: "card" }, h("h3", {}, title), this.plot, this.legend);
    this.watcher = new ResizeObserver(() => this.uplot && this.uplot.setSize(this.size()));
    this.watcher.observe(this.plot);
  }

  size() { return { width: Math.max(180, this.plot.clientWidth), height: HEIGHT }; }

  feed(key, curve) {
    this.curves.set(key, { steps: [...curve.steps], means: [...curve.means], lows: [...curve.lows], highs: [...curve.highs], bad: [...curve.non_finite] });
  }

  push(key, points) {
    const curve = this.curves.get(key);
    if (!curve) return false;
    for (const [step, value] of points) {
      if (typeof value !== "number") { curve.bad.push(step); continue; }
      curve.steps.push(step);
      for (const column of [curve.means, curve.lows, curve.highs]) column.push(value);
    }
    return curve.steps.length > FEW;
  }

  draw() {
    const lines = this.lines.filter((line) => this.curves.has(line.key) && this.curves.get(line.key).steps.length);
    this.element.hidden = !lines.length && !this.lines.some((line) => (this.curves.get(line.key) || { bad: [] }).bad.length);
    const log = this.log && lines.every((line) => this.curves.get(line.key).lows.every((value) => value > 0));
    const shape = JSON.stringify([lines.map((line) => line.key), log, this.smooth, Chart.theme]);
    const tables = lines.map((line) => {
      const curve = this.curves.get(line.key);
      const band = this.smooth ? [curve.means, curve.means] : [curve.lows, curve.highs];
      return [curve.steps, smoothed(curve.means, this.smooth), ...band];
    });
    const data = tables.length ? uPlot.join(tables) : [[]];
    this.shown = lines;
    if (this.uplot && this.shape === shape) this.uplot.setData(data, !this.zoomed());
    else this.rebuild(data, lines, log);
    this.shape = shape;
    this.describe();
    this.showValues();
  }

  zoomed() {
    const [x, scale] = [this.uplot.data[0], this.uplot.scales.x];
    return x.length > 1 && (scale.min > x[0] || scale.max < x[x.length - 1]);
  }

  rebuild(data, lines, log) {
    if (this.uplot) this.uplot.destroy();
    const [ink, grid] = [colour("--soft"), colour("--line")];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
    const series = [{}];
    const bands = [];
    lines.forEach((line, i) => {
      const stroke = seriesColour(line.colour ?? i);
      const points = { show: line.scatter || data[0].length < 60, size: line.scatter ? 8 : undefined, fill: line.scatter ? stroke : undefined };
      const paths = line.scatter ? () => null : line.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
      const edge = { stroke: faded(stroke, 0.45), width: 1, spanGaps: true, points: { show: false }, paths };
      series.push({ stroke, width: 1.8, paths, dash: line.dashed ? [6, 4] : undefined, spanGaps: true, points },
        edge, edge);
      bands.push({ series: [3 * i + 3, 3 * i + 2], fill: faded(stroke, 0.3) });
    });
    this.uplot = new uPlot({
      ...this.size(), series, bands, legend: { show: false },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(shortStep) }, { ...axis, size: (_, all) => Math.max(58, ...(all || []).map((s) => 18 + 7 * s.length)), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : Math.abs(tick) < 1e4 ? number(tick) : shortStep(tick))) }],
      cursor: { sync: { key: this.options.sync || "run" }, points: { show: (_, i) => i % 3 === 1 && undefined }, drag: { x: true, y: false } },
      hooks: { draw: [(u) => this.drawMarks(u)], setCursor: [() => this.showValues()] },
    }, data, this.plot);
  }

  drawMarks(u) {
    const context = u.ctx;
    context.save();
    const line = (step, stroke, dash) => {
      const x = u.valToPos(step, "x", true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
      context.beginPath(); context.setLineDash(dash); context.strokeStyle = stroke; context.lineWidth = devicePixelRatio;
      context.moveTo(x, u.bbox.top); context.lineTo(x, u.bbox.top + u.bbox.height); context.stroke();
    };
    const strokes = { best: "--good", alert: "--bad", resumed: "--edge" };
    for (const mark of this.marks) line(mark.step, colour(strokes[mark.kind] || "--edge"), [4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const shown of this.lines) for (const step of (this.curves.get(shown.key) || { bad: [] }).bad) line(step, colour("--bad"), []);
    context.restore();
  }

  describe() {
    const texts = this.shown.map((line) => {
      const curve = this.curves.get(line.key);
      const last = curve.steps.length - 1;
      return `${line.label}: ${number(curve.means[0])} at step ${curve.steps[0]}, ${number(curve.means[last])} at step ${curve.steps[last]}, ` +
        `lowest ${number(curve.lows.reduce((a, b) => Math.min(a, b)))}, highest ${number(curve.highs.reduce((a, b) => Math.max(a, b)))}`;
    });
    this.plot.setAttribute("aria-label", `${this.title}. ${texts.join(". ")}. Arrow keys read single values.`);
  }

  showValues() {
    if (!this.uplot) return;
    const place = this.uplot.cursor.idx;
    const steps = this.uplot.data[0];
    const items = this.shown.map((line, i) => {
      const curve = this.curves.get(line.key);
      const values = this.uplot.data[3 * i + 1] || [];
      let at = place === null || place === undefined ? -1 : place;
      while (at > 0 && (values[at] === null || values[at] === undefined)) at--;
      const value = at >= 0 ? values[at] : curve.means[curve.means.length - 1];
      const swatch = h("i", { class: line.dashed ? "dashed" : null });
      swatch.style[line.dashed ? "color" : "background"] = seriesColour(line.colour ?? i);
      const bad = curve.bad.length ? h("span", { class: "badge bad" }, ` not finite at ${curve.bad.length > 49 ? "50 or more" : curve.bad.length} steps`) : null;
      return h("li", {}, swatch, `${line.label} `, h("strong", {}, number(value)), bad);
    });
    if (place !== null && place !== undefined && steps[place] !== undefined) items.unshift(h("li", { class: "soft" }, `step ${number(steps[place])}`));
    this.legend.replaceChildren(...items);
  }

  move(event) {
    const count = this.uplot ? this.uplot.data[0].length : 0;
    const now = this.uplot && this.uplot.cursor.idx;
    const to = { ArrowLeft: (now ?? count) - 1, ArrowRight: (now ?? -1) + 1, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape" && this.uplot) this.uplot.setData(this.uplot.data);
    if (to === undefined || !count) return;
    event.preventDefault();
    const place = Math.min(count - 1, Math.max(0, to));
    this.uplot.setCursor({ left: this.uplot.valToPos(this.uplot.data[0][place], "x"), top: HEIGHT / 3 });
  }

  close() {
    this.watcher.disconnect();
    if (this.uplot) this.uplot.destroy();
  }
}
