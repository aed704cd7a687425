// Pages: each gives its elements and, where it goes on, how it takes what is new.

function runCard(run) {
  return h("article", { class: "card" },
    h("div", { class: "row spread" }, h("h3", {}, runLink(run.run_id, run.label ? `${run.project}: ${run.label}` : `${run.project}: ${run.kind}`)), badge(run.state, run.stage || run.state)),
    progressBar(run),
    h("div", { class: "row spread small soft" },
      h("span", {}, run.total_steps ? `step ${number(run.step)} of ${number(run.total_steps)}` : `step ${number(run.step)}`),
      run.loss !== null && run.loss !== undefined ? h("span", {}, `loss ${number(run.loss)}`) : null,
      remaining(run) !== null ? h("span", {}, `${duration(remaining(run))} left`) : null));
}

async function overviewPage() {
  const found = await read("api/overview");
  const projects = new Map(found.projects.map((one) => [one.name, one]));
  const living = new Map(found.living.map((one) => [one.run_id, one]));
  const page = h("div");
  const draw = () => {
    const under = [...living.values()].filter((run) => LIVING.has(run.state));
    const ended = [...living.values()].filter((run) => !LIVING.has(run.state));
    const all = [...projects.values()];
    fill(page,
      h("h1", {}, found.workspace),
      all.length ? null : h("p", { class: "empty" }, "No project yet. An agent makes one with create_project."),
      under.length ? section(`Under way (${under.length})`, h("div", { class: "cards" }, under.map((run) => runCard(run)))) : null,
      found.alerts.length ? section(`Alerts (${found.alerts.length})`, h("div", { class: "cards" }, found.alerts.map((alert) => alertCard({ ...alert, title: `${alert.project}: ${alert.id.replaceAll("_", " ")}` }, runLink(alert.run_id, "the run"))))) : null,
      ended.length ? section(`Ended, to be filed (${ended.length})`, h("div", { class: "cards" }, ended.map((run) => runCard(run)))) : null,
      all.length ? section(`Projects (${all.length})`, h("div", { class: "cards" }, all.map(projectCard))) : null);
  };
  draw();
  return {
    title: found.workspace, place: [], element: page,
    stream: () => `api/events?after=${found.sequence}`,
    take: (news) => {
      for (const one of news.projects) projects.set(one.name, one);
      for (const one of news.living) living.set(one.run_id, one);
      for (const id of [...living.keys()]) if (!news.living_ids.includes(id)) living.delete(id);
      found.alerts = news.alerts;
      draw();
    },
  };
}

function projectCard(project) {
  const count = Object.values(project.runs).reduce((a, b) => a + b, 0);
  return h("article", { class: "card" },
    h("h3", {}, projectLink(project.name)),
    h("p", { class: "small soft clamp" }, project.intent),
    gateList(project.gates),
    project.result && h("p", { class: "small" }, project.result),
    project.production && h("p", { class: "small" }, "In production: ", h("strong", {}, `v${project.production}`)),
    h("div", { class: "row spread small" },
      h("span", {}, project.goal), project.result || project.best === null ? null : h("span", {}, "best ", h("strong", {}, number(project.best))),
      h("span", { class: "soft" }, `${number(count)} ${count === 1 ? "run" : "runs"}`)));
}

