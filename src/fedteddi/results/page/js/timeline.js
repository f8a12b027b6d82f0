// Who was scheduled when, and how evenly: a row for each client, ranked shares, Jain's index.
const LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz";
const ORDERS = { number: "number", most: "most scheduled first", fresh: "new classes first" };

function clientOrder(levels) {
  const order = levels.map((_, index) => index);
  if (state.order === "most") {
    const sums = levels.map((row) => row.reduce((a, b) => a + b, 0));
    order.sort((a, b) => sums[b] - sums[a]);
  } else if (state.order === "fresh") {
    const has = order.map((index) => frames().some((frame) => { const fresh = new Set(newClasses(frame)); return held(frame, index).some(([number]) => fresh.has(number)); }));
    order.sort((a, b) => Number(has[b]) - Number(has[a]));
  }
  return order;
}
function timelineChart(where, name) {
  const one = condition(), run = runOf(name, state.seed), bins = one.bins;
  const lengths = one.lengths, frameOf = (start) => { let sum = 0, at = 0; while (sum + lengths[at] <= start) sum += lengths[at++]; return at; };
  const kept = bins.map((_, at) => at).filter((at) => state.frame === "all" || frameOf(bins[at][0]) === state.frame);
  const levels = run.timeline.map((row) => kept.map((at) => (row[at] === "-" ? null : LEVELS.indexOf(row[at]) / 35)));
  const order = clientOrder(levels), offset = (at) => (state.frame === "all" ? 0 : startOf(frameOf(bins[at][0])));
  const label = (at) => (bins[at][1] - bins[at][0] > 1 ? `rounds ${bins[at][0] + 1 - offset(at)}–${bins[at][1] - offset(at)}` : `round ${bins[at][1] - offset(at)}`);
  const x = kept.map((at) => (bins[at][0] + bins[at][1] + 1) / 2 - offset(at));
  const marks = state.frame === "all" ? boundaries((frame) => startOf(frame) + 0.5) : {};
  chart(where, [{
    type: "heatmap", x, y: order.map((_, at) => at), z: order.map((index) => levels[index]), zmin: 0, zmax: 1, xgap: kept.length < 90 ? 1 : 0, ygap: order.length < 60 ? 1 : 0,
    colorscale: [[0, css("--empty")], [1, colour(name)]], showscale: false, name,
    text: order.map((index) => kept.map((at) => `client ${one.clients[index]}, frame ${frameOf(bins[at][0])}<br>${label(at)}: ${bins[at][1] - bins[at][0] > 1 ? `scheduled in ${percent(levels[index][kept.indexOf(at)] || 0, 0)}` : levels[index][kept.indexOf(at)] ? "scheduled" : "not scheduled"}`)),
    hovertemplate: "%{text}<extra></extra>",
  }], {
    ...marks,
    xaxis: { title: titled(state.frame === "all" ? "rounds since the run began" : `rounds of frame ${state.frame}`), showgrid: false, zeroline: false, tickformat: "d" },
    yaxis: { title: titled("client"), showgrid: false, zeroline: false, autorange: "reversed", tickvals: order.map((_, at) => at).filter((at) => at % Math.ceil(order.length / 12) === 0), ticktext: order.filter((_, at) => at % Math.ceil(order.length / 12) === 0).map((index) => one.clients[index]) },
  }, Math.max(190, Math.min(620, 70 + order.length * (narrow() ? 8 : 9.5))));
}
sections.push(["timeline", function paintTimeline() {
  const where = body("timeline");
  checkPair();
  const names = state.pair.filter((name) => name !== null);
  if (!names.length || !condition().bins.length) return where.replaceChildren(absent("No run here schedules clients."));
  if (!where.querySelector(".plot")) where.replaceChildren(el("p", { class: "say" }), el("div", { class: "row" }), ...[0, 1].map((at) => el("div", {}, el("h3", {}), el("div", { class: "plot", id: `plot-timeline-${at}` }))));
  const [say, row, ...panels] = where.children;
  say.textContent = `A row for each client, a column for each round: filled when it was scheduled, seed ${state.seed}. Both rules see the same data and channels.`
    + (condition().bins.some(([from, to]) => to - from > 1) ? " Columns stand for several rounds: the stronger the colour, the more often." : "")
    + (names.some((name) => runOf(name, state.seed)?.timeline?.[0]?.includes("-")) ? " Blank columns are rounds that were not played yet." : "");
  row.replaceChildren(...pairControls("timeline"), choice("Rows by", Object.entries(ORDERS), state.order, (order) => set({ order }, "timeline"), "rows-by"));
  panels.forEach((panel, at) => {
    const name = names[at], run = name && runOf(name, state.seed);
    panel.hidden = !name;
    if (!name) return;
    panel.firstChild.textContent = run?.timeline ? name : `${name}: no run with seed ${state.seed}`;
    if (run?.timeline) timelineChart(panel.lastChild, name); else Plotly.purge(panel.lastChild);
  });
}]);

