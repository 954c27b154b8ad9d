// Shows what the scheduler sends. Names and messages come from users: they become text nodes and attributes, never HTML.
"use strict";

const WAITING_ROWS = 50; // of a page
const RUNNING_ROWS = 20;
const NODE_ROWS = 100;
const OPEN_QUEUES = 100; // with more queues, only the first level of the tree is open at first
const SILENCE = 45_000; // milliseconds without an event, after which the connection counts as lost
const ANNOUNCE = 15_000; // least number of milliseconds between two announcements to screen readers
const STATES = [
  { letter: "f", word: "free", sign: "\u00a0" },
  { letter: "d", word: "degraded", sign: "!" },
  { letter: "a", word: "allocated", sign: "●" },
  { letter: "u", word: "unhealthy", sign: "✕" },
  { letter: "n", word: "unknown", sign: "?" },
];
const STATE_OF = new Map(STATES.map((state) => [state.letter, state]));
const NAMESPACE = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const PLACE = /^(.*\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?\/pages\/?$/;

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function nothingYet() {
  return $("connection").dataset.state === "lost" ? "Nothing is known yet." : "Waiting for the first session…";
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

const number = (value) => value.toLocaleString("en");
const counted = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;
const compare = new Intl.Collator("en", { numeric: true }).compare;

function duration(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// Makes the children of a parent those of the keys, in this order. `known`: key -> element, kept between calls.
function arrange(parent, known, keys, make) {
  const wanted = new Set(keys);
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      if (child.parentNode === parent) child.remove(); // it may have moved to another parent
      known.delete(key);
    }
  }
  let next = parent.firstChild;
  for (const key of keys) {
    let child = known.get(key);
    if (!child) known.set(key, (child = make(key)));
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
}

// --- data ------------------------------------------------------------------------------------------------------------
const NOTHING = {
  at: 0, summary: undefined, queues: undefined, waiting: undefined, running: undefined, nodes: undefined,
  omitted: { waiting: 0, running: 0, nodes: 0 },
};
const data = { ...NOTHING };
// A section is a Map, null if it may not be seen, undefined while nothing is known.

function take(changes, first) {
  const changed = new Set();
  data.at = changes.at;
  if (changes.omitted) data.omitted = changes.omitted;
  if (changes.summary) {
    data.summary = changes.summary;
    changed.add("summary");
  }
  for (const section of ["queues", "waiting", "running", "nodes"]) {
    const found = changes[section];
    if (found === undefined) continue;
    changed.add(section);
    if (found === null) {
      data[section] = null;
      continue;
    }
    if (first || !data[section]) data[section] = new Map();
    const rows = data[section];
    for (const key of found.gone) rows.delete(key);
    for (const [key, row] of Object.entries(found.set)) {
      if (!rows.has(key)) rows.sorted = null;
      rows.set(key, row);
    }
    if (found.gone.length) rows.sorted = null;
  }
  return changed;
}

// --- summary ---------------------------------------------------------------------------------------------------------
const tiles = new Map();

function drawSummary() {
  const summary = data.summary;
  show($("summary"), !!summary);
  if (!summary) return;
  const found = new Map();
  const add = (key, title, value, notes = [], alert = false) => found.set(key, { title, value, notes, alert });
  if (summary.waiting !== null) add("waiting", "Waiting gangs", number(summary.waiting), [], summary.waiting > 0);
  if (summary.running !== null) add("running", "Running gangs", number(summary.running));
  if (summary.queues !== null) add("queues", "Queues", number(summary.queues));
  for (const [resource, counts] of summary.devices ?? []) {
    const [, degraded, allocated, unhealthy, unknown] = counts;
    const all = counts.reduce((sum, count) => sum + count, 0);
    const notes = [[degraded, "degraded"], [unhealthy, "unhealthy"], [unknown, "unknown"]];
    add(`device ${resource}`, resource, `${number(allocated)} of ${number(all)}`, notes.filter(([count]) => count).map(([count, word]) => `${number(count)} ${word}`), unhealthy + unknown > 0);
  }
  if (summary.nodes !== null) {
    const { "": all = 0, ...conditions } = summary.nodes;
    const notes = Object.entries(conditions).map(([word, count]) => `${number(count)} ${word}`);
    add("nodes", "Nodes", number(all), notes, notes.length > 0);
  }
  add("session", "Last session", new Date(data.at * 1000).toLocaleTimeString());
  arrange($("summary-tiles"), tiles, [...found.keys()], tile);
  for (const [key, { title, value, notes, alert }] of found) {
    const line = tiles.get(key);
    line.className = alert ? "alert" : "";
    const [term, amount, note] = line.children;
    setText(term, title);
    setText(amount, value);
    setText(note, notes.join(", "));
    show(note, notes.length > 0);
  }
}

function tile() {
  return element("div", {}, element("dt"), element("dd", { class: "value" }), element("dd", { class: "sub" }));
}

// --- queues ----------------------------------------------------------------------------------------------------------
const queueItems = new Map();

function drawQueues() {
  const queues = data.queues;
  show($("queues-empty"), !queues || queues.size === 0);
  show($("queue-tree"), !!queues && queues.size > 0);
  show($("queues-legend"), !!queues && queues.size > 0);
  if (!queues) {
    setText($("queues-empty"), queues === null ? "You may not list queues. Choose a namespace." : nothingYet());
    return;
  }
  setText($("queues-empty"), "No queue is used here.");
  const children = childrenOf(queues);
  for (const name of queueItems.keys()) if (!queues.has(name)) queueItems.delete(name);
  drawLevel($("queue-tree"), "", children, queues);
}

// Parent -> names of its queues; "" for the roots. A queue whose ancestors form a cycle is a root.
function childrenOf(queues) {
  const children = new Map();
  const isQueue = (name) => !queues.get(name).note;
  for (const name of [...queues.keys()].sort((a, b) => isQueue(b) - isQueue(a) || compare(a, b))) {
    let parent = queues.get(name).parent || "";
    const seen = new Set([name]);
    for (let above = parent; above && queues.has(above); above = queues.get(above).parent || "") {
      if (seen.has(above)) parent = "";
      if (seen.has(above)) break;
      seen.add(above);
    }
    if (!queues.has(parent)) parent = "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(name);
  }
  return children;
}

function drawLevel(list, parent, children, queues) {
  const known = (list.known ??= new Map());
  const names = children.get(parent) ?? [];
  for (const name of names) {
    const branch = children.has(name);
    const item = queueItems.get(name);
    if (item && item.branch !== branch) {
      item.row.remove();
      queueItems.delete(name);
    }
    if (!queueItems.has(name)) {
      queueItems.set(name, queueItem(branch, parent === "" || queues.size <= OPEN_QUEUES));
      known.delete(name);
    }
    if (known.get(name) !== queueItems.get(name).row) known.delete(name);
  }
  arrange(list, known, names, (name) => queueItems.get(name).row);
  for (const name of names) {
    const item = queueItems.get(name);
    drawQueue(item, queues.get(name));
    if (!item.branch) continue;
    item.draw = () => drawLevel(item.below, name, children, queues);
    if (item.details.open) item.draw();
  }
}

function queueItem(branch, open) {
  const head = [element("span", { class: "name" }), element("span", { class: "tag" }), element("span", { class: "facts" })];
  const amounts = element("ul", { class: "amounts" });
  const item = { branch, head, amounts, lines: new Map() };
  if (branch) {
    item.below = element("ul", { class: "below" });
    item.details = element("details", {}, element("summary", {}, ...head), amounts, item.below);
    item.details.open = open;
    item.details.addEventListener("toggle", () => item.details.open && item.draw?.());
    item.row = element("li", { class: "queue" }, item.details);
  } else {
    item.row = element("li", { class: "queue" }, element("div", {}, ...head), amounts);
  }
  return item;
}

function drawQueue(item, row) {
  const [name, tag, facts] = item.head;
  setText(name, row.name);
  const state = row.state || "";
  setText(tag, state);
  show(tag, state !== "" && state !== "Open");
  tag.className = `tag ${["Closed", "Closing", "Unknown"].includes(state) ? state : ""}`;
  const words = [`weight ${row.weight || 0}`, `${number(row.running || 0)} running`, `${number(row.waiting || 0)} waiting`];
  setText(facts, row.note || (row.partial ? "above your queues" : words.join(" · ")));
  const amounts = new Map((row.amounts || []).map((amount) => [amount.resource, amount]));
  arrange(item.amounts, item.lines, [...amounts.keys()], amountLine);
  for (const [resource, amount] of amounts) drawAmount(item.lines.get(resource), amount);
}

function amountLine() {
  const bar = element("div", { class: "bar", "aria-hidden": "true" }, element("i"), element("b"));
  const numbers = element("span", { class: "numbers" }, element("span"), element("span", { class: "tag" }));
  return element("li", {}, element("span", { class: "resource" }), bar, numbers);
}

function drawAmount(line, amount) {
  const [resource, bar, numbers] = line.children;
  const use = amount.use ?? -1;
  const mark = amount.mark ?? -1;
  const over = amount.over || "";
  setText(resource, amount.resource);
  bar.className = `bar ${use < 0 ? "none" : ""} ${over ? `over-${over}` : ""}`;
  bar.children[0].style.width = `${Math.min(1, Math.max(0, use)) * 100}%`;
  bar.children[1].style.left = `${mark * 100}%`;
  show(bar.children[1], mark >= 0 && mark < 1);
  const part = use < 0 ? "" : ` (${Math.round(use * 100)} %)`;
  let text = `${amount.used} used, no limit`;
  if (amount.capability) text = `${amount.used} of ${amount.capability} used${part}`;
  if (amount.counted) text = `${amount.used} used, ${amount.counted} of ${amount.capability} counted${part}`;
  if (amount.capability && amount.deserved) text += `, ${amount.deserved} deserved`;
  if (!amount.capability && amount.deserved) text = `${amount.used} used, ${amount.deserved} deserved${part}`;
  if (amount.inqueue) text += `, ${amount.inqueue} inqueue`;
  if (amount.requested) text += `, ${amount.requested} requested`;
  if (amount.borrowed) text += `, ${amount.borrowed} borrowed`;
  if (amount.lent) text += `, ${amount.lent} lent`;
  setText(numbers.children[0], text);
  setText(numbers.children[1], over ? `over ${over === "deserved" ? "what it deserves" : "its capability"}` : "");
  numbers.children[1].className = `tag ${over ? `over-${over}` : ""}`;
  show(numbers.children[1], over !== "");
}

// --- lists in pages --------------------------------------------------------------------------------------------------
class Pages {
  constructor(group, size, redraw) {
    this.size = size;
    this.at = 0;
    this.previous = element("button", { type: "button" }, "Previous");
    this.next = element("button", { type: "button" }, "Next");
    this.text = element("span");
    this.group = group;
    group.append(this.previous, this.text, this.next);
    const turn = (button, by) =>
      button.addEventListener("click", () => {
        if (button.getAttribute("aria-disabled") === "true") return; // it keeps the focus, unlike a disabled button
        this.at += by;
        redraw();
      });
    turn(this.previous, -1);
    turn(this.next, 1);
  }

  // The rows of the current page.
  of(rows) {
    const last = Math.max(0, Math.ceil(rows.length / this.size) - 1);
    this.at = Math.min(this.at, last);
    show(this.group, last > 0);
    this.previous.setAttribute("aria-disabled", String(this.at === 0));
    this.next.setAttribute("aria-disabled", String(this.at === last));
    setText(this.text, `Page ${number(this.at + 1)} of ${number(last + 1)}`);
    return rows.slice(this.at * this.size, (this.at + 1) * this.size);
  }
}

function cell(label) {
  return element("td", label ? { role: "cell", "data-label": label } : { role: "cell" });
}

function heading() {
  return element("th", { role: "rowheader", scope: "row" });
}

// --- gangs -----------------------------------------------------------------------------------------------------------
// The table of a section of gangs: a filter, pages, and a row for each gang.
class GangTable {
  // `labels`: of the columns after Gang, Ready / min and Queue; `before`: the order of rows; `draw`: shows a row in the
  // cells of these columns; `words`: what is said where there is nothing to show.
  constructor(section, size, { labels, before, draw, words }) {
    this.section = section;
    this.labels = labels;
    this.before = before;
    this.drawRow = draw;
    this.words = words;
    this.lines = new Map();
    this.pages = new Pages($(`${section}-pages`), size, () => this.draw());
    $(`${section}-filter`).addEventListener("input", later(() => this.draw()));
  }

  draw() {
    const part = (name) => $(`${this.section}-${name}`);
    const gangs = data[this.section];
    const some = !!gangs && gangs.size > 0;
    show(part("tools"), some);
    const words = part("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = !gangs ? [] : [...gangs.entries()].filter(([, row]) => matches(row, words));
    rows.sort(this.before);
    const shown = this.pages.of(rows);
    show(part("table"), rows.length > 0);
    show(part("empty"), rows.length === 0);
    let empty = nothingYet();
    if (gangs === null) empty = "You may not list PodGroups of all namespaces. Choose a namespace.";
    else if (some) empty = this.words.noMatch;
    else if (gangs) empty = this.words.none;
    setText(part("empty"), empty);
    if (gangs) {
      const omitted = data.omitted[this.section];
      const rest = omitted ? `; ${number(omitted)} ${this.words.omitted}` : "";
      setText(part("count"), `${rows.length === gangs.size ? "" : `${number(rows.length)} of `}${counted(gangs.size, "gang")}${rest}`);
    }
    arrange(part("rows"), this.lines, shown.map(([key]) => key), () => this.line());
    for (const [key, row] of shown) this.show(this.lines.get(key), row);
  }

  line() {
    const name = heading();
    name.append(element("span"), element("span", { class: "sub" }));
    return element("tr", { role: "row" }, name, cell("Ready / min"), cell("Queue"), ...this.labels.map(cell));
  }

  show(line, row) {
    const [name, pods, queue, ...others] = line.children;
    setText(name.children[0], row.job || row.group);
    setText(name.children[1], `namespace ${row.namespace}`);
    const [ready, minimum, all] = row.pods ?? [0, 0, 0];
    setText(pods, `${number(ready)} / ${number(minimum)}${all > minimum ? ` of ${number(all)}` : ""}`);
    setText(queue, row.queue);
    this.drawRow(others, row);
  }
}

function matches(row, words) {
  if (!words.length) return true;
  const text = `${row.namespace}/${row.group} ${row.queue} ${row.reason || row.uses || ""} ${row.alert || ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function drawSince(cell, row) {
  const time = (cell.firstElementChild ?? cell.appendChild(element("time")));
  const moment = row.since ? new Date(row.since * 1000) : null;
  setText(time, moment ? duration(Date.now() / 1000 - row.since) : "");
  if (moment && time.dateTime !== moment.toISOString()) {
    time.dateTime = moment.toISOString();
    time.title = moment.toLocaleString();
  }
}

function drawWithAlert(cell, text, alert) {
  if (!cell.firstChild) cell.append(element("span"), element("span", { class: "alert" }));
  const [plain, marked] = cell.children;
  setText(plain, text);
  setText(marked, alert ? `⚠ ${alert}` : "");
  show(marked, Boolean(alert));
}

const waitingGangs = new GangTable("waiting", WAITING_ROWS, {
  labels: ["Waits for", "Since", "Reason"],
  before: ([, a], [, b]) => compare(a.queue, b.queue) || compare(a.waits, b.waits) || a.position - b.position,
  draw([waits, since, reason], row) {
    setText(waits, `${row.waits}, ${number(row.position)} of ${number(row.of)}`);
    drawSince(since, row);
    drawWithAlert(reason, row.reason || "no reason was recorded in the last session", row.alert);
  },
  words: { none: "No gang waits.", noMatch: "No waiting gang matches the filter.", omitted: "more are further back in their queues" },
});
const runningGangs = new GangTable("running", RUNNING_ROWS, {
  labels: ["Since", "Uses"],
  before: ([a, one], [b, other]) =>
    Boolean(other.alert) - Boolean(one.alert) || (other.since ?? 0) - (one.since ?? 0) || compare(a, b),
  draw([since, uses], row) {
    drawSince(since, row);
    drawWithAlert(uses, row.uses || "nothing", row.alert);
  },
  words: { none: "No gang runs.", noMatch: "No running gang matches the filter.", omitted: "older ones are not sent" },
});

// --- chips -----------------------------------------------------------------------------------------------------------
const nodeRows = new Map();
const nodePages = new Pages($("chips-pages"), NODE_ROWS, drawChips);
const totalLines = new Map();

function drawChips() {
  const nodes = data.nodes;
  const some = !!nodes && nodes.size > 0;
  show($("chips-tools"), some);
  show($("chips-totals"), some);
  const rows = nodes ? filteredNodes(nodes) : [];
  const shown = nodePages.of(rows);
  show($("chips-map"), rows.length > 0);
  show($("chips-empty"), rows.length === 0);
  let empty = nothingYet();
  if (nodes === null) empty = "Chips are shown to users who may list nodes.";
  else if (some) empty = "No node matches the filter.";
  else if (nodes) empty = "No node has chips or cards.";
  setText($("chips-empty"), empty);
  if (some) {
    const omitted = data.omitted.nodes ? `; ${number(data.omitted.nodes)} more are not sent, those with unusable chips come first` : "";
    setText($("chips-count"), `${rows.length === nodes.size ? "" : `${number(rows.length)} of `}${counted(nodes.size, "node")}${omitted}`);
    drawTotals(nodes);
  }
  arrange($("chips-rows"), nodeRows, shown.map(([key]) => key), nodeRow);
  for (const [key, row] of shown) drawNode(nodeRows.get(key), row);
}

function filteredNodes(nodes) {
  const part = $("chips-filter").value.trim().toLowerCase();
  const resource = $("chips-resource").value;
  const state = $("chips-state").value;
  const position = STATES.findIndex((each) => each.word === state);
  const marked = $("chips-conditions").checked;
  nodes.sorted ??= [...nodes.keys()].sort(compare); // ten thousand names take a while to sort
  const found = nodes.sorted.map((key) => [key, nodes.get(key)]).filter(
    ([, row]) =>
      (!part || row.node.toLowerCase().includes(part)) &&
      (!resource || row.resource === resource) &&
      (position < 0 || (row.counts?.[position] ?? 0) > 0) &&
      (!marked || !!row.conditions?.length),
  );
  const alerts = ([, row]) => !!row.conditions?.length || (row.counts?.[3] ?? 0) + (row.counts?.[4] ?? 0) > 0;
  return [...found.filter(alerts), ...found.filter((each) => !alerts(each))];
}

function drawTotals(nodes) {
  const totals = new Map();
  for (const row of nodes.values()) {
    if (!row.resource) continue;
    const sum = totals.get(row.resource) ?? STATES.map(() => 0);
    (row.counts ?? []).forEach((count, i) => (sum[i] += count));
    totals.set(row.resource, sum);
  }
  const names = [...totals.keys()].sort(compare);
  arrange($("chips-totals"), totalLines, names, totalLine);
  for (const name of names) {
    const [title, ...states] = totalLines.get(name).children;
    setText(title, `${name}: `);
    states.forEach((each, i) => setText(each.lastChild, `${number(totals.get(name)[i])} ${STATES[i].word}`));
  }
  const select = $("chips-resource");
  const options = (select.known ??= new Map([["", select.firstElementChild]]));
  arrange(select, options, ["", ...names], (name) => {
    const option = element("option", {}, name);
    option.value = name;
    return option;
  });
}

function totalLine() {
  const states = STATES.map((state) => element("span", { class: "state" }, chip(state.letter), element("span")));
  return element("li", {}, element("span"), ...states);
}

function chip(letter, position) {
  const state = STATE_OF.get(letter);
  const made = element("span", { class: `chip ${state ? letter : "none"}`, "aria-hidden": "true" }, state ? state.sign : "");
  if (state) made.title = position === undefined ? state.word : `chip ${position}: ${state.word}`;
  return made;
}

function nodeRow() {
  const chips = cell("");
  chips.append(element("div", { class: "row" }), element("span", { class: "for-readers" }));
  const name = heading();
  name.append(element("span"), " ", element("span", { class: "tag condition" }));
  return element("tr", { role: "row" }, name, cell(""), chips, cell(""));
}

function drawNode(line, row) {
  const [node, resource, chips, free] = line.children;
  const [squares, text] = chips.children;
  setText(node.children[0], row.node);
  setText(node.children[1], (row.conditions ?? []).join(", "));
  show(node.children[1], !!row.conditions?.length);
  setText(resource, row.resource || "");
  const counts = row.counts ?? [];
  const all = counts.reduce((sum, count) => sum + count, 0);
  setText(free, row.resource ? `${number(counts[0] ?? 0)} of ${number(all)} free` : "");
  const letters = row.chips || "";
  const words = STATES.map((state, i) => [state, counts[i] ?? 0]).filter(([, count]) => count > 0);
  const description = words.map(([state, count]) => `${number(count)} ${state.word}${row.numbered ? numbersOf(letters, state) : ""}`).join("; ");
  // Devices that are too many to be drawn, or not known one by one, are described to all.
  text.className = letters ? "for-readers" : "";
  setText(text, description || (row.resource ? "none" : ""));
  if (line.letters !== letters) {
    line.letters = letters;
    squares.replaceChildren(...Array.from(letters, (letter, i) => chip(letter, row.numbered ? i : undefined)));
  }
}

// The numbers of devices in a state that calls for attention.
function numbersOf(letters, state) {
  if (!["d", "u", "n"].includes(state.letter)) return "";
  const found = Array.from(letters, (letter, i) => (letter === state.letter ? i : -1)).filter((i) => i >= 0);
  return found.length ? ` (${found.length === 1 ? "chip" : "chips"} ${found.join(", ")})` : "";
}

// --- drawing and announcements ---------------------------------------------------------------------------------------
const drawings = { summary: drawSummary, queues: drawQueues, waiting: () => waitingGangs.draw(), running: () => runningGangs.draw(), nodes: drawChips };
const due = new Set();

function draw(sections) {
  if (!due.size && sections.size) requestAnimationFrame(drawDue);
  for (const section of sections) due.add(section);
}

function drawDue() {
  const sections = [...due];
  due.clear();
  for (const section of sections) drawings[section]();
}

const announced = { at: -Infinity, waiting: undefined, timer: 0 };

function announce(text) {
  setText($("announcement"), text);
  announced.at = Date.now();
}

// Says at most every 15 seconds how many gangs wait, if the number has changed.
function announceWaiting() {
  const size = data.waiting?.size;
  if (announced.waiting === undefined) announced.waiting = size;
  if (size === undefined || size === announced.waiting || announced.timer) return;
  announced.timer = setTimeout(() => {
    announced.timer = 0;
    const now = data.waiting?.size;
    if (now === undefined || now === announced.waiting) return;
    const verb = now === 1 ? "gang waits" : "gangs wait";
    announce(`${number(now)} ${verb}, before it was ${number(announced.waiting ?? 0)}`);
    announced.waiting = now;
  }, Math.max(0, announced.at + ANNOUNCE - Date.now()));
}

// --- connection ------------------------------------------------------------------------------------------------------
let token = "";
let root = "";
let namespace = "";
let abort = null;

function setConnection(state, text) {
  const line = $("connection");
  if (line.dataset.state !== state && (state === "live" || state === "lost")) {
    announce(state === "live" ? "Connected" : "The connection is lost");
  }
  if (line.dataset.state !== state) draw(new Set(Object.keys(drawings)));
  line.dataset.state = state;
  setText($("connection-text"), text);
}

function setProblem(text) {
  setText($("problem"), text);
  show($("problem"), text !== "");
}

function place() {
  const found = PLACE.exec(location.pathname);
  root = found?.[1] ?? "";
  namespace = found?.[2] ?? "";
  $("namespace").value = namespace;
  const scope = namespace ? `namespace ${namespace}` : "whole cluster";
  setText($("scope"), `· ${scope}`);
  document.title = `volcano-py · ${scope}`;
}

function forget() {
  Object.assign(data, NOTHING);
  announced.waiting = undefined;
  draw(new Set(Object.keys(drawings)));
}

class Refused extends Error {
  constructor(status, message, seconds) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

async function connect() {
  abort?.abort();
  const mine = (abort = new AbortController());
  show($("login"), false);
  let pause = 1;
  while (!mine.signal.aborted) {
    setConnection($("connection").dataset.state === "lost" ? "lost" : "connecting", "Connecting…");
    try {
      await listen(mine, () => (pause = 1));
      setConnection("lost", "The connection has ended. Connecting again…");
    } catch (error) {
      if (mine.signal.reason === "replaced") return;
      if (error instanceof Refused) {
        if (error.status === 401) {
          setConnection("lost", "Not connected");
          setProblem(token ? error.message : "");
          show($("login"), true);
          $("token").focus();
          return;
        }
        setProblem(error.message);
        if (error.status === 403) {
          setConnection("lost", "Not allowed");
          forget();
          return;
        }
        pause = Math.max(pause, error.seconds);
      }
      setConnection("lost", `Not connected. Next attempt in ${pause} s.`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause * 1000));
    if (abort !== mine) return;
    pause = Math.min(30, pause * 2);
  }
}

// Reads events until the connection ends.
async function listen(mine, connected) {
  const attempt = new AbortController();
  const end = () => attempt.abort();
  mine.signal.addEventListener("abort", end);
  let watchdog = setTimeout(end, SILENCE);
  try {
    const path = `${root}${namespace ? `/namespaces/${namespace}` : ""}/pages?watch=true`;
    const headers = { Accept: "text/event-stream", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { headers, cache: "no-store", credentials: "same-origin", signal: attempt.signal });
    if (!answer.ok) throw await refusal(answer);
    connected();
    setProblem("");
    setConnection("live", "Connected. Waiting for the first session…");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    let first = true;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(end, SILENCE);
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = parse(block);
        if (event.name === "refused") throw new Refused(event.data.code, event.data.message, 5);
        if (event.name !== "changes") continue;
        draw(take(event.data, first).add("summary")); // it shows the time of the session
        first = false;
        announceWaiting();
        showLive();
      }
    }
  } finally {
    clearTimeout(watchdog);
    mine.signal.removeEventListener("abort", end);
    attempt.abort();
  }
}

function parse(block) {
  const event = { name: "", data: null };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
  }
  return event;
}

async function refusal(answer) {
  let message = `The server answers ${answer.status} ${answer.statusText}`;
  try {
    message = (await answer.json()).message || message;
  } catch {
    // it is not a Status
  }
  return new Refused(answer.status, message, Number(answer.headers.get("Retry-After")) || 0);
}

function reconnect() {
  abort?.abort("replaced");
  setProblem("");
  place();
  forget();
  connect();
}

function showLive() {
  const age = Math.max(0, Date.now() / 1000 - data.at);
  const old = age >= 60 ? `, ${duration(age)} ago` : "";
  setConnection("live", `Live · session of ${new Date(data.at * 1000).toLocaleTimeString()}${old}`);
}

// --- controls --------------------------------------------------------------------------------------------------------
function later(action) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, 150);
  };
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

$("options").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = $("namespace").value.trim();
  if (wanted && !NAMESPACE.test(wanted)) {
    setProblem(`“${wanted}” cannot be the name of a namespace`);
    return;
  }
  history.pushState(null, "", `${root}${wanted ? `/namespaces/${wanted}` : ""}/pages/`);
  reconnect();
});
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  reconnect();
});
$("theme").addEventListener("change", () => {
  setTheme($("theme").value);
  try {
    localStorage.setItem("volcano-py.theme", $("theme").value);
  } catch {
    // it lasts until the page is closed
  }
});
try {
  $("theme").value = localStorage.getItem("volcano-py.theme") ?? "";
  setTheme($("theme").value);
} catch {
  // as the system
}
for (const state of STATES) $("chips-state").append(element("option", { value: state.word }, state.word));
$("chips-filter").addEventListener("input", later(drawChips));
$("chips-conditions").addEventListener("change", drawChips);
$("chips-resource").addEventListener("change", drawChips);
$("chips-state").addEventListener("change", drawChips);
window.addEventListener("popstate", () => {
  if (PLACE.exec(location.pathname)?.[2] !== (namespace || undefined)) reconnect();
});
setInterval(() => {
  if ($("connection").dataset.state === "live" && data.at) showLive();
  if (!document.hidden && data.waiting) draw(new Set(["waiting", "running"]));
}, 10_000);
place();
connect();
