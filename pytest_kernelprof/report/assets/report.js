// The page of a report: shows what stands in the document, and computes nothing that it does not say.
// Everything of a trace is data: it reaches the page as text of elements, never as markup.
"use strict";
(() => {
const report = JSON.parse(document.getElementById("data").textContent);
const profiles = new Map(report.profiles.map((profile) => [profile.id, profile]));
const CLASSES = ["kernels", "memcpys", "memsets", "host_syncs", "calls", "ops"];
const ON_GPU = ["kernels", "memcpys", "memsets"];
const NOUNS = { kernels: "kernel", memcpys: "memory copy", memsets: "Memset", host_syncs: "host sync", calls: "call", ops: "op" };
const UNMEASURED = "not measured";

// Text

// Characters that nobody would see, or that change the direction of others, are told by their number.
const shown = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
const lines = (text) => String(text).split("\n").map(shown).join("\n");

function time(ns) {
  if (ns === null || ns === undefined) return UNMEASURED;
  const [unit, size] = ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ns >= 1e3 ? ["us", 1e3] : ["ns", 1];
  return size === 1 ? `${ns} ns` : `${(ns / size).toFixed(1)} ${unit}`;
}

function bytes(number) {
  if (number === null) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (number >= 1024 && power < units.length - 1) [number, power] = [number / 1024, power + 1];
  return `${power ? number.toFixed(1) : number} ${units[power]}`;
}

const count = (value) => (value === null || value === undefined ? UNMEASURED : value);

// Elements

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick" || name === "oninput" || name === "onchange" || name === "onkeydown") made[name] = value;
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((one) => one !== null));
  return made;
}

// The name of a test, which goes on in the next line where one of its words ends. A very long one is cut in the middle: tests
// of a file begin alike, and parameters stand at the end.
function testName(text) {
  const most = 240, tail = 80, whole = shown(text);
  const told = whole.length > most ? `${whole.slice(0, most - tail - 5)} ... ${whole.slice(-tail)}` : whole;
  return el("span", {}, ...told.split(/(?<=::|[/_.,[-])/).flatMap((part) => [part, el("wbr")]));
}

function verdict(word, more = "") {
  return el("span", { class: `verdict ${word.split(" ")[0]}` }, word + more);
}

// A table whose columns are sorted by a click, or by Enter. A column is [header, cell of a row, options].
function table(columns, rows, options = {}) {
  const body = el("tbody");
  const buttons = columns.map(([header, , how = {}], place) => {
    const button = el("button", { type: "button", onclick: () => sort(place) }, header);
    return [el("th", { class: how.number ? "number" : null, scope: "col", "aria-sort": "none" }, button), button];
  });
  let order = [null, 1];

  function sort(place) {
    const [, cell, how = {}] = columns[place];
    order = [place, order[0] === place ? -order[1] : how.number ? -1 : 1];
    const key = how.key || cell;
    const sorted = [...rows].sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      // What was not measured comes last, whichever way the rest goes.
      if (a === null || b === null) return (a === null) - (b === null);
      return order[1] * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    });
    buttons.forEach(([head], index) =>
      head.setAttribute("aria-sort", index !== place ? "none" : order[1] > 0 ? "ascending" : "descending"));
    fill(sorted);
  }

  function fill(sorted) {
    body.replaceChildren(...sorted.map((row) => {
      const made = el("tr", options.pick ? { class: "pick", tabindex: "0" } : {});
      for (const [, cell, how = {}] of columns) {
        const value = cell(row);
        const node = value instanceof Node ? value : document.createTextNode(shown(value ?? ""));
        const title = how.name ? shown(how.key ? how.key(row) : value).slice(0, 2000) : null;
        const kind = how.number ? "number" : how.name ? "name mono" : null;
        made.append(el("td", { class: value === UNMEASURED ? `${kind || ""} untold` : kind, title }, node));
      }
      if (options.pick) {
        made.onclick = () => options.pick(row, made);
        made.onkeydown = (event) => { if (event.key === "Enter") options.pick(row, made); };
      }
      if (options.text) made.dataset.text = options.text(row).toLowerCase();
      if (row.test) made.dataset.id = row.test.id;
      return made;
    }));
    if (options.filled) options.filled();
  }

  fill(rows);
  const head = el("thead", {}, el("tr", {}, ...buttons.map(([one]) => one)));
  return el("div", { class: "wide" }, el("table", { id: options.id || null, class: options.kind || null }, head, body));
}

// A box that hides the rows of a table that do not hold what is typed; *isMain* says which stand there without it.
function searchBox(holder, words, isMain = () => true) {
  const found = el("span", { class: "faint", "aria-live": "polite" });
  const box = el("input", { type: "search", class: "search", placeholder: words, "aria-label": words, oninput: () => filter() });
  function filter() {
    const wanted = box.value.toLowerCase();
    let left = 0;
    for (const row of holder.querySelectorAll("tbody tr")) {
      const fits = wanted ? row.dataset.text.includes(wanted) : isMain(row);
      row.classList.toggle("hidden", !fits);
      left += fits;
    }
    found.textContent = wanted ? `${left} found` : "";
  }
  return [el("p", {}, box, " ", found), filter];
}

// Events of a profile

function eventsOf(profile) {
  const found = [];
  profile.details.steps.forEach((step, number) => {
    for (const name of CLASSES) {
      const columns = step[name];
      if (!columns) continue;
      columns.kinds.forEach((kind, index) => found.push({
        step: number,
        stepName: step.name,
        name,
        index,
        kind: profile.details.kinds[name][kind],
        start: columns.start_ns[index],
        duration: columns.duration_ns[index],
        call: columns.launches ? columns.launches[index] : null,
      }));
    }
  });
  const byPlace = new Map(found.map((one) => [`${one.step}/${one.name}/${one.index}`, one]));
  for (const one of found) one.launch = one.call === null ? null : byPlace.get(`${one.step}/calls/${one.call}`) || null;
  return [found, byPlace];
}