async function projectPage(name) {
  const found = await read(`api/projects/${encodeURIComponent(name)}`);
  const status = found.status;
  const handles = new Map(found.runs.map((run) => [run.run_id, run.handle]));
  const open = (status.checks || []).filter((check) => !["passed", "not_applicable"].includes(check.status));
  const ledger = h("div");
  const chosen = (projectPage.chosen ||= {})[name] ||= new Set();
  const button = h("button", { type: "button", disabled: chosen.size < 2, onclick: () => { location.hash = `#/compare/${[...chosen].join(",")}`; } }, "Compare the chosen runs");
  const compare = found.runs.length > 1 ? h("p", { class: "tools" }, button) : null;
  const choose = (id, is) => { chosen[is ? "add" : "delete"](id); button.disabled = chosen.size < 2 || chosen.size > 8; };
  const page = h("div", {},
    h("h1", {}, name), h("p", { class: "intent" }, status.intent), found.problem ? problem({ message: found.problem }) : gateList(status.gates),
    facts([["Phase", status.finished ? `finished ${status.finished_on || ""}` : status.phase || ""], ["Goal", status.goal], ["Result", status.reached],
      ["Checks met", status.checks && status.checks.length ? `${status.checks_met} of ${status.checks.length}` : null], ["Study", status.study]]),
    (status.remarks || []).map((remark) => h("p", { class: "small soft" }, remark)),
    status.next && h("p", { class: "card" }, "Next: ", h("code", {}, callText(status.next)), status.next.why ? ` (${status.next.why})` : ""),
    (status.alerts || []).length ? section("Alerts", h("div", { class: "cards" }, status.alerts.map((alert) => alertCard({ ...alert, title: `${alert.id} on ${handles.get(alert.run_id) || alert.run_id}` })))) : null,
    open.length ? section("What keeps the gate closed", table("Checks that are not met", ["Check", "Status", "Measured", "Required"], open.map((check) => [check.id, badge(check.status), check.measured, check.required]))) : null,
    section("Runs", compare, table(`Runs${found.left_out ? `, without the ${found.left_out} oldest` : ""}`, ["Run", "Compare", "State", "Kind", ["Best", "number"], ["Seed", "number"], "Started"],
      found.runs.map((run) => [runLink(run.run_id, run.handle), h("input", { type: "checkbox", checked: chosen.has(run.run_id), "aria-label": `Compare ${run.handle}`, onchange: (event) => choose(run.run_id, event.target.checked) }), badge(run.state), run.label ? `${run.kind}: ${run.label}` : run.kind, number(run.best), number(run.seed), moment(run.created_at)]))),
    found.studies.length ? section("Studies", table("Studies", ["Study", "State", "Metric", ["Trials", "number"], "Started"],
      found.studies.map((one) => [link(`#/studies/${one.study_id}`, one.study_id), badge(one.state), one.metric, number(one.trials), moment(one.created_at)]))) : null,
    found.data.length ? section("Data", table("Versions of the data", ["Version", ["Rows", "number"], "Splits", "Source", "Licence", "Content"],
      found.data.map((one) => [one.name, number(one.rows), Object.entries(one.splits).map(([split, size]) => `${split} ${number(size)}`).join(", "), one.source || "–", one.licence || "not stated", h("span", { class: "mono" }, one.fingerprint.slice(0, 19))]))) : null,
    found.problem ? null : section("Limits", table("Used and left", ["Limit", "Amount"], Object.entries(status.limits || {}).map(([limit, text]) => [limit.replaceAll("_", " "), text]))),
    (status.owner || []).length ? section("Requests to the owner", h("ul", {}, status.owner.map((request) => h("li", {}, request)))) : null,
    section("Ledger", ledger));
  await showLedger(ledger, name, null, []);
  return { title: name, place: [[`#/projects/${name}`, name]], element: page, stream: () => "api/events", reloads: (news) => news.projects.some((one) => one.name === name) };
}

function callText(call) {
  return `${call.tool}(${Object.entries(call.arguments || {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")})`;
}

async function showLedger(element, project, before, earlier) {
  const found = await read(`api/projects/${encodeURIComponent(project)}/ledger${before === null ? "" : `?before=${before}`}`);
  const entries = [...earlier, ...found.entries];
  fill(element,
    table("Entries, the newest first", [["No.", "number"], "Time", "Kind", ["What", "wide"], "Digest"],
      entries.map((entry) => [number(entry.sequence), moment(entry.time), entry.kind.replaceAll("_", " "), entry.text, h("span", { class: "mono" }, entry.digest.slice(0, 15), entry.signed ? " signed" : "")])),
    found.before === null ? null : h("button", { type: "button", onclick: () => showLedger(element, project, found.before, entries) }, "Older entries"));
}

