"use strict";
// Elements of the page. Text from a workspace reaches it as text alone: nothing here reads HTML.

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
const fill = (element, ...children) => element.replaceChildren(...present(children));

const MARKS = {
  running: ["on", "●"], starting: ["on", "◌"], created: ["", "○"], completed: ["good", "✓"], failed: ["bad", "✕"],
  stopped: ["warn", "■"], interrupted: ["warn", "!"], confirming: ["on", "●"], pruned: ["", "–"],
  critical: ["bad", "▲"], warning: ["warn", "▲"], info: ["", "i"],
  passed: ["good", "✓"], accepted: ["good", "a"], concluded: ["good", "c"], skipped: ["", "–"], refused: ["bad", "✕"],
  stale: ["warn", "!"], open: ["on", ">"], closed: ["", "·"], not_applicable: ["", "–"], error: ["bad", "✕"],
};
const PHASES = ["planning", "baseline", "diagnostics", "optimization", "finalization"];
const LIVING = new Set(["created", "starting", "running"]);

function badge(state, text) {
  const [kind, mark] = MARKS[state] || ["", "·"];
  return h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, mark), text || state.replaceAll("_", " "));
}

function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
  return String(Number(value.toPrecision(4)));
}

function bytes(value) {
  if (value < 1024) return `${value} B`;
  const power = Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${(value / 1024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

function duration(seconds) {
  if (!(seconds >= 0)) return "–";
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function moment(text) {
  const date = new Date(/[Z+]|-\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  if (Number.isNaN(date.valueOf())) return text || "–";
  return h("time", { datetime: date.toISOString() }, date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }));
}

function table(caption, heads, rows) {
  // heads: [text, class]; a row is a list of cells, the first of which heads it.
  if (!rows.length) return h("p", { class: "soft" }, `${caption}: none.`);
  const kinds = heads.map((head) => (Array.isArray(head) ? head[1] : null));
  const titles = heads.map((head) => (Array.isArray(head) ? head[0] : head));
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, titles.map((title, i) => h("th", { scope: "col", class: kinds[i] }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {},
        row.map((cell, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: kinds[i] }, cell)))))));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function gateList(gates) {
  return h("ul", { class: "gates", "aria-label": "Gates" }, PHASES.map((phase) => {
    const status = gates[phase] || "closed";
    const word = status.split(":")[0];
    const [kind, mark] = MARKS[word] || ["", "·"];
    return h("li", { class: kind, title: `${phase}: ${status}` }, `${mark} ${phase}`, h("span", { class: "hidden" }, `: ${word}`));
  }));
}

function progressBar(run) {
  if (!run.total_steps) return null;
  return h("progress", { max: run.total_steps, value: Math.min(run.step, run.total_steps), "aria-label": `step ${run.step} of ${run.total_steps}` });
}

function link(to, ...children) { return h("a", { href: to }, children); }
const runLink = (id, text) => link(`#/runs/${id}`, text || id);
const projectLink = (name) => link(`#/projects/${name}`, name);
function documentLink(path) { return link(`#/documents/${path}`, path); }
const section = (title, ...children) => h("section", {}, h("h2", {}, title), children);

// In a file of its own a page holds its answers: there is no server to ask.
const kept = JSON.parse(document.getElementById("kept")?.text || "null");

async function read(path) {
  if (kept) return kept.answers[path.split("?")[0]] || Promise.reject(new Error("That page is not in this file."));
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (answer.ok) return answer.json();
  let found = {};
  try { found = await answer.json(); } catch {}
  throw Object.assign(new Error(found.message || `The server answered ${answer.status}.`), { remedy: found.remedy });
}

function problem(error) {
  return h("div", { class: "card alert critical", role: "alert" }, h("h3", {}, error.message), error.remedy && h("p", {}, error.remedy));
}

function markdown(text) {
  const body = h("div", { class: "markdown" });
  const lines = text.replace(/^---\n[\s\S]*?\n---\n/, "").split("\n");
  const words = (line) => line.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => part.startsWith("`") ? h("code", {}, part.slice(1, -1))
    : part.startsWith("**") ? h("strong", {}, part.slice(2, -2)) : part.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1"));
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const heading = /^(#{1,4}) (.*)/.exec(line);
    if (line.startsWith("```")) {
      const end = lines.indexOf("```", i + 1) < 0 ? lines.length : lines.indexOf("```", i + 1);
      body.append(h("pre", { tabindex: "0" }, lines.slice(i + 1, end).join("\n")));
      i = end;
    } else if (heading) body.append(h(`h${heading[1].length}`, {}, words(heading[2])));
    else if (line.startsWith("|")) {
      const rows = [];
      for (; i < lines.length && lines[i].startsWith("|"); i++) rows.push(lines[i].split("|").slice(1, -1).map((cell) => cell.trim()));
      i--;
      body.append(table(rows[0].join(", "), rows[0], rows.slice(2).map((row) => row.map(words))));
    } else if (/^\s*([-*]|\d+\.) /.test(line)) {
      const items = [];
      for (; i < lines.length && (/^\s*([-*]|\d+\.) /.test(lines[i]) || /^\s{2,}\S/.test(lines[i])); i++) {
        if (/^\s*([-*]|\d+\.) /.test(lines[i])) items.push(lines[i].replace(/^\s*([-*]|\d+\.) /, ""));
        else items.push(`${items.pop()} ${lines[i].trim()}`);
      }
      i--;
      body.append(h("ul", {}, items.map((item) => h("li", {}, words(item)))));
    } else if (line.trim() && !line.startsWith("<!--")) {
      let whole = line;
      while (i + 1 < lines.length && lines[i + 1].trim() && !/^([#|`]|[-*] |\d+\. |<!--)/.test(lines[i + 1])) whole += ` ${lines[++i]}`;
      body.append(h("p", {}, words(whole)));
    }
  }
  return body;
}
