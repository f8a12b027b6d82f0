// Accuracy over rounds, seconds, joules or bits: the mean over seeds with its standard deviation.
const AXES = { rounds: "rounds", seconds: "modelled seconds", joules: "energy in J", bits: "uplink in bit" };
const ACCURACIES = {
  balanced: "balanced accuracy: mean over the classes seen so far", global: "global accuracy: weighted by the frame's class mix",
  old: "accuracy on classes from before the frame", new: "accuracy on classes that came with the frame",
};
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "x", "star", "pentagon", "hexagon"];

// The runs whose mean is drawn: finished ones, or the one that has come furthest.
function averaged(one) {
  const runs = Object.values(one.runs).filter((run) => run.curve.frame.length);
  const finished = runs.filter((run) => run.finished);
  if (finished.length) return finished;
  return runs.sort((a, b) => b.curve.frame.length - a.curve.frame.length).slice(0, 1);
}
function xOf(curve, at) {
  const frame = curve.frame[at];
  if (state.axis === "rounds") return curve.round[at] + (state.frame === "all" ? startOf(frame) : 0);
  const begins = state.frame === "all" ? 0 : curve[state.axis][curve.frame.indexOf(frame)];
  return curve[state.axis][at] - begins;
}
function meanCurve(one) {
  const runs = averaged(one);
  if (!runs.length || (state.axis !== "rounds" && !runs[0].curve[state.axis])) return null;
  const first = runs[0].curve, wanted = new Set(frames()), rows = [];
  first.frame.forEach((frame, at) => {
    if (!wanted.has(frame)) return;
    const own = runs.map((run) => run.curve).filter((curve) => curve.frame[at] === frame && curve.round[at] === first.round[at]);
    const values = own.map((curve) => curve[state.accuracy][at]).filter((value) => value !== null).map((value) => value / SHARE);
    if (!values.length) return;
    const mean = values.reduce((a, b) => a + b) / values.length;
    const sd = values.length > 1 ? Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1)) : 0;
    const x = own.reduce((sum, curve) => sum + xOf(curve, at), 0) / own.length;
    rows.push({ x, mean, sd, frame, round: first.round[at], n: values.length });
  });
  return rows.length ? rows : null;
}
function curveTraces(one, place) {
  const rows = state.off.has(one.name) ? null : meanCurve(one);
  if (!rows) return [];
  const c = colour(one.name), x = rows.map((row) => row.x), traces = [];
  if (state.band && rows.some((row) => row.sd > 0)) {
    const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", type: "scatter" };
    traces.push({ ...edge, y: rows.map((row) => row.mean - row.sd) });
    traces.push({ ...edge, y: rows.map((row) => row.mean + row.sd), fill: "tonexty", fillcolor: faded(c, 0.14), name: `${one.name} band` });
  }
  const starts = rows.map((row) => (row.frame > condition().frames[0] && row.round === 0));
  traces.push({
    x, y: rows.map((row) => row.mean), name: one.name, type: "scatter", mode: "lines+markers",
    line: { color: c, width: one.name.startsWith("fedteddi") ? 2.8 : 1.9, dash: one.bound ? "dash" : "solid" },
    marker: { color: c, symbol: starts.map((start) => SYMBOLS[place % SYMBOLS.length] + (start ? "-open" : "")), size: starts.map((start) => (start ? 9 : 6)), maxdisplayed: 40 },
    text: rows.map((row) => `frame ${row.frame}, round ${row.round}<br>${percent(row.mean)}${row.n > 1 ? ` ± ${percent(row.sd)} (${row.n} seeds)` : " (one seed)"}`),
    hovertemplate: `<b>${one.name.replace(/</g, "&lt;")}</b><br>%{text}<extra></extra>`,
  });
  return traces;
}
function chips(redraw) {
  const toggle = (name) => {
    if (state.off.has(name)) state.off.delete(name); else state.off.add(name);
    redraw();
  };
  const made = groups().map((one) => el("button", {
    type: "button", class: `chip${one.bound ? " bound" : ""}`, style: `--c:${colour(one.name)}`, "data-scheduler": one.name,
    "aria-pressed": String(!state.off.has(one.name)), onclick: () => toggle(one.name),
  }, el("i"), one.name));
  if (made.length > 3) {
    const all = state.off.size === 0;
    made.push(el("button", { type: "button", class: "chip", onclick: () => { state.off = new Set(all ? groups().map((one) => one.name) : []); redraw(); } }, all ? "none" : "all"));
  }
  return el("div", { class: "chips", role: "group", "aria-label": "Lines" }, made);
}
sections.push(["accuracy", function paintAccuracy() {
  const where = body("accuracy");
  if (!where.firstChild) where.append(el("p", { class: "say" }), el("div", { class: "row" }), el("div", { class: "legend" }), el("div", { class: "plot", id: "plot-accuracy" }), el("p", { class: "caption" }));
  const [say, row, legend, plot, caption] = where.children;
  say.textContent = `Test ${ACCURACIES[state.accuracy]}. Markers are evaluations; open ones begin a frame with new data.`;
  row.replaceChildren(
    segments("Over", Object.keys(AXES).map((name) => [name, name]), state.axis, (axis) => set({ axis }, "accuracy"), "axis"),
    segments("Band", [[true, "± sd"], [false, "off"]], state.band, (band) => set({ band }, "accuracy"), "band"));
  legend.replaceChildren(chips(() => draw("accuracy", "fairness")));
  const traces = groups().flatMap(curveTraces);
  const marks = state.axis === "rounds" && state.frame === "all" ? boundaries(startOf) : {};
  chart(plot, traces, {
    ...marks, hovermode: "closest",
    xaxis: { title: titled(state.axis === "rounds" ? (state.frame === "all" ? "rounds since the run began" : `rounds of frame ${state.frame}`) : AXES[state.axis]), rangemode: "tozero", tickformat: state.axis === "rounds" ? "d" : "~s" },
    yaxis: { title: titled(`${state.accuracy} accuracy`), tickformat: ".0%" },
  });
  const seeds = condition().seeds.length;
  const words = [seeds > 1 ? `Lines: mean over ${seeds} seeds; bands: standard deviation.` : "One seed: no band."];
  if (state.axis !== "rounds") words.push("Means are taken at equal rounds, of accuracy and of what was spent until then.");
  if (state.axis !== "rounds" && groups().some((one) => one.bound)) words.push("Bounds have no limits, so what they spend means nothing: they are drawn over rounds only.");
  if (["old", "new"].includes(state.accuracy)) words.push("Frames without such classes have no line.");
  if (!traces.length) words.push(groups().every((one) => state.off.has(one.name)) ? "All lines are switched off." : "No run has been evaluated here.");
  caption.textContent = words.join(" ");
}]);
