"use strict";
(() => {
const run = JSON.parse(document.getElementById("run").textContent);
const [ABOVE, KIND, TITLE, STATUS, START, TOOK, CALLS, IN, OUT, COST, ORDER, MODEL, FACTS, TEXTS] = Array(14).keys();
const steps = run.steps, many = steps.length;
const $ = (name, props, ...inner) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...inner.flat(3).filter((one) => one != null && one !== false));
  return made;
};

// ── numbers as people read them ──
const whole = (n) => n.toLocaleString("en-US");
const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
const usd = (n) => (n == null ? "" : n === 0 ? "$0" : `$${n.toFixed(n && n < 0.01 ? 4 : n < 1 ? 3 : 2)}`);
const took = (s) => {
  if (s == null) return "";
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  const m = Math.floor(s / 60);
  return m < 60 ? `${m} min ${Math.round(s % 60)} s` : `${Math.floor(m / 60)} h ${m % 60} min`;
};
const clock = (s) => (run.began ? `${new Date((run.began + s) * 1000).toISOString().slice(11, 19)} UTC` : "");

// ── the tree ──
const below = Array.from({ length: many }, () => []), depth = new Uint32Array(many), place = new Uint32Array(many);
const sum = { calls: new Float64Array(many), tokens: new Float64Array(many), cost: new Float64Array(many), priced: new Uint8Array(many) };
for (let i = 0; i < many; i++) {
  const up = steps[i][ABOVE];
  if (up >= 0) { depth[i] = depth[up] + 1; place[i] = below[up].push(i); }
}
for (let i = many - 1; i >= 0; i--) {
  const step = steps[i], up = step[ABOVE];
  sum.calls[i] += step[CALLS]; sum.tokens[i] += step[IN] + step[OUT];
  if (step[COST] != null) { sum.cost[i] += step[COST]; sum.priced[i] = 1; }
  if (up >= 0) {
    sum.calls[up] += sum.calls[i]; sum.tokens[up] += sum.tokens[i]; sum.cost[up] += sum.cost[i];
    sum.priced[up] |= sum.priced[i];
  }
}
const open = new Uint8Array(many);
const foundBy = run.findings.map((one) => one.steps);
let picked = 0, rows = [], query = "", hits = null, tab = "steps";

// Open what fits a screen or two: level by level.
for (let level = [0], shown = 1; level.length;) {
  const next = level.flatMap((i) => below[i]);
  if (shown + next.length > 120 && level[0] !== 0) break;
  for (const i of level) open[i] = below[i].length ? 1 : 0;
  shown += next.length; level = next;
}

function arrange() {
  rows = [];
  const waiting = many ? [0] : [];
  while (waiting.length) {
    const i = waiting.pop();
    if (hits && !hits.kept[i]) continue;
    rows.push(i);
    if (hits ? true : open[i]) for (let n = below[i].length; n--;) waiting.push(below[i][n]);
  }
}

// ── search: every word of every step, in lower case, made ready while nothing else is to do ──
const words = new Array(many);
const hay = (i) => words[i] ?? (words[i] = [steps[i][TITLE], steps[i][MODEL], ...steps[i][FACTS].flat(), ...steps[i][TEXTS].map((one) => one[1])].join("\n").toLowerCase());
let ready = 0;
const prepare = (left) => {
  while (ready < many && left.timeRemaining() > 2) hay(ready++);
  if (ready < many) idle(prepare);
};
const idle = window.requestIdleCallback || ((work) => setTimeout(() => { const end = performance.now() + 8; work({ timeRemaining: () => end - performance.now() }); }, 30));