// What a kernel is for, in few groups: as many as can be told apart by colour, pattern and letter.
const LOOKS = {
  gemm: ["G", "#4477aa", "gemm, gemv, convolution"],
  attention: ["A", "#aa3377", "attention"],
  softmax: ["S", "#ccbb44", "softmax, norm, reduction"],
  elementwise: ["E", "#66ccee", "elementwise"],
  move: ["M", "#ee7733", "copy and layout kernels"],
  other: ["K", "#999999", "other kernels"],
  memcpy: ["C", "#cc3311", "memory copy"],
  memset: ["0", "#bbbbbb", "Memset"],
  launch: ["L", "#228833", "launch"],
  sync: ["W", "#cc3311", "host waits"],
  op: ["", "#88aacc", "operator"],
};
const GROUPS = {
  gemm: "gemm", gemv: "gemm", convolution: "gemm", attention: "attention", softmax: "softmax", norm: "softmax",
  reduction: "softmax", elementwise: "elementwise", copy: "move", layout: "move",
};

function look(event) {
  if (event.name === "kernels") return LOOKS[GROUPS[event.kind.role] || "other"];
  return LOOKS[{ memcpys: "memcpy", memsets: "memset", host_syncs: "sync", calls: "launch", ops: "op" }[event.name]];
}