async function runPage(id) {
  const address = `api/runs/${encodeURIComponent(id)}`;
  let found = await read(address);
  let progress = null;
  const curves = new Curves((keys) => read(`${address}/curves?keys=${keys.map(encodeURIComponent).join(",")}`));
  const [head, below, extra] = [h("div"), h("div"), h("details", {}, h("summary", {}, "More curves"))];
  const picked = { more: false };
  const show = () => {
    const groups = chartGroups(found.keys);
    extra.hidden = !groups.more.length && !groups.layers.length;
    return curves.show([...groups.shown, ...(picked.more ? [...groups.more, ...groups.layers] : [])].slice(0, 24));
  };
  extra.addEventListener("toggle", async () => { picked.more = extra.open; await show(); page.restream(); });
  const drawHead = () => {
    const view = progress ? { ...found.view, ...pick(progress, ["state", "stage", "step", "total_steps", "epoch", "total_epochs"]) } : found.view;
    fill(head,
      h("h1", {}, found.handle), h("p", { class: "soft small mono" }, id, view.label ? ` · ${view.label}` : ""),
      runFacts(view, progress), progressBar(view), failureCard(view.failure),
      (found.earlier_alerts || []).map((text) => h("p", { class: "small soft" }, text)),
      (view.alerts || []).length ? section("Alerts", h("div", { class: "cards" }, view.alerts.map((alert) => alertCard(alert)))) : null);
  };
  const drawBelow = () => fill(below,
    section("Latest values", table("Latest values", ["Series", ["Value", "number"]], Object.entries(found.view.metrics || {}).map(([key, value]) => [key, number(value)]))),
    section("Checkpoints", checkpointTable(found.checkpoints)),
    h("section", {}, h("details", {}, h("summary", {}, `Configuration (${Object.keys(found.config).length} keys)`),
      table("Configuration", ["Key", ["Value", "wide"]], Object.entries(found.config).map(([key, value]) => [h("code", {}, key), typeof value === "string" ? value : JSON.stringify(value)])))));
  drawHead();
  drawBelow();
  curves.marks = found.marks;
  const page = {
    title: found.handle, place: [[`#/projects/${found.view.project}`, found.view.project], [`#/runs/${id}`, found.handle.split("/").pop()]],
    element: h("div", {}, head, section("Curves", curves.element, extra), below),
    start: show,
    stream: () => (curves.cursor === null || !curves.keys.length ? null : `${address}/events?keys=${curves.keys.map(encodeURIComponent).join(",")}&after=${encodeURIComponent(curves.cursor)}`),
    redraw: () => curves.draw(),
    close: () => curves.close(),
    take: async (news) => {
      if (news.progress) { progress = news.progress; drawHead(); }
      const full = news.points && !news.points.restart && curves.push(news.points.points);
      if (news.reload) {
        const before = JSON.stringify(found.keys);
        found = await read(address);
        curves.marks = found.marks;
        drawHead();
        drawBelow();
        if (before !== JSON.stringify(found.keys)) { await show(); page.restream(); return; }
      }
      if ((news.points && news.points.restart) || full) { await curves.reload(); page.restream(); }
    },
  };
  return page;
}

function checkpointTable(all) {
  const row = (one) => [one.name, one.tags.join(", "), number(one.step), number(one.epoch), bytes(one.bytes), h("span", { class: "mono" }, one.digest.slice(0, 19))];
  const heads = ["Name", "Tags", ["Step", "number"], ["Epoch", "number"], ["Size", "number"], "Digest"];
  const first = all.filter((one, i) => i >= all.length - 3 || one.tags.some((tag) => tag !== "periodic"));
  const others = all.filter((one) => !first.includes(one));
  return [table("Checkpoints: best, last and the newest", heads, first.map(row)),
    others.length ? h("details", {}, h("summary", {}, `${others.length} older ones`), table("Older checkpoints", heads, others.map(row))) : null];
}

const pick = (from, names) => Object.fromEntries(names.map((name) => [name, from[name]]));

async function documentPage(path) {
  const found = await read(`api/documents/${path}`);
  return { title: found.path, place: [[`#/documents/${found.path}`, found.path]], element: markdown(found.text) };
}

async function comparisonPage(names) {
  const ids = names.split(",");
  const found = await read(`api/comparison?runs=${ids.map(encodeURIComponent).join(",")}`);
  const { runs, differences, identity_differences: identity, named, notes } = found.comparison;
  const name = (id) => found.handles[id] || id;
  const metrics = [...new Set(runs.flatMap((run) => Object.keys(run.best)))];
  const groups = chartGroups(found.keys).shown.flatMap((group) => group.keys.filter((key) => key !== "train/epoch_loss"));
  const charts = groups.slice(0, 6).map((key) => new Chart(key, ids.map((id, i) => ({ key: id, label: name(id), colour: i, dashed: i > 3 })), { sync: "comparison" }));
  const across = (rows) => Object.entries(rows).map(([key, values]) => [h("code", {}, key), ...ids.map((id) => text(values[id]))]);
  const text = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));
  return {
    title: "Comparison", place: [[`#/projects/${name(ids[0]).split("/")[0]}`, name(ids[0]).split("/")[0]], ["", "comparison"]],
    element: h("div", {}, h("h1", {}, `Comparison of ${ids.length} runs`), notes.map((note) => h("p", { class: "card" }, note)),
      section("Results at the best epoch", table("Results", ["Run", "State", ["Best epoch", "number"], ...metrics.map((metric) => [metric, "number"]), "Time"],
        runs.map((run) => [runLink(run.run_id, name(run.run_id)), badge(run.state), number(run.best_epoch), ...metrics.map((metric) => number(run.best[metric])), duration(run.seconds)]))),
      section("What differed", table("Configuration keys that differ", ["Key", ...ids.map(name)], across(differences)),
        Object.keys(identity).length ? table("Surroundings that differ", ["What", ...ids.map(name)], across(identity)) : null,
        Object.entries(named).map(([what, texts]) => [h("h3", {}, what), h("ul", {}, texts.map((each) => h("li", {}, each)))])),
      section("Curves", h("div", { class: "charts" }, charts.map((chart) => chart.element)))),
    start: async () => {
      const all = await Promise.all(ids.map((id) => read(`api/runs/${encodeURIComponent(id)}/curves?keys=${groups.map(encodeURIComponent).join(",")}`)));
      charts.forEach((chart, i) => { ids.forEach((id, j) => chart.feed(id, all[j].curves[groups[i]])); chart.draw(); });
    },
    redraw: () => charts.forEach((chart) => chart.draw()),
    close: () => charts.forEach((chart) => chart.close()),
  };
}