function fairRows() {
  const one = condition(), wanted = frames().map((frame) => one.frames.indexOf(frame));
  return groups().filter((item) => !state.off.has(item.name)).map((item) => {
    const parts = Object.values(item.runs).flatMap((run) => wanted.map((at) => run.participation?.[at])).filter(Boolean);
    const mean = (key) => (parts.length ? parts.reduce((sum, part) => sum + part[key], 0) / parts.length : null);
    return { item, parts, mean };
  }).filter((row) => row.parts.length);
}
sections.push(["fairness", function paintFairness() {
  const where = body("fairness"), rows = fairRows();
  if (!where.querySelector(".plot")) where.replaceChildren(el("p", { class: "say" }), el("div", {}), el("div", { class: "plot", id: "plot-fairness" }), el("div", { class: "scroll" }));
  const [say, legend, plot, scroll] = where.children, count = condition().num_clients;
  say.textContent = `In which share of a frame's rounds clients were scheduled, those most often scheduled first; mean over seeds${frames().length > 1 ? " and frames" : ""}. A flat line is fair; that is not what every rule is for.`;
  legend.replaceChildren(chips(() => draw("accuracy", "fairness")));
  const traces = rows.map(({ item, parts }) => {
    const length = Math.min(...parts.map((part) => part.shares.length));
    const y = [...Array(length).keys()].map((at) => parts.reduce((sum, part) => sum + part.shares[at], 0) / parts.length);
    return { type: "scatter", mode: "lines", line: { shape: "hv", color: colour(item.name), width: 2.2, dash: item.bound ? "dash" : "solid" }, name: item.name, customdata: [...y, 0].map((_, at) => Math.min(count, Math.round(length > 1 ? 1 + (at * (count - 1)) / (length - 1) : 1))), x: [...y.map((_, at) => (length > 1 ? 0.5 + (at * (count - 1)) / (length - 1) : 0.5)), count + 0.5], y: [...y, y[y.length - 1]], hovertemplate: `<b>${item.name.replace(/</g, "&lt;")}</b><br>rank %{customdata}: %{y:.0%} of the rounds<extra></extra>` };
  });
  chart(plot, traces, { xaxis: { title: titled("clients, ranked by participation") }, yaxis: { title: titled("share of rounds"), tickformat: ".0%", range: [0, 1.03] } }, narrow() ? 240 : 300);
  const head = ["scheduler", "clients a round", "with new classes", "never scheduled", "rounds without anyone", "Jain's index"];
  scroll.replaceChildren(el("table", { id: "fairness-table" }, el("thead", {}, el("tr", {}, head.map((text, at) => el("th", { class: at ? null : "text" }, text)))),
    el("tbody", {}, rows.map(({ item, mean }) => el("tr", {}, el("td", { class: "text" }, item.name), el("td", {}, mean("clients").toFixed(1)), el("td", {}, mean("new").toFixed(1)), el("td", {}, `${mean("never").toFixed(1)} of ${count}`), el("td", {}, mean("empty").toFixed(1)), el("td", {}, mean("jain").toFixed(2)))))),
    el("p", { class: "caption" }, "Means over frames and seeds. Jain's index of the numbers of rounds: 1 if all clients have as many, 1/N if one has them all."));
}]);