function search(text) {
  query = text.trim().toLowerCase();
  hits = null;
  if (query) {
    hits = { kept: new Uint8Array(many), own: new Uint8Array(many), list: [] };
    for (let i = 0; i < many; i++) {
      if (!hay(i).includes(query)) continue;
      hits.own[i] = 1; hits.list.push(i);
      for (let up = i; up >= 0 && !hits.kept[up]; up = steps[up][ABOVE]) hits.kept[up] = 1;
    }
    if (hits.list.length && !hits.own[picked]) picked = hits.list[0];
  } else for (let up = steps[picked][ABOVE]; up >= 0; up = steps[up][ABOVE]) open[up] = 1;
  const told = hits ? `${whole(hits.list.length)} of ${whole(many)}` : "";
  ui.count.textContent = told;
  ui.said.textContent = told && `${told} steps`;
  arrange(); draw(true); detail();
  if (tab === "findings") findings();
}
function another(by) {
  if (!hits || !hits.list.length) return;
  const at = hits.list.indexOf(picked);
  pick(hits.list[(at + by + hits.list.length) % hits.list.length]);
}
function highlight(root) {
  if (!window.CSS || !CSS.highlights) return;
  CSS.highlights.delete("found");
  if (!query) return;
  const ranges = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(query); at >= 0 && ranges.length < 2000; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      if (at + query.length > node.length) break;  // lower case may be longer
      range.setStart(node, at); range.setEnd(node, at + query.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

// ── the rows on the screen, of however many there are ──
const ui = {};
const height = () => (matchMedia("(max-width: 52rem)").matches ? 36 : 28);
const span = Math.max(0.001, ...steps.map((one) => (one[START] ?? 0) + (one[TOOK] ?? 0)));
let asked = false;
const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(false); }); } };

function draw(follow) {
  const high = height(), box = ui.tree;
  ui.space.style.height = `${rows.length * high}px`;
  if (follow) {
    const at = rows.indexOf(picked) * high, view = box.clientHeight;
    if (at >= 0 && (at < box.scrollTop || at + high > box.scrollTop + view)) box.scrollTop = Math.max(0, at - view / 2);
  }
  const first = Math.max(0, Math.floor(box.scrollTop / high) - 8);
  const last = Math.min(rows.length, Math.ceil((box.scrollTop + box.clientHeight) / high) + 8);
  const shown = [];
  for (let at = first; at < last; at++) shown.push(row(rows[at], at * high));
  ui.space.replaceChildren(...shown);
  box.setAttribute("aria-activedescendant", rows.includes(picked) ? `s${picked}` : "");
}
function row(i, top) {
  const step = steps[i], inner = below[i].length > 0, isOpen = hits ? inner : open[i];
  const cost = sum.priced[i] ? usd(sum.cost[i]) : "";
  const made = $("div", {
    class: `row ${step[STATUS] || "unknown"}${hits && !hits.own[i] ? " dim" : ""}`, role: "treeitem", id: `s${i}`,
    "aria-level": depth[i] + 1, "aria-selected": String(i === picked), "aria-posinset": place[i] || 1,
    "aria-setsize": step[ABOVE] >= 0 ? below[step[ABOVE]].length : 1, "aria-expanded": inner ? String(!!isOpen) : null,
    "aria-label": [step[TITLE], step[KIND], step[STATUS], took(step[TOOK]), cost].filter(Boolean).join(", "),
  });
  made.dataset.step = i;
  made.style.top = `${top}px`;
  const head = $("span", { class: "head" },
    $("span", { class: "twist" }, inner ? (isOpen ? "▾" : "▸") : ""), $("span", { class: "dot" }),
    $("bdi", { class: "what", title: step[TITLE] }, step[TITLE]),
    step[KIND] !== "run" && !step[TITLE].toLowerCase().startsWith(step[KIND]) && $("span", { class: "kind" }, step[KIND]));
  head.firstChild.style.marginLeft = `${0.35 + Math.min(depth[i], 24) * 0.95}rem`;
  const lane = $("span", { class: "lane" });
  if (tab === "timeline") {
    let at = i;
    while (at >= 0 && steps[at][START] == null) at = steps[at][ABOVE];
    if (at >= 0) {
      const bar = $("i", { class: at === i ? "" : "within" });
      bar.style.left = `${Math.max(0, steps[at][START]) / span * 100}%`;
      bar.style.width = `${(steps[at][TOOK] ?? 0) / span * 100}%`;
      lane.append(bar);
    }
  }
  made.append(head, lane, $("span", { class: "grow" }), $("span", { class: "num cost" }, cost), $("span", { class: "num took" }, took(step[TOOK])));
  return made;
}
function axis() {
  if (tab !== "timeline") return ui.axis.replaceChildren();
  const lane = ui.space.querySelector(".lane");
  if (!lane) return;
  const box = ui.left.getBoundingClientRect(), own = lane.getBoundingClientRect();
  const about = span / Math.max(2, Math.floor(own.width / 110)), power = 10 ** Math.floor(Math.log10(about));
  const units = about < 5 ? [1, 2, 5, 10].map((n) => n * power) : [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400, 604800];
  const unit = units.find((n) => n >= about) || about;
  const marks = [];
  for (let at = 0; at <= span + unit / 1e3; at += unit) {
    const mark = $("span", {}, took(at) || "0");
    mark.style.left = `${own.left - box.left + at / span * own.width}px`;
    marks.push(mark);
  }
  ui.axis.replaceChildren(...marks);
}
function pick(i, options = {}) {
  picked = i;
  for (let up = steps[i][ABOVE]; up >= 0; up = steps[up][ABOVE]) open[up] = 1;
  if (hits && !hits.kept[i]) { ui.search.value = ""; search(""); }
  if (!hits) arrange();
  if (options.show) show(tab === "timeline" ? "timeline" : "steps");
  draw(true); detail();
  history.replaceState(null, "", `#step-${i}`);
  if (options.read) { ui.split.classList.add("reading"); ui.detail.focus({ preventScroll: true }); }
}
function toggle(i, to = !open[i]) {
  if (!below[i].length || hits) return;
  open[i] = to ? 1 : 0;
  if (!to && picked !== i) for (let up = picked; up >= 0; up = steps[up][ABOVE]) if (up === i) { picked = i; detail(); }
  arrange(); draw(false);
}

