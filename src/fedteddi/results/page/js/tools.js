// What all sections share: the data, the state, elements, controls, colours, a chart.
const report = JSON.parse(document.getElementById("report").textContent);
const state = {
  condition: 0, frame: "all", accuracy: "balanced", axis: "rounds", seed: null, band: true, off: new Set(),
  pair: [null, null], round: 0, told: null, decider: null, classOf: null, order: "number", detail: null,
};
const sections = []; // [what it depends on, draw]
const SHARE = 10000;

function el(tag, attributes, ...children) {
  const svg = ["svg", "g", "circle", "path", "line", "text", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const body = (id) => document.querySelector(`#${id} .body`);
const condition = () => report.conditions[state.condition];
const groups = () => condition().groups;
const group = (name) => groups().find((one) => one.name === name);
const frames = () => (state.frame === "all" ? condition().frames : [state.frame]);
const seedsOf = (name) => Object.keys(group(name).runs);
const runOf = (name, seed) => group(name)?.runs[seed];
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const colour = (name) => (report.colours[name] || ["#555555", "#bbbbbb"])[dark() ? 1 : 0];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => window.innerWidth < 720;
const digits = (value, most = 3) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(most))).replace("-", "−"));
const mega = (hz) => `${digits(hz / 1e6)} MHz`;
const percent = (share, places = 1) => `${(100 * share).toFixed(places)} %`;
const plural = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

// Okabe and Ito's colours and two more: to be told apart by colour-blind readers, as far as ten colours can be.
const CLASSES_BY_NIGHT = ["#4FA3DF", "#E69F00", "#2DBE95", "#E39CC6", "#9AD5F3", "#F07A32", "#F0E442", "#B8568A", "#7FD1C4", "#B9AE5A"];
const CLASSES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#CDB900", "#882255", "#44AA99", "#6B6423"];
function classColour(number) {
  const all = condition().classes;
  return all <= CLASSES.length ? (dark() ? CLASSES_BY_NIGHT : CLASSES)[number] : `hsl(${Math.round((360 * number * 0.381966) % 360)} 62% ${dark() ? 62 : 46}%)`;
}

// A frame's samples of a client by class: [[class, samples], …].
function held(frame, index, seed = state.seed) {
  const table = report.pool[condition().data[seed]];
  const flat = table?.[frame]?.[index] || [];
  return flat.reduce((pairs, value, at) => (at % 2 ? (pairs[pairs.length - 1].push(value), pairs) : [...pairs, [value]]), []);
}
function newClasses(frame, seed = state.seed) {
  const table = report.pool[condition().data[seed]];
  const seen = (last) => new Set((table || []).slice(0, last + 1).flatMap((clients) => clients.flatMap((flat) => flat.filter((_, at) => at % 2 === 0))));
  const before = frame ? seen(frame - 1) : new Set();
  return frame ? [...seen(frame)].filter((one) => !before.has(one)).sort((a, b) => a - b) : [];
}
// The classes that any client of this seed ever holds.
function classesHeld(seed = state.seed) {
  const table = report.pool[condition().data[seed]] || [];
  return [...new Set(table.flatMap((clients) => clients.flatMap((flat) => flat.filter((_, at) => at % 2 === 0))))].sort((a, b) => a - b);
}

function field(label, control) {
  return el("label", { class: "field" }, el("span", {}, label), control);
}
function choice(label, options, chosen, change, id) {
  const made = el("select", { id, "aria-label": label, onchange: (event) => change(event.target.value) },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) ? "" : null }, text)));
  return field(label, made);
}
function segments(label, options, chosen, change, id) {
  const made = el("div", { class: "seg", role: "group", "aria-label": label, id },
    options.map(([value, text]) => el("button", {
      type: "button", "data-value": String(value), "aria-pressed": String(value === chosen), onclick: () => change(value),
    }, text)));
  return el("div", { class: "field" }, el("span", {}, label), made);
}
function absent(text) {
  return el("p", { class: "absent" }, text);
}
function set(changes, ...only) {
  Object.assign(state, changes);
  draw(...only);
}
function draw(...only) {
  for (const [name, paint] of sections) if (!only.length || only.includes(name)) paint();
}

// A chart in this page's type and colours.
function chart(where, traces, layout, height) {
  const axis = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true, fixedrange: narrow() };
  const base = {
    height: height || (narrow() ? 300 : 400), margin: { l: 8, r: 12, t: 22, b: 8 }, showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { family: css("--font"), size: narrow() ? 12 : 13, color: css("--soft") },
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { family: css("--font"), color: css("--ink"), size: 13 }, align: "left" },
  };
  const merged = { ...base, ...layout };
  merged.xaxis = { ...axis, ...(layout.xaxis || {}) };
  merged.yaxis = { ...axis, ...(layout.yaxis || {}) };
  return Plotly.react(where, traces, merged, { displayModeBar: false, responsive: true, doubleClick: "reset" });
}
const titled = (text) => ({ text, font: { size: narrow() ? 12 : 13 }, standoff: 8 });
function boundaries(place) {
  const found = { shapes: [], annotations: [] };
  for (const frame of condition().frames.slice(1)) {
    const x = place(frame);
    found.shapes.push({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, layer: "above", line: { color: css("--soft"), width: 1, dash: "dot" } });
    found.annotations.push({ x, yref: "paper", y: 1, xanchor: "left", yanchor: "bottom", showarrow: false, text: `frame ${frame}`, font: { size: 11, color: css("--soft") } });
  }
  return found;
}
const startOf = (frame) => condition().lengths.slice(0, frame).reduce((sum, length) => sum + length, 0);
function faded(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}