function brief(event) {
  if (event.name === "memcpys") return `${event.kind.kind || "copy"} ${bytes(event.kind.bytes)}`;
  if (event.name === "memsets") return `Memset ${bytes(event.kind.bytes)}`;
  // The function's own name: without return type, template arguments and parameters, as far as that is easily told.
  const plain = event.kind.name.replace(/^void /, "").replaceAll("(anonymous namespace)::", "").replace(/[<(].*$/s, "");
  const name = event.name === "ops" || event.name === "calls" ? plain : plain.slice(plain.lastIndexOf("::") + 1).replace(/^:/, "");
  return shown(name || event.kind.name).slice(0, 120);
}

// Timeline

const ROW = 17, GPU_ROW = 26, GAP = 8, BAND = 16, REGION = 15, AXIS = 20, MOST_REGIONS = 4, MOST_ARROWS = 200, LABEL = 118;

function laneName(event) {
  if (ON_GPU.includes(event.name)) return `GPU ${event.kind.device ?? "?"} stream ${event.kind.stream ?? "?"}`;
  return `CPU thread ${event.kind.thread.split("/").pop()}`;
}

// Places events in lanes: one a thread, its ops as deep as they nest and its calls under them; one a stream.
function lanesOf(events, head) {
  const lanes = new Map();
  for (const event of events) {
    if (event.start === null || (event.name === "host_syncs" && event.twin)) continue;
    const key = laneName(event);
    if (!lanes.has(key)) lanes.set(key, { key, gpu: ON_GPU.includes(event.name), events: [], rows: 1 });
    lanes.get(key).events.push(event);
  }
  const ordered = [...lanes.values()].sort((a, b) => a.gpu - b.gpu || a.key.localeCompare(b.key, "en", { numeric: true }));
  let top = head;
  for (const lane of ordered) {
    lane.events.sort((a, b) => a.start - b.start || (b.duration || 0) - (a.duration || 0));
    const ops = lane.events.filter((one) => one.name === "ops");
    ops.forEach((one) => { one.row = one.kind.inside.length; });
    const depth = ops.length ? Math.max(...ops.map((one) => one.row)) + 1 : 0;
    const ends = [];
    for (const one of lane.events) {
      if (one.name === "ops") continue;
      // Events of one stream or thread can overlap: then they stand below each other.
      let row = ends.findIndex((end) => end <= one.start);
      if (row < 0) row = ends.length;
      ends[row] = one.start + (one.duration || 0);
      one.row = depth + row;
    }
    lane.rows = Math.max(1, depth + ends.length);
    lane.top = top;
    lane.row = lane.gpu ? GPU_ROW : ROW;
    top += lane.rows * lane.row + GAP;
  }
  return [ordered, top];
}

function timeline(profile, marked, choose) {
  const [events, byPlace] = eventsOf(profile);
  const offending = new Set(marked.map((one) => byPlace.get(`${one.step}/${one.class}/${one.index}`)).filter(Boolean));
  for (const one of offending) one.offends = true;
  const ranges = profile.details.steps.flatMap((step, number) =>
    step.ranges.map((range) => ({ ...range, step: number, isStep: range.name === step.name })));
  const deepest = nest(ranges.filter((one) => !one.isStep));
  const head = BAND + REGION * deepest + AXIS;
  const [lanes, height] = lanesOf(events, head + GAP);
  const untimed = events.filter((one) => one.start === null).length;
  const drawn = lanes.flatMap((lane) => lane.events.map((event) => ({ event, lane })));
  const place = new Map(drawn.map((one) => [one.event, one]));
  const sequence = drawn.map((one) => one.event).sort((a, b) => a.start - b.start);
  const ends = [...drawn.map(({ event }) => event.start + (event.duration || 0)), ...ranges.map((one) => one.start_ns + (one.duration_ns || 0))];
  const starts = [...drawn.map(({ event }) => event.start), ...ranges.map((one) => one.start_ns)];
  const whole = drawn.length ? [Math.min(...minmax(starts)), Math.max(...minmax(ends))] : [0, 1];
  if (whole[1] <= whole[0]) whole[1] = whole[0] + 1;
  let [from, to] = whole, selected = null, hovered = null;

  const canvas = el("canvas", {
    tabindex: "0", role: "application",
    "aria-label": `Timeline of ${shown(profile.id).slice(0, 200)}: arrow keys pan, plus and minus zoom, n and p go from event to event, 0 shows all`,
  });
  const panel = el("div", { class: "event", "aria-live": "polite" });
  // The canvas stays where it is and is as tall as its window; what scrolls is a box of the whole height behind it.
  const spacer = el("div"), scroller = el("div", { class: "scroller" }, canvas, spacer);
  scroller.onscroll = () => draw();
  const context = canvas.getContext("2d");

  const x = (ns) => LABEL + ((ns - from) / (to - from)) * (canvas.clientWidth - LABEL);
  const at = (px) => from + ((px - LABEL) / (canvas.clientWidth - LABEL)) * (to - from);
  const box = ({ event, lane }) => {
    const left = x(event.start), width = Math.max(1.5, x(event.start + (event.duration || 0)) - left);
    return [left, lane.top + event.row * lane.row, width, lane.row - 2];
  };

  function zoom(factor, center = (from + to) / 2) {
    const least = 100;
    if ((to - from) * factor < least) factor = least / (to - from);
    move(center - (center - from) * factor, center + (to - center) * factor);
  }

  function move(first, last) {
    const span = Math.min(last - first, (whole[1] - whole[0]) * 1.1);
    const low = whole[0] - (whole[1] - whole[0]) * 0.05, high = whole[1] + (whole[1] - whole[0]) * 0.05;
    from = Math.max(low, Math.min(first, high - span));
    to = from + span;
    draw();
  }

  function fit(first = whole[0], last = whole[1]) {
    const pad = Math.max(1, (last - first) * 0.03);
    move(first - pad, last + pad);
  }

  function select(event, show = false) {
    selected = event;
    panel.replaceChildren(...(event ? describe(event) : [el("span", { class: "faint" }, "Click an event, or press n, to see what it is.")]));
    if (event && show && place.has(event)) {
      const span = to - from, [, top, , h] = box(place.get(event));
      if (event.start < from || event.start > to) move(event.start - span / 2, event.start + span / 2);
      if (top < scroller.scrollTop + head || top + h > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top - scroller.clientHeight / 2;
    }
    draw();
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    if (!width) return;
    const window_height = Math.min(height, Math.max(260, Math.round(window.innerHeight * 0.6))), scroll = scroller.scrollTop;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(window_height * ratio);
    canvas.style.height = scroller.style.height = `${window_height}px`;
    spacer.style.height = `${height - window_height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.clearRect(0, 0, width, window_height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    stripes(width, window_height, colour);
    context.translate(0, -scroll);
    for (const one of drawn) paint(one, width, colour, scroll, window_height);
    arrows(width, colour, scroll, window_height);
    labels(width, colour);
    context.translate(0, scroll);
    context.fillStyle = colour("--paper");
    context.fillRect(0, 0, width, head);
    stripes(width, head, colour);
    bands(width, colour);
    axis(width, colour);
    context.fillStyle = colour("--paper");
    context.fillRect(0, 0, LABEL - 2, head);
    context.fillStyle = colour("--faint");
    context.fillText("steps on the CPU", 6, BAND / 2);
    if (deepest) context.fillText("regions", 6, BAND + REGION / 2);
    context.fillText("time", 6, head - AXIS / 2);
    if (selected && place.has(selected)) {
      const [left, top, w, h] = box(place.get(selected));
      canvas.dataset.selectedX = Math.round(left + w / 2);
      canvas.dataset.selectedY = Math.round(top + h / 2 - scroll);
    }
    canvas.dataset.from = Math.round(from);
    canvas.dataset.to = Math.round(to);
  }

  const visibleRange = (range, width) => {
    const left = Math.max(LABEL, x(range.start_ns)), right = Math.min(width, x(range.start_ns + (range.duration_ns ?? to)));
    return right <= LABEL || left >= width ? null : [left, right];
  };

  function stripes(width, tall, colour) {
    for (const range of ranges) {
      const seen = range.isStep && range.step % 2 === 0 && visibleRange(range, width);
      if (!seen) continue;
      context.fillStyle = colour("--band");
      context.fillRect(seen[0], 0, seen[1] - seen[0], tall);
    }
  }

  function bands(width, colour) {
    for (const range of ranges) {
      const seen = visibleRange(range, width);
      if (!seen || range.depth >= MOST_REGIONS) continue;
      const [left, right] = seen;
      context.fillStyle = colour(range.isStep ? "--faint" : "--ink");
      if (range.isStep) {
        clipped(shown(range.name), left + 3, BAND / 2, right - left - 6);
      } else {
        const top = BAND + range.depth * REGION;
        context.strokeStyle = colour("--faint");
        context.strokeRect(left + 0.5, top + 0.5, Math.max(1, right - left - 1), REGION - 3);
        clipped(shown(range.name).slice(0, 200), left + 4, top + REGION / 2, right - left - 8);
      }
    }
  }

  // Ticks at round times since the first step began.
  function axis(width, colour) {
    const wanted = (to - from) / Math.max(2, (width - LABEL) / 110);
    const power = 10 ** Math.floor(Math.log10(Math.max(1, wanted)));
    const distance = power * [1, 2, 5, 10].find((one) => power * one >= wanted);
    context.strokeStyle = colour("--line");
    context.fillStyle = colour("--faint");
    for (let tick = Math.ceil(from / distance) * distance; tick < to; tick += distance) {
      const left = Math.round(x(tick)) + 0.5;
      context.beginPath();
      context.moveTo(left, head - AXIS + 3);
      context.lineTo(left, head);
      context.stroke();
      context.fillText(tick < 0 ? `-${time(-tick)}` : time(tick), left + 3, head - AXIS / 2);
    }
  }

  function clipped(text, left, middle, room) {
    if (room < 14) return;
    let told = text;
    if (context.measureText(told).width > room) {
      const signs = [...told];
      let length = Math.max(1, Math.floor((signs.length * room) / context.measureText(told).width) - 1);
      do told = `${signs.slice(0, length).join("")}..`; while (--length >= 1 && context.measureText(told).width > room);
    }
    context.fillText(told, left, middle);
  }

  function paint(one, width, colour, scroll, tall) {
    const { event } = one, [left, top, w, h] = box(one);
    if (left > width || left + w < LABEL || top + h < scroll || top > scroll + tall) return;
    const start = Math.max(left, LABEL), room = Math.min(left + w, width) - start;
    const [letter, fill] = look(event);
    context.fillStyle = fill;
    context.globalAlpha = event.name === "ops" ? 0.55 : 1;
    context.fillRect(start, top, room, h);
    context.globalAlpha = 1;
    // Readable without colour: copies are hatched, Memsets and launches hollow, what waits is crossed.
    context.strokeStyle = colour("--ink");
    if (room > 3) {
      if (event.name === "memcpys" || event.name === "host_syncs") hatch(start, top, room, h, event.name === "host_syncs");
      if (event.name !== "ops") context.strokeRect(start + 0.5, top + 0.5, Math.max(0, room - 1), h - 1);
    }
    if (room > 9) {
      context.fillStyle = event.name === "ops" ? colour("--ink") : "#000000";
      clipped(room > 40 || !letter ? `${letter ? `${letter} ` : ""}${brief(event)}` : letter, start + 3, top + h / 2 + 0.5, room - 4);
    }
    if (event.offends) {
      context.lineWidth = 2;
      context.strokeStyle = colour("--fail");
      context.strokeRect(start - 1, top - 1, Math.max(4, room + 2), h + 2);
      context.lineWidth = 1;
      context.fillStyle = colour("--fail");
      context.beginPath();
      const middle = start + Math.max(2, room / 2);
      context.moveTo(middle - 5, top - 8);
      context.lineTo(middle + 5, top - 8);
      context.lineTo(middle, top - 1);
      context.fill();
    }
    if (event === selected || event === hovered) {
      context.lineWidth = 2;
      context.strokeStyle = colour("--select");
      context.strokeRect(start - 3.5, top - 3.5, Math.max(8, room + 7), h + 7);
      context.lineWidth = 1;
    }
  }

  function hatch(left, top, width, h, crossed) {
    context.save();
    context.beginPath();
    context.rect(left, top, width, h);
    context.clip();
    context.globalAlpha = 0.55;
    context.beginPath();
    for (let offset = -h; offset < width; offset += 6) {
      context.moveTo(left + offset, top + h);
      context.lineTo(left + offset + h, top);
      if (crossed) { context.moveTo(left + offset, top); context.lineTo(left + offset + h, top + h); }
    }
    context.stroke();
    context.restore();
  }

  function arrows(width, colour, scroll, tall) {
    const visible = drawn.filter(({ event }) => event.launch && place.has(event.launch) && event.start + (event.duration || 0) >= from && event.launch.start <= to);
    for (const one of visible) {
      const isChosen = [selected, hovered].some((event) => event && (event === one.event || event === one.event.launch));
      // Of very many nobody could follow one.
      if (!isChosen && visible.length > (one.event.offends ? MOST_ARROWS : 80)) continue;
      if (Math.max(one.lane.top, place.get(one.event.launch).lane.top) < scroll - 400 || Math.min(one.lane.top, place.get(one.event.launch).lane.top) > scroll + tall) continue;
      const [left, top] = box(one), [fromLeft, fromTop, fromWidth, fromHeight] = box(place.get(one.event.launch));
      context.globalAlpha = isChosen ? 1 : 0.45;
      context.strokeStyle = colour(isChosen ? "--select" : one.event.offends ? "--fail" : "--faint");
      context.fillStyle = context.strokeStyle;
      context.beginPath();
      const [x1, y1, x2, y2] = [fromLeft + Math.min(fromWidth / 2, 4), fromTop + fromHeight, left, top];
      if (Math.max(x1, x2) < LABEL || Math.min(x1, x2) > width) continue;
      context.moveTo(x1, y1);
      context.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2 - 3);
      context.stroke();
      context.beginPath();
      context.moveTo(x2 - 3, y2 - 5);
      context.lineTo(x2 + 3, y2 - 5);
      context.lineTo(x2, y2);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  function labels(width, colour) {
    context.fillStyle = colour("--paper");
    context.fillRect(0, 0, LABEL - 2, height);
    for (const lane of lanes) {
      context.fillStyle = colour("--ink");
      clipped(shown(lane.key), 6, lane.top + lane.row / 2, LABEL - 12);
      context.strokeStyle = colour("--line");
      context.beginPath();
      context.moveTo(0, lane.top - GAP / 2 + 0.5);
      context.lineTo(width, lane.top - GAP / 2 + 0.5);
      context.stroke();
    }
  }

  function hit(px, windowY) {
    let best = null;
    if (windowY < head) return null;
    const py = windowY + scroller.scrollTop;
    for (const one of drawn) {
      const [left, top, w, h] = box(one);
      if (py >= top && py <= top + h && px >= left - 2 && px <= left + w + 2 && px >= LABEL)
        if (!best || w < best[1]) best = [one.event, w];
    }
    return best && best[0];
  }

  let drag = null;
  canvas.onpointerdown = (event) => { if (event.button) return; drag = { px: event.offsetX, from, to, moved: false }; canvas.setPointerCapture(event.pointerId); };
  canvas.onpointermove = (event) => {
    if (drag) {
      const shift = ((event.offsetX - drag.px) / (canvas.clientWidth - LABEL)) * (drag.to - drag.from);
      if (Math.abs(event.offsetX - drag.px) > 3) drag.moved = true;
      if (drag.moved) move(drag.from - shift, drag.to - shift);
      return;
    }
    const found = hit(event.offsetX, event.offsetY);
    if (found !== hovered) {
      hovered = found;
      canvas.title = found ? `${shown(found.kind.name).slice(0, 300)}\n${time(found.duration)}` : "";
      draw();
    }
  };
  canvas.onpointerup = (event) => {
    if (drag && !drag.moved) select(hit(event.offsetX, event.offsetY));
    drag = null;
  };
  canvas.onpointerleave = () => { hovered = null; draw(); };
  canvas.addEventListener("wheel", (event) => {
    // Where the picture is taller than its window the wheel scrolls it, and zooms with Ctrl.
    if (spacer.clientHeight > 0 && !event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.shiftKey) move(from + (to - from) * event.deltaY / 1000, to + (to - from) * event.deltaY / 1000);
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, at(Math.max(LABEL, event.offsetX)));
  }, { passive: false });
  canvas.ondblclick = (event) => { const found = hit(event.offsetX, event.offsetY); if (found) fit(found.start, found.start + (found.duration || 1000)); };
  const next = (by) => {
    if (!sequence.length) return;
    const index = selected ? sequence.indexOf(selected) + by : by > 0 ? 0 : sequence.length - 1;
    select(sequence[(index + sequence.length) % sequence.length], true);
  };
  const keys = {
    ArrowLeft: () => move(from - (to - from) / 8, to - (to - from) / 8), ArrowRight: () => move(from + (to - from) / 8, to + (to - from) / 8),
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), 0: () => fit(), n: () => next(1), p: () => next(-1),
    Enter: () => selected && fit(selected.start, selected.start + (selected.duration || 1000)), Escape: () => select(null),
  };
  canvas.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };

  const steps = el("select", { "aria-label": "step", onchange: (event) => {
    const step = profile.details.steps[event.target.value];
    const own = step && ranges.find((range) => range.step === Number(event.target.value) && range.isStep);
    const inside = drawn.filter((one) => one.event.step === Number(event.target.value)).map((one) => one.event);
    if (!step || !inside.length) fit();
    else fit(Math.min(...inside.map((one) => one.start), ...(own ? [own.start_ns] : [])), Math.max(...inside.map((one) => one.start + (one.duration || 0))));
  } }, el("option", { value: "all" }, "all steps"), ...profile.details.steps.map((step, number) => el("option", { value: number }, shown(step.name))));
  let offender = -1;
  const guilty = sequence.filter((one) => one.offends);
  const bar = el("div", { class: "bar" },
    el("button", { type: "button", onclick: () => zoom(0.6), title: "zoom in (+)" }, "zoom in"),
    el("button", { type: "button", onclick: () => zoom(1.6), title: "zoom out (-)" }, "zoom out"),
    el("button", { type: "button", onclick: () => fit(), title: "show all (0)" }, "fit"),
    steps,
    guilty.length ? el("button", { type: "button", id: "offending", onclick: () => {
      offender = (offender + 1) % guilty.length;
      const one = guilty[offender], span = Math.max(one.duration || 0, 2000);
      steps.value = "all";
      fit(Math.min(one.start, one.launch ? one.launch.start : one.start) - span, one.start + 2 * span);
      select(one, true);
    } }, `go to what a check is about (${guilty.length})`) : null,
    el("button", { type: "button", onclick: () => handToPerfetto(profile) }, "open in Perfetto"),
    el("button", { type: "button", onclick: () => saveTrace(profile) }, "save as a trace"),
    el("span", { class: "faint" }, "wheel zooms (with Ctrl where the picture scrolls), drag pans, n and p go from event to event"));
  const used = new Set(drawn.map(({ event }) => look(event)));
  const legend = el("div", { class: "legend" }, ...[...used].map(([letter, colour, meaning]) => {
    const swatch = el("i", {}, letter);
    swatch.style.background = colour;
    return el("span", {}, swatch, meaning);
  }), guilty.length ? el("span", { class: "bad" }, "red frame and arrowhead: a failed check is about it; it tells of one step") : null,
    untimed ? el("span", { class: "unsure" }, `${untimed} event${untimed === 1 ? "" : "s"} without a time in the trace ${untimed === 1 ? "is" : "are"} not drawn`) : null);
  select(null);
  fit();
  new ResizeObserver(draw).observe(canvas);
  choose.redraw = draw;
  if (!drawn.length) return el("div", { class: "timeline" }, el("p", { class: "event" }, "Nothing to draw: the trace has no event with a time in its steps."));
  choose.goTo = (kind) => {
    const one = sequence.find((event) => event.kind === kind);
    if (one) { select(one, true); scroller.scrollIntoView({ block: "nearest" }); }
  };
  return el("div", { class: "timeline" }, bar, scroller, legend, panel);
}

// Says of each region how many others are around it; returns the number of rows that they take.
function nest(regions) {
  const open = [];
  let deepest = 0;
  for (const one of [...regions].sort((a, b) => a.start_ns - b.start_ns || (b.duration_ns ?? 0) - (a.duration_ns ?? 0))) {
    while (open.length && open[open.length - 1] <= one.start_ns) open.pop();
    one.depth = open.length;
    deepest = Math.max(deepest, one.depth + 1);
    open.push(one.duration_ns === null ? Infinity : one.start_ns + one.duration_ns);
  }
  return Math.min(deepest, MOST_REGIONS);
}

// Of long lists the spread of arguments would not do.
function minmax(numbers) {
  let low = Infinity, high = -Infinity;
  for (const one of numbers) { low = Math.min(low, one); high = Math.max(high, one); }
  return [low, high];
}

function describe(event) {
  const { kind } = event, told = [];
  const add = (name, value) => { if (value !== null && value !== undefined && value !== "") told.push([name, value]); };
  add("step", event.stepName);
  add("time", time(event.duration));
  add("starts at", time(event.start));
  if (event.launch) add("launched by", `${event.launch.kind.name}, ${time(event.start - event.launch.start)} before it ran`);
  add("ops around it", (kind.launched_by || kind.inside || []).join(" > "));
  add("regions", kind.regions === null ? "the trace leaves open which" : kind.regions.join(" > "));
  if (event.name === "kernels") {
    add("role", kind.role);
    add("library", kind.library);
    add("data types", (kind.dtypes || []).join(", "));
    add("tensor cores", kind.tensor_cores);
    add("attention", kind.attention_backend);
    if (kind.grid && kind.block) add("launched as", `${kind.grid.join(" x ")} blocks of ${kind.block.join(" x ")} threads, ${count(kind.registers_per_thread)} registers a thread, ${bytes(kind.shared_memory_bytes)} shared memory`);
    if (kind.theoretical_occupancy !== null) add("theoretical occupancy", `${(kind.theoretical_occupancy * 100).toFixed(1)}%, limited by ${(kind.occupancy_limited_by || []).join(", ")}`);
  }
  if (event.name === "memcpys") { add("direction", kind.kind); add("bytes", bytes(kind.bytes)); add("pageable", kind.pageable === null ? null : kind.pageable ? "yes" : "no"); }
  if (event.name === "memsets") add("bytes", bytes(kind.bytes));
  add("where", laneName(event));
  return [
    el("div", {}, el("b", {}, `${NOUNS[event.name]}${event.offends ? ", of a failed check" : ""}: `), el("span", { class: "mono", id: "event-name" }, shown(kind.name))),
    el("dl", {}, ...told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, shown(value))])),
  ];
}

// A trace for other programs, made of what the report holds

function traceOf(profile) {
  const rows = [], [events] = eventsOf(profile);
  let flow = 0;
  for (const event of events) {
    if (event.start === null) continue;
    const gpu = ON_GPU.includes(event.name), [pid, tid] = gpu ? [`GPU ${event.kind.device ?? "?"}`, `stream ${event.kind.stream ?? "?"}`] : ["CPU", laneName(event)];
    rows.push({ ph: "X", cat: event.name, name: event.kind.name, pid, tid, ts: event.start / 1000, dur: (event.duration || 0) / 1000, args: event.kind });
    if (event.launch) {
      const id = ++flow, from = event.launch;
      rows.push({ ph: "s", id, name: "launch", cat: "launch", pid: "CPU", tid: laneName(from), ts: from.start / 1000 });
      rows.push({ ph: "f", bp: "e", id, name: "launch", cat: "launch", pid, tid, ts: event.start / 1000 });
    }
  }
  for (const step of profile.details.steps)
    for (const range of step.ranges)
      rows.push({ ph: "X", cat: "range", name: range.name, pid: "CPU", tid: "steps and regions", ts: range.start_ns / 1000, dur: (range.duration_ns || 0) / 1000 });
  return JSON.stringify({ traceEvents: rows });
}

// Perfetto's own protocol: its page, opened beside this one, is sent the trace by the browser; no server sees it.
function handToPerfetto(profile) {
  const origin = "https://ui.perfetto.dev", other = window.open(origin, "_blank");
  if (!other) { saveTrace(profile); return; }
  const buffer = new TextEncoder().encode(traceOf(profile)).buffer;
  const timer = setInterval(() => other.postMessage("PING", origin), 50);
  window.addEventListener("message", function answer(event) {
    if (event.origin !== origin || event.data !== "PONG") return;
    clearInterval(timer);
    window.removeEventListener("message", answer);
    other.postMessage({ perfetto: { buffer, title: shown(profile.id).slice(0, 200) } }, origin);
  });
  setTimeout(() => clearInterval(timer), 30000);
}

function saveTrace(profile) {
  const link = el("a", { href: URL.createObjectURL(new Blob([traceOf(profile)], { type: "application/json" })), download: "trace.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// One profile

function kindsTable(profile, choose) {
  const groups = new Map();
  for (const step of profile.details.steps)
    for (const name of CLASSES) {
      const columns = step[name];
      if (!columns) continue;
      columns.kinds.forEach((number, index) => {
        const kind = profile.details.kinds[name][number];
        if (!groups.has(kind)) groups.set(kind, { kind, name, number: 0, time: null });
        const group = groups.get(kind);
        group.number += 1;
        if (columns.duration_ns[index] !== null) group.time = (group.time || 0) + columns.duration_ns[index];
      });
    }
  const rows = [...groups.values()].sort((a, b) => (b.time || 0) - (a.time || 0));
  const steps = profile.details.steps.length;
  const main = (name) => name !== "ops" && name !== "calls";
  const what = ({ kind, name }) => name === "kernels" ? kind.role : name === "memcpys" ? `${NOUNS[name]} ${kind.kind || ""} ${bytes(kind.bytes)}` : NOUNS[name];
  return table([
    ["name", (row) => row.kind.name, { name: true }],
    ["what", what],
    ["tensor cores", (row) => row.kind.tensor_cores || ""],
    [`count in ${steps} step${steps === 1 ? "" : "s"}`, (row) => row.number, { number: true }],
    ["time", (row) => time(row.time), { number: true, key: (row) => row.time }],
    ["launched by", (row) => (row.kind.launched_by || row.kind.inside || []).join(" > ") || "(no op)", { name: true }],
  ], rows, {
    kind: "kinds",
    text: (row) => `${main(row.name) ? "" : "\u0000"}${row.kind.name} ${what(row)} ${(row.kind.launched_by || row.kind.inside || []).join(" ")}`,
    pick: (row) => choose.goTo && choose.goTo(row.kind),
    filled: () => choose.filter && choose.filter(),
  });
}

function facts(profile) {
  const told = [
    ["kernels", count(profile.kernels)], ["copies", count(profile.memcpys)], ["Memsets", count(profile.memsets)], ["launches", count(profile.launches)],
    ["host syncs", count(profile.host_syncs)], ["ops", count(profile.ops)], ["GPU time", time(profile.gpu_time_ns)],
    ["tensor cores", count(profile.tensor_cores)], ["ledger", profile.ledger || "not asked"],
  ];
  return el("div", { class: "cards" }, ...told.map(([name, value]) => el("div", { class: "card" }, el("b", {}, shown(value)), name)));
}

function environment(profile) {
  const { environment: where } = profile;
  const told = [where.devices.join(", ") || "no GPU", where.compute_capability && `compute capability ${where.compute_capability}`, where.cuda && `CUDA ${where.cuda}`, where.rocm && `ROCm ${where.rocm}`, where.torch && `torch ${where.torch}`];
  if (profile.replayed) told.push(`replayed: recorded on ${profile.replayed.from}`);
  return el("p", { class: "faint" }, shown(told.filter(Boolean).join(", ")));
}

function profileView(profile, checks) {
  const choose = {}, marked = checks.filter((one) => one.profile === profile.id && one.outcome !== "pass").flatMap((one) => one.evidence);
  const parts = [el("h3", {}, "profile ", el("span", { class: "mono" }, shown(profile.id).slice(0, 400))), environment(profile), facts(profile)];
  for (const text of profile.incomplete) parts.push(el("p", { class: "unsure" }, `incomplete: ${shown(text)}`));
  for (const one of profile.warnings) parts.push(el("p", { class: "unsure" }, `warning: ${shown(one.message)}`));
  if (!profile.details) return el("section", { class: "profile" }, ...parts, el("p", { class: "faint" }, "The report was made without events."));
  const kinds = kindsTable(profile, choose);
  // Ops and calls are many: they stand there if they are searched for, or if there is nothing else.
  const isMain = (row) => !row.dataset.text.startsWith("\u0000");
  const onlyOps = ![...kinds.querySelectorAll("tbody tr")].some(isMain);
  const [search, filter] = searchBox(kinds, "search names, ops, calls and roles", (row) => onlyOps || isMain(row));
  choose.filter = filter;
  filter();
  parts.push(el("h3", {}, "Timeline"), el("p", { class: "faint" },
    "Above what the CPU called, below what the GPU ran; an arrow leads from a launch to what it started. Bands are steps as the CPU took them: the GPU runs later."));
  parts.push(timeline(profile, marked, choose), el("h3", {}, "What ran on the GPU, and what waited for it"), search, kinds);
  current.push(choose);
  return el("section", { class: "profile" }, ...parts);
}

function checkView(check, test) {
  const asked = Object.entries(check.arguments).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(", ");
  const where = check.at.length ? ` at ${check.at.map((one) => `${one.file}:${one.line}`).join(", ")}` : "";
  const parts = [el("div", {}, verdict(check.outcome), " ", el("code", {}, shown(`${check.assertion}(${asked})`).slice(0, 500)),
    el("span", { class: "faint" }, shown(`${check.asked_by === "test" ? "" : ` by ${check.asked_by}`}${where}`)),
    check.outcome !== "pass" && ["pass", "expected failure"].includes(test.verdict) ? el("b", {}, " - the test expects this") : null)];
  if (check.guess.length) parts.push(el("h3", {}, "guess against seen"), table([
    ["role", (row) => row.role], ["guess", (row) => row.guessed ?? "-"],
    ["seen", (row) => `${row.exact ? "" : "at least "}${row.seen}`, { number: true, key: (row) => row.seen }],
    ["", (row) => (row.wrong ? verdict("fail", ": wrong") : "")],
  ], check.guess));
  if (check.changes.length) parts.push(el("h3", {}, "what changed against the ledger"), table([
    ["class", (row) => row.class.replace("_", " ")], ["change", (row) => row.words],
    ["only in the ledger", (row) => row.before.map((one) => `${one.count} x ${one.words}`).join("; ")], ["only in the step", (row) => row.after.map((one) => `${one.count} x ${one.words}`).join("; ")],
  ], check.changes));
  if (check.message) parts.push(el("pre", {}, lines(check.message)));
  return el("div", {}, ...parts);
}

// The page

const current = [];
let opened = null;
const detail = el("section", { id: "detail" });

function show(test, goThere) {
  opened = test;
  document.querySelectorAll("#tests tbody tr").forEach((row) => row.classList.toggle("open", row.dataset.id === test.id));
  current.length = 0;
  const parts = [el("h2", { tabindex: "-1" }, verdict(test.verdict, test.replayed ? ", replayed" : ""), " ", el("span", { class: "mono" }, shown(test.id).slice(0, 400)))];
  if (test.at) parts.push(el("p", { class: "faint" }, shown(`${test.at.file}:${test.at.line}`)));
  const covered = test.checks.some((one) => one.message && test.message.includes(one.message));
  if (test.message && !covered) parts.push(el("pre", {}, lines(test.message)));
  for (const check of test.checks) parts.push(checkView(check, test));
  for (const id of test.profiles) if (profiles.has(id)) parts.push(profileView(profiles.get(id), test.checks));
  if (!test.profiles.length) parts.push(el("p", { class: "faint" }, "No profile."));
  detail.replaceChildren(...parts);
  current.forEach((one) => one.redraw && one.redraw());
  if (goThere) {
    detail.scrollIntoView({ block: "start" });
    detail.querySelector("h2").focus({ preventScroll: true });
  }
}

// Why a test did not pass, in a line: of several checks together, what each of them found.
function found(test) {
  const headline = test.message.split("\n")[0];
  const told = test.checks.filter((one) => one.outcome !== "pass" && one.message && test.message.includes(one.message)).map((one) => one.headline);
  const several = [...new Set(told)].filter((one) => !headline.includes(one));
  return several.length ? `${headline}: ${several.join("; ")}` : headline;
}

// The folders that all ids begin with, which say nothing.
function commonFolder(ids) {
  let common = ids.length > 1 ? ids[0].slice(0, ids[0].split("::")[0].lastIndexOf("/") + 1) : "";
  for (const id of ids) while (!id.startsWith(common)) common = common.slice(0, common.slice(0, -1).lastIndexOf("/") + 1);
  return common === "/" ? "" : common;
}

function start() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paint = (isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    current.forEach((one) => one.redraw && one.redraw());
  };
  const theme = el("button", { type: "button", onclick: () => paint(document.documentElement.dataset.theme !== "dark") }, "light / dark");
  dark.onchange = () => paint(dark.matches);
  paint(dark.matches);
  const made = report.provenance;
  const provenance = [made.date, `pytest-kernelprof ${made.pytest_kernelprof}`, made.commit && `commit ${made.commit.slice(0, 12)}`, report.replayed && `${report.replayed} replayed`];
  const verdicts = Object.entries(report.verdicts).filter(([, number]) => number);
  const rank = ["fail", "error", "not measured", "pass", "nothing asked", "expected failure", "skipped"];
  // A row for each profile of a test: each has numbers of its own.
  const rows = report.tests.flatMap((test) => (test.profiles.length ? test.profiles : [null]).map((id) => ({ test, profile: profiles.get(id) || null })));
  const common = commonFolder(report.tests.map((test) => test.id));
  const of = (name) => ({ profile }) => (profile ? profile[name] : "");
  const label = ({ test, profile }) => test.id.slice(common.length) + (profile && (test.profiles.length > 1 || profile.name !== "1") ? ` (${profile.name})` : "");
  const why = ["why", ({ test }) => el("span", { class: "some" }, shown(found(test))), { name: true, key: ({ test }) => found(test) }];
  let refilter = null;
  const tests = table([
    ["test", (row) => testName(label(row)), { name: true, key: label }],
    ["verdict", ({ test }) => verdict(test.verdict, test.replayed ? ", replayed" : ""), { key: ({ test }) => rank.indexOf(test.verdict) }],
    ...(report.tests.some(found) ? [why] : []),
    ...[["kernels", "kernels"], ["copies", "memcpys"], ["Memsets", "memsets"], ["launches", "launches"], ["syncs", "host_syncs"], ["ops", "ops"]].map(([header, name]) =>
      [header, (row) => count(of(name)(row)), { number: true, key: ({ profile }) => (profile ? profile[name] : null) }]),
    ["GPU time", ({ profile }) => (profile ? time(profile.gpu_time_ns) : ""), { number: true, key: ({ profile }) => (profile ? profile.gpu_time_ns : null) }],
    ["tensor cores", (row) => count(of("tensor_cores")(row))],
    ["ledger", ({ profile }) => (profile ? profile.ledger || "not asked" : "")],
  ], rows, { id: "tests", pick: ({ test }) => show(test, true), text: (row) => `${row.test.id} ${row.test.verdict} ${found(row.test)}`,
    filled: () => { mark(); if (refilter) refilter(); } });
  function mark() {
    document.querySelectorAll("#tests tbody tr").forEach((row) => row.classList.toggle("open", opened !== null && row.dataset.id === opened.id));
  }
  const [search, filter] = searchBox(tests, "search tests");
  refilter = filter;
  const devices = [...new Set(report.profiles.map((one) => one.environment.devices.join(", ") || "no GPU"))];
  document.body.append(
    el("header", {}, el("h1", {}, "kernelprof ", verdict(report.verdict)), el("span", { class: "faint" }, shown([...devices.slice(0, 3), ...provenance.filter(Boolean)].join(", "))), el("span", { class: "tools" }, theme)),
    el("main", {},
      el("div", { class: "cards" }, ...verdicts.map(([word, number]) => el("div", { class: "card" }, el("b", {}, String(number)), verdict(word))), el("div", { class: "card" }, el("b", {}, String(report.profiles.length)), "profiles")),
      ...report.problems.map((text) => el("p", { class: "bad" }, shown(text))),
      ...report.notes.map((text) => el("p", { class: "faint" }, shown(text))),
      el("h2", {}, "Tests"),
      ...(rows.length ? [el("p", { class: "faint" }, "Click a test to see its checks and profiles; click a header to sort."), search, tests] : [el("p", { id: "tests" }, "No test.")]), detail));
  const worst = [...report.tests].sort((a, b) => rank.indexOf(a.verdict) - rank.indexOf(b.verdict))[0];
  if (worst) show(worst, false);
}

start();
})();