// ── one step ──
const chip = (status) => $("span", { class: `chip ${status || "unknown"}` }, status || "not known");
const stat = (name, value, of) => value !== "" && value != null && $("div", { class: "stat" }, $("dt", {}, name), $("dd", {}, value, of && $("span", { class: "of" }, ` ${of}`)));
function detail() {
  if (!many) return;
  const i = picked, step = steps[i], path = [];
  for (let up = step[ABOVE]; up >= 0 && path.length < 12; up = steps[up][ABOVE]) path.unshift(up);
  const own = step[CALLS] || sum.calls[i];
  ui.detail.replaceChildren(
    $("button", { class: "back", onclick: back }, "← all steps"),
    path.length ? $("nav", { class: "crumbs", "aria-label": "Path" }, path.map((up, n) => [n ? "›" : "", $("button", { onclick: () => pick(up) }, $("bdi", {}, steps[up][TITLE]))])) : "",
    $("h2", {}, $("bdi", {}, step[TITLE]), " ", step[STATUS] && chip(step[STATUS])),
    $("dl", { class: "figures" },
      stat("Kind", step[KIND]),
      step[START] != null && stat("Began", `+${took(step[START]) || "0"}`, clock(step[START])),
      stat("Took", took(step[TOOK]) || (own ? "not recorded" : "")),
      own > (step[KIND] === "call" || step[KIND] === "subcall" ? 1 : 0) && stat("Calls", whole(own)),
      step[IN] + step[OUT] > 0 ? stat("Tokens", `${whole(step[IN])} → ${whole(step[OUT])}`) : sum.tokens[i] > 0 && stat("Tokens", whole(sum.tokens[i])),
      sum.priced[i] === 1 && stat("Cost", usd(sum.cost[i]), i && sum.cost[0] ? `${(sum.cost[i] / sum.cost[0] * 100).toFixed(0)}%` : ""),
      stat("Model", step[MODEL])),
    step[FACTS].length ? facts(step[FACTS]) : "",
    ...step[TEXTS].map((one, n) => text(one, n < 3)),
    ...(i ? [] : run.documents).map(([name, body], n) => text([name, body, "text"], n === 0)),
    below[i].length ? inside(i) : "");
  ui.detail.scrollTop = 0;
  highlight(ui.detail);
}
const facts = (pairs) => $("dl", { class: "facts" }, pairs.flatMap(([name, value]) => [$("dt", {}, name), $("dd", {}, $("bdi", {}, value))]));
const LONG = 20000;
function text([label, body, form], isOpen) {
  const filled = { done: false }, box = $("details", { class: "text" });
  const fill = () => {
    if (filled.done) return;
    filled.done = true;
    const pre = $("pre", { tabindex: "0", "aria-label": label });
    const put = (some) => pre.replaceChildren(form === "diff" ? patch(some) : some);
    put(body.length > LONG ? body.slice(0, LONG) : body);
    box.append(pre);
    if (body.length > LONG) {
      const more = $("button", { class: "more", onclick: () => { put(body); more.remove(); highlight(ui.detail); } }, `Show all ${whole(body.length)} characters`);
      box.append(more);
    }
  };
  box.append($("summary", {}, label, $("span", { class: "faint" }, `${plural(body.length, "character")}`),
    $("button", { class: "copy", onclick: (event) => { event.preventDefault(); copy(body, event.target); } }, "copy")));
  box.addEventListener("toggle", () => { if (box.open) { fill(); highlight(ui.detail); } });
  if (isOpen) { fill(); box.open = true; }
  return box;
}
function copy(body, button) {
  const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1200); };
  if (navigator.clipboard) return navigator.clipboard.writeText(body).then(done, () => {});
  const area = $("textarea", {}); area.value = body; document.body.append(area); area.select();
  if (document.execCommand("copy")) done();
  area.remove();
}
function patch(body) {
  const made = $("div", { class: "diff" });
  for (const line of body.split("\n")) {
    const kind = /^(diff |index |\+\+\+ |--- )/.test(line) ? "head" : { "+": "plus", "-": "minus", "@": "hunk" }[line[0]] || "";
    made.append($("span", { class: `l ${kind}` }, line));
  }
  return made;
}
function inside(i) {
  const listed = below[i].slice(0, 200);
  return $("div", {}, $("table", { class: "list" },
    $("thead", {}, $("tr", {}, $("th", {}, plural(below[i].length, "step") + " within"), $("th", { class: "num" }, "tokens"), $("th", { class: "num" }, "cost"), $("th", { class: "num" }, "took"))),
    $("tbody", {}, listed.map((one) => $("tr", {}, $("td", {}, $("button", { onclick: () => pick(one) }, $("bdi", {}, steps[one][TITLE]))),
      $("td", { class: "num" }, sum.tokens[one] ? whole(sum.tokens[one]) : ""), $("td", { class: "num" }, sum.priced[one] ? usd(sum.cost[one]) : ""), $("td", { class: "num" }, took(steps[one][TOOK])))))),
    below[i].length > listed.length ? $("p", { class: "faint" }, `and ${whole(below[i].length - listed.length)} more, in the tree`) : "");
}
const back = () => { ui.split.classList.remove("reading"); ui.tree.focus(); };