async function studyPage(id) {
  const found = await read(`api/studies/${encodeURIComponent(id)}`);
  const { trials, importance } = found;
  const of = (...states) => trials.filter((trial) => states.includes(trial.state));
  const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.parameters)))];
  const curve = (some, value) => ({ steps: some.map((trial) => trial.number), means: some.map(value), lows: some.map(value), highs: some.map(value), non_finite: [] });
  const chart = new Chart(`${found.metric} by trial`, [{ key: "value", label: "trial", colour: 7, scatter: true }, { key: "others", label: "not completed, at its best epoch", colour: 1, scatter: true }, { key: "best", label: "best so far", colour: 0, stepped: true }], { sync: "study" });
  const valued = (some) => curve(some.filter((trial) => trial.value !== null), (trial) => trial.value);
  chart.feed("value", valued(of("completed")));
  chart.feed("others", valued(of("pruned", "failed", "running")));
  chart.feed("best", curve(trials.filter((trial) => trial.best_so_far !== null), (trial) => trial.best_so_far));
  const share = (value) => (value === null ? "–" : [h("progress", { max: 1, value, "aria-hidden": "true" }), `${Math.round(100 * value)} %`]);
  return {
    title: found.handle, place: [[`#/projects/${found.project}`, found.project], [`#/studies/${id}`, found.handle.split("/").pop()]],
    element: h("div", {}, h("h1", {}, found.handle), h("p", { class: "soft small mono" }, id),
      facts([["State", badge(found.state)], ["Objective", found.goal], ["Trials ended", `${trials.length - of("running").length} of ${found.trials_total}`],
        ["Under way", of("running").length || null], ["Pruned", of("pruned").length || null], ["Failed", of("failed").length || null],
        ["Best", found.best === null ? null : `trial ${found.best}: ${number(trials[found.best].value)}`],
        ["Pareto front", found.front],
        ["Time left", found.estimated_seconds === null ? null : `about ${duration(found.estimated_seconds)}`]]),
      found.ended_by ? h("p", { class: "card" }, found.ended_by) : null,
      failureCard(found.failure), section("History", chart.element),
      names.length ? section("Importance", importance.length ? table("Importance", ["Parameter", ["PED-ANOVA: tells the best from the others", "share"], ["fANOVA: the value varies with", "share"]],
        importance.map((one) => [h("code", {}, one.key), share(one.ped_anova), share(one.fanova)])) : null,
        found.importance_note ? h("p", { class: "soft" }, found.importance_note) : null) : null,
      section("Trials", table("Trials", ["Trial", "State", [found.metric, "number"], ...found.further.map((key) => [key, "number"]), ...names, "Run"],
        trials.map((trial) => [trial.label, badge(trial.state), number(trial.value), ...found.further.map((key) => number(trial.further[key])), ...names.map((key) => number(trial.parameters[key])), trial.run_id ? runLink(trial.run_id, "run") : "–"]))),
      found.confirmation ? section("Confirmation", h("pre", { tabindex: "0" }, JSON.stringify(found.confirmation, null, 1))) : null),
    start: () => chart.draw(), redraw: () => chart.draw(), close: () => chart.close(),
    stream: () => (["running", "confirming"].includes(found.state) ? "api/events" : null),
    reloads: (news) => news.projects.some((one) => one.name === found.project) || news.living.some((run) => run.study === id && run.step === 0),
  };
}