// ── the budget, as it was spent ──
const paid = [...steps.keys()].filter((i) => steps[i][CALLS]).sort((a, b) => steps[a][ORDER] - steps[b][ORDER] || a - b);
const METERS = [["cost", "Cost", (s) => s[COST] ?? 0, usd, "budget_usd"], ["tokens", "Tokens", (s) => s[IN] + s[OUT], whole, "max_tokens"], ["calls", "Calls", (s) => s[CALLS], whole, "max_calls"]];
let meter = sum.priced[0] ? METERS[0] : METERS[1];
function budget() {
  if (!paid.length) return ui.budget.replaceChildren($("p", { class: "empty" }, "No model was asked."));
  const models = new Map();
  for (const i of paid) {
    const step = steps[i], one = models.get(step[MODEL]) || [0, 0, 0, 0];
    models.set(step[MODEL], [one[0] + step[CALLS], one[1] + step[IN], one[2] + step[OUT], one[3] + (step[COST] ?? 0)]);
  }
  const dearest = [...paid].sort((a, b) => meter[2](steps[b]) - meter[2](steps[a])).slice(0, 15);
  ui.budget.replaceChildren($("div", { class: "pad" },
    $("div", { class: "switch", role: "group", "aria-label": "What is counted" }, METERS.map((one) => $("button", { "aria-pressed": String(one === meter), onclick: () => { meter = one; budget(); } }, one[1]))),
    $("div", { class: "card chart" }, chart()),
    $("h2", {}, "By model"),
    $("table", { class: "list" }, $("thead", {}, $("tr", {}, ["model", "calls", "tokens in", "tokens out", "cost"].map((one, n) => $("th", { class: n ? "num" : "" }, one)))),
      $("tbody", {}, [...models].map(([name, [calls, into, out, cost]]) => $("tr", {}, $("td", {}, $("bdi", {}, name || "lost calls")), ...[whole(calls), whole(into), whole(out), usd(cost)].map((one) => $("td", { class: "num" }, one)))))),
    $("h2", {}, "The most expensive calls"),
    $("table", { class: "list" }, $("tbody", {}, dearest.map((i) => $("tr", {}, $("td", {}, $("button", { onclick: () => pick(i, { show: true, read: true }) }, $("bdi", {}, named(i)))), $("td", { class: "num" }, meter[3](meter[2](steps[i])))))))));
}
const named = (i) => {
  const names = [];
  for (let up = i; up > 0 && names.length < 5; up = steps[up][ABOVE]) names.unshift(steps[up][TITLE]);
  return names.join(" › ") || steps[i][TITLE];
};
function chart() {
  const W = 760, H = 260, L = 62, R = 12, T = 14, B = 34, svg = (name, props, ...inner) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
    made.append(...inner); return made;
  };
  const limit = run.budgets[meter[4]], total = paid.reduce((all, i) => all + meter[2](steps[i]), 0);
  // A limit that is far away would flatten the line: then it is only told.
  const isNear = limit != null && limit <= total * 4, most = Math.max(total, isNear ? limit : 0) || 1;
  const x = (n) => L + n / paid.length * (W - L - R), y = (value) => H - B - value / most * (H - T - B);
  let all = 0, way = `M${x(0)} ${y(0)}`;
  const every = Math.max(1, Math.floor(paid.length / 1500));
  paid.forEach((i, n) => {
    all += meter[2](steps[i]);
    if (n % every === 0 || n === paid.length - 1) way += `H${x(n + 1).toFixed(1)}V${y(all).toFixed(1)}`;
  });
  const made = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${meter[1]}: ${meter[3](total)} in ${plural(paid.length, "call")}${limit != null ? `, of ${meter[3](limit)}` : ""}` });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) made.append(svg("line", { class: "grid", x1: L, x2: W - R, y1: y(most * part), y2: y(most * part) }),
    svg("text", { x: L - 8, y: y(most * part) + 4, "text-anchor": "end" }, meter[3](meter === METERS[0] ? most * part : Math.round(most * part))));
  // Where a part of the run begins.
  let last = -1;
  paid.forEach((i, n) => {
    let up = i;
    while (depth[up] > 1) up = steps[up][ABOVE];
    if (up !== last && below[0].length <= 40) {
      made.append(svg("line", { class: "grid", x1: x(n), x2: x(n), y1: T, y2: H - B, "stroke-dasharray": "2 3" }));
      if (below[0].length <= 8) made.append(svg("text", { x: x(n) + 4, y: T + 6 }, steps[up][TITLE].slice(0, 22)));
      last = up;
    }
  });
  made.append(svg("path", { class: "area", d: `${way}V${y(0)}Z` }), svg("path", { class: "line", d: way }));
  if (isNear) made.append(svg("line", { class: "limit", x1: L, x2: W - R, y1: y(limit), y2: y(limit) }), svg("text", { class: "limited", x: W - R, y: y(limit) - 5, "text-anchor": "end" }, `limit ${meter[3](limit)}`));
  made.append(svg("text", { x: L, y: H - 10 }, "first call"), svg("text", { x: W - R, y: H - 10, "text-anchor": "end" }, `call ${whole(paid.length)}`),
    svg("text", { x: (L + W) / 2, y: H - 10, "text-anchor": "middle" }, limit != null && !isNear ? `the limit of ${meter[3](limit)} is far above` : "in the order of the calls"));
  return made;
}

// ── diffs, findings, the run ──
const diffs = () => ui.diffs.replaceChildren(run.diffs.length ? $("div", { class: "pad" }, run.diffs.map(([title, body], n) => {
  const lines = body.split("\n"), plus = lines.filter((one) => /^\+(?!\+\+ )/.test(one)).length, minus = lines.filter((one) => /^-(?!-- )/.test(one)).length;
  return text([`${title}  +${plus} −${minus}`, body, "diff"], n === 0);
})) : $("p", { class: "empty" }, "This run has no diff."));
const SEVERITIES = ["critical", "high", "medium", "low", "info"];
let severity = "", most = 100;
function findings() {
  const listed = run.findings.map((one, n) => [one, n]).filter(([one]) => (!severity || one.severity === severity) && (!query || JSON.stringify(one).toLowerCase().includes(query)));
  const counts = SEVERITIES.map((one) => [one, run.findings.filter((found) => found.severity === one).length]).filter(([, n]) => n);
  ui.findings.replaceChildren(!run.findings.length ? $("p", { class: "empty" }, "This run has no findings.") : $("div", { class: "pad" },
    $("div", { class: "switch", role: "group", "aria-label": "Severity" }, [["", run.findings.length], ...counts].map(([one, n]) => $("button", { "aria-pressed": String(one === severity), onclick: () => { severity = one; most = 100; findings(); } }, `${one || "all"} ${whole(n)}`))),
    listed.filter(([one]) => !one.argued).slice(0, most).map(([one, n]) => finding(one, n)),
    listed.some(([one]) => one.argued) ? $("details", { class: "argued" }, $("summary", {}, run.argued), listed.filter(([one]) => one.argued).map(([one, n]) => finding(one, n))) : "",
    listed.length ? "" : $("p", { class: "empty" }, "None fits."),
    listed.length > most ? $("button", { class: "more", onclick: () => { most += 200; findings(); } }, `Show more of ${whole(listed.length)}`) : ""));
  highlight(ui.findings);
}
const PROOF = [["command", "To run it", "text"], ["reproduction", "Reproduction", "text"], ["head", "What it says here", "text"], ["base", "What it says at the base", "text"], ["repair", "Repair, which was run", "diff"]];
function finding(one, n) {
  return $("article", { class: `card finding ${one.severity}` },
    $("p", {}, $("span", { class: "chip" }, one.severity), " ", one.proof ? [$("b", {}, one.proof.level), " "] : "", $("code", {}, one.rule), " ", $("span", { class: "faint" }, [one.domain, one.source, one.confidence != null && `confidence ${one.confidence} (${one.proof ? one.proof.level : one.source.startsWith("model:") ? "the model's own figure" : "the rule's record"})`, one.suppression && "suppressed"].filter(Boolean).join(" · "))),
    $("p", { class: "msg" }, $("bdi", {}, one.message)),
    one.suppression && $("p", { class: "msg faint" }, `Suppressed: ${one.suppression}`), one.hint && $("p", { class: "msg faint" }, one.hint),
    one.places.map((at) => [$("p", { class: "place mono" }, $("bdi", {}, at.path), at.start ? `:${at.start}${at.end && at.end !== at.start ? `-${at.end}` : ""}` : ""), at.quote && quote(at)]),
    one.proof && [$("p", { class: "msg faint" }, `${one.proof.level[0].toUpperCase()}${one.proof.level.slice(1)}: ${one.proof.reason}`), PROOF.filter(([name]) => one.proof[name]).map(([name, label, form]) => text([label, one.proof[name], form], name === "repair")), one.proof.repair_reason && $("p", { class: "msg faint" }, `${one.proof.repair ? "Repair" : "No repair"}: ${one.proof.repair_reason}`)],
    one.suggested_fix && !one.proof?.repair && text(["Suggested fix", one.suggested_fix, "text"], false),
    foundBy[n].length ? $("p", { class: "by" }, "found by ", foundBy[n].slice(0, 5).map((i) => [$("button", { onclick: () => pick(i, { show: true, read: true }) }, $("bdi", {}, named(i))), " "])) : "");
}
function quote(at) {
  const made = $("div", { class: "quote" }), line = (number, body, kind) => made.append($("span", { class: `ln ${kind}` }, number ? String(number) : ""), $("span", { class: kind }, body || " "));
  const own = at.quote.replace(/\n$/, "").split("\n");
  at.before.forEach((body, n) => line(at.start - at.before.length + n, body, "ctx"));
  own.forEach((body, n) => line(at.start && at.start + n, body, at.before.length + at.after.length ? "hit" : ""));
  at.after.forEach((body, n) => line(at.start + own.length + n, body, "ctx"));
  return made;
}
const about = () => ui.about.replaceChildren($("div", { class: "pad" }, $("h2", {}, "The run"), $("div", { class: "card" }, facts(run.facts)),
  Object.keys(run.budgets).length ? [$("h2", {}, "Limits"), $("div", { class: "card" }, facts(Object.entries(run.budgets).map(([name, value]) => [name, whole(value)])))] : "",
  $("h2", {}, "Events"), $("table", { class: "list events" }, $("tbody", {}, run.events.map(([at, told]) => $("tr", {}, $("td", { class: "num" }, `+${took(at) || "0"}`), $("td", {}, $("bdi", {}, told)))))),
  $("p", { class: "faint" }, `Made by rlm-ci ${run.version}.`)));

// ── the frame ──
const TABS = [["steps", "Steps", many], ["timeline", "Timeline"], ["budget", "Budget"], ["diffs", "Diffs", run.diffs.length], ["findings", "Findings", run.findings.length], ["about", "Run"]];
const drawn = new Set();
function show(name) {
  tab = name;
  for (const [one] of TABS) {
    const is = one === name, button = ui.tabs.querySelector(`#tab-${one}`);
    button.setAttribute("aria-selected", String(is)); button.tabIndex = is ? 0 : -1;
  }
  const isTree = name === "steps" || name === "timeline";
  ui.split.hidden = !isTree;
  ui.split.classList.toggle("time", name === "timeline");
  ui.split.setAttribute("aria-labelledby", `tab-${name}`);
  for (const one of ["budget", "diffs", "findings", "about"]) ui[one].hidden = one !== name;
  if (isTree) { draw(true); axis(); return; }
  if (!drawn.has(name) || name === "findings") ({ budget, diffs, findings, about })[name]();
  drawn.add(name);
}
function theme(to) {
  document.documentElement.dataset.theme = to;
  try { localStorage.setItem("rlm-ci-theme", to); } catch { /* a page of a file may keep nothing */ }
}
let kept = null;
try { kept = localStorage.getItem("rlm-ci-theme"); } catch { /* the same */ }
document.documentElement.dataset.theme = kept === "dark" || kept === "light" ? kept : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

const KEYS = [["↑ ↓", "the step before, the next"], ["→ ←", "open; close, or go up"], ["Enter", "read the step"], ["Esc", "back to the steps; end the search"], ["/", "search"], ["n, p", "the next hit, the one before"], ["e, c", "open all, close all"], ["1 to 6", "Steps, Timeline, Budget, Diffs, Findings, Run"], ["t", "dark or light"], ["?", "this"]];
function build() {
  const spent = [["cost", sum.priced[0] ? usd(sum.cost[0]) : "", run.budgets.budget_usd != null && `of ${usd(run.budgets.budget_usd)}`], ["tokens", sum.tokens[0] ? whole(sum.tokens[0]) : "", run.budgets.max_tokens != null && `of ${whole(run.budgets.max_tokens)}`], ["calls", sum.calls[0] ? whole(sum.calls[0]) : "", run.budgets.max_calls != null && `of ${whole(run.budgets.max_calls)}`]];
  const tone = many ? steps[0][STATUS] || "unknown" : "unknown";
  ui.top = $("header", { class: `top ${tone}` },
    $("div", { class: "name" }, $("h1", {}, $("span", { class: "sign", "aria-hidden": "true" }, { done: "✓", failed: "✗", partial: "!", running: "…" }[tone] || "·"), $("span", { title: run.goal }, $("bdi", {}, run.title || run.id))),
      $("p", { class: "sub" }, [run.status.replace("_", " "), run.summary].filter(Boolean).join(": "))),
    $("dl", { class: "stats" }, many && stat("took", took(steps[0][TOOK])), spent.reverse().map((one) => stat(...one))));
  ui.tabs = $("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, TABS.map(([name, label, n], at) => $("button", { id: `tab-${name}`, role: "tab", title: `${label} (${at + 1})`, onclick: () => show(name) }, label, n ? $("span", { class: "n" }, whole(n)) : "")));
  ui.search = $("input", { type: "search", placeholder: "Search all steps", "aria-label": "Search all steps", spellcheck: "false", autocomplete: "off", oninput: () => search(ui.search.value) });
  ui.count = $("span", { class: "count" });
  ui.said = $("div", { class: "said", role: "status" });
  const bar = $("div", { class: "bar" }, ui.tabs, $("div", { class: "tools" }, $("label", { class: "search" }, ui.search, ui.count),
    $("button", { class: "tool", onclick: otherTheme, title: "Dark or light (t)", "aria-label": "Dark or light" }, "◐"), $("button", { class: "tool", onclick: () => ui.help.showModal(), title: "Keys (?)", "aria-label": "Keys" }, "?")));
  const told = [...run.problems, ...run.left_out.map((one) => `Not on this page: ${one}`)];
  const notices = told.length ? $("details", { class: "notices", open: told.length < 3 }, $("summary", {}, told.length === 1 ? told[0] : `${told.length} notes about this page`), told.length > 1 ? $("ul", {}, told.map((one) => $("li", {}, $("bdi", {}, one)))) : "") : $("div", {});
  ui.space = $("div", { class: "space" });
  ui.tree = $("div", { class: "tree", role: "tree", tabindex: "0", "aria-label": "Steps of the run", onscroll: redraw }, ui.space);
  ui.axis = $("div", { class: "axis", "aria-hidden": "true" });
  ui.left = $("div", { class: "left" }, ui.axis, ui.tree);
  ui.detail = $("section", { class: "detail", tabindex: "-1", "aria-label": "The step" });
  ui.split = $("div", { class: "panel split", role: "tabpanel" }, ui.left, ui.detail);
  for (const name of ["budget", "diffs", "findings", "about"]) ui[name] = $("div", { class: "panel", role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: "0", hidden: true });
  ui.help = $("dialog", { "aria-label": "Keys" }, $("h2", {}, "Keys"), $("dl", {}, KEYS.flatMap(([key, what]) => [$("dt", {}, $("kbd", {}, key)), $("dd", {}, what)])), $("button", { class: "tool", onclick: () => ui.help.close() }, "Close"));
  ui.outline = $("div", { class: "outline", "aria-hidden": "true" });
  const main = $("main", { class: "panel" }, ui.split, ui.budget, ui.diffs, ui.findings, ui.about, ui.outline);
  document.getElementById("app").replaceChildren(ui.top, bar, notices, main);
  document.body.append(ui.help, ui.said);
  ui.tree.addEventListener("click", (event) => {
    const found = event.target.closest(".row");
    if (!found) return;
    const i = Number(found.dataset.step);
    if (event.target.closest(".twist") && below[i].length) toggle(i);
    else { pick(i); ui.split.classList.add("reading"); }
  });
  ui.tree.addEventListener("dblclick", (event) => { const found = event.target.closest(".row"); if (found) toggle(Number(found.dataset.step)); });
  addEventListener("keydown", key);
  addEventListener("resize", () => { draw(false); axis(); });
  addEventListener("beforeprint", () => ui.outline.replaceChildren(...rows.slice(0, 2000).map((i) => {
    const made = $("div", {}, $("span", {}, steps[i][TITLE]), $("span", {}, sum.priced[i] ? usd(sum.cost[i]) : ""), $("span", {}, took(steps[i][TOOK])));
    made.firstChild.style.paddingLeft = `${depth[i]}rem`;
    return made;
  })));
}
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || ui.help.open) return;
  const typing = event.target === ui.search, name = event.key;
  if (name === "Escape") {
    if (typing || query) { ui.search.value = ""; search(""); }
    back(); return;
  }
  if (typing) {
    if (name === "Enter") { another(event.shiftKey ? -1 : 1); event.preventDefault(); }
    else if (name === "ArrowDown") { ui.tree.focus(); event.preventDefault(); }
    return;
  }
  const inTabs = event.target.closest && event.target.closest(".tabs");
  if (inTabs && (name === "ArrowRight" || name === "ArrowLeft")) {
    const at = TABS.findIndex(([one]) => one === tab), next = TABS[(at + (name === "ArrowRight" ? 1 : TABS.length - 1)) % TABS.length][0];
    show(next); ui.tabs.querySelector(`#tab-${next}`).focus(); event.preventDefault(); return;
  }
  const isTree = tab === "steps" || tab === "timeline", inTree = isTree && (event.target === ui.tree || event.target === document.body);
  const at = rows.indexOf(picked), page = Math.max(1, Math.floor(ui.tree.clientHeight / height()) - 1);
  const move = (to) => { if (rows.length) pick(rows[Math.max(0, Math.min(rows.length - 1, to))]); };
  const tree = {
    ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), Home: () => move(0), End: () => move(rows.length - 1),
    PageDown: () => move(at + page), PageUp: () => move(at - page), Enter: () => pick(picked, { read: true }),
    ArrowRight: () => (open[picked] || hits ? below[picked].length && move(at + 1) : toggle(picked, true)),
    ArrowLeft: () => (open[picked] && below[picked].length && !hits ? toggle(picked, false) : steps[picked][ABOVE] >= 0 && pick(steps[picked][ABOVE])),
  };
  const any = {
    "/": () => { ui.search.focus(); ui.search.select(); }, t: otherTheme, "?": () => ui.help.showModal(), n: () => another(1), p: () => another(-1),
    e: () => { open.fill(1); arrange(); draw(true); }, c: () => { open.fill(0); open[0] = 1; pick(0); },
  };
  const work = (inTree && tree[name]) || any[name] || (/^[1-6]$/.test(name) && (() => { show(TABS[name - 1][0]); if (name < 3) ui.tree.focus(); }));
  if (work) { work(); event.preventDefault(); }
}

document.title = `${run.title || run.id} · rlm-ci`;
build();
const asked_for = /^#step-(\d+)$/.exec(location.hash);
if (asked_for && Number(asked_for[1]) < many) { picked = Number(asked_for[1]); for (let up = steps[picked][ABOVE]; up >= 0; up = steps[up][ABOVE]) open[up] = 1; }
arrange(); show("steps"); detail();
ui.tree.focus({ preventScroll: true });
document.documentElement.dataset.ready = Math.round(performance.now());
idle(prepare);
})();
