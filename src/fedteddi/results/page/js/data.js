// Who holds what in each frame, and which of it is new.
sections.push(["data", function paintData() {
  const where = body("data"), one = condition();
  const table = report.pool[one.data[state.seed]];
  if (!table) return where.replaceChildren(absent("No scenario is on record."));
  where.replaceChildren(el("p", { class: "say" }, `Samples by client and class, seed ${state.seed}. The stronger the colour, the more; a dot marks what a client did not hold in the frame before.`), el("div", { class: "frames" }));
  const grid = where.lastChild, most = Math.max(...table.flat().map((flat) => Math.max(0, ...flat.filter((_, at) => at % 2))));
  table.forEach((_, frame) => {
    const fresh = newClasses(frame), plot = el("div", { class: "plot", id: `plot-data-${frame}` });
    grid.append(el("div", {}, el("h3", {}, `Frame ${frame}${fresh.length && fresh.length <= 12 ? `: new ${fresh.length > 1 ? "classes" : "class"} ${fresh.join(", ")}` : ""}`), plot));
  });
  table.forEach((clients, frame) => {
    const z = clients.map((flat) => { const row = Array(one.classes).fill(0); for (let at = 0; at < flat.length; at += 2) row[flat[at]] = flat[at + 1]; return row; });
    const dots = { x: [], y: [] };
    if (frame) clients.forEach((flat, index) => { const old = new Set(held(frame - 1, index).map(([number]) => number)); for (const [number] of held(frame, index)) if (!old.has(number)) { dots.x.push(number); dots.y.push(index); } });
    const names = one.clients, step = Math.ceil(names.length / 10);
    chart(grid.children[frame].lastChild, [
      { type: "heatmap", x: [...Array(one.classes).keys()], y: names.map((_, at) => at), z, zmin: 0, zmax: most, xgap: one.classes > 30 ? 0 : 1, ygap: names.length > 60 ? 0 : 1, colorscale: [[0, css("--empty")], [0.001, faded6(css("--heat"), 0.2)], [1, css("--heat")]], showscale: false, text: z.map((row, at) => row.map((count, c) => `client ${names[at]}, class ${c}: ${plural(count, "sample")}`)), hovertemplate: "%{text}<extra></extra>" },
      { type: "scatter", mode: "markers", ...dots, marker: { size: names.length > 60 ? 3 : 5, color: css("--ground"), line: { color: css("--ink"), width: 1 } }, hoverinfo: "skip" },
    ], {
      xaxis: { title: titled("class"), showgrid: false, zeroline: false, range: [-0.5, one.classes - 0.5], dtick: one.classes <= 12 ? 1 : null },
      yaxis: { title: titled("client"), showgrid: false, zeroline: false, range: [names.length - 0.5, -0.5], tickvals: names.map((_, at) => at).filter((at) => at % step === 0), ticktext: names.filter((_, at) => at % step === 0) },
    }, Math.max(200, Math.min(560, 80 + names.length * 9)));
  });
}]);
function faded6(hex, alpha) { // over the ground, for scales that know no transparency
  const ground = css("--ground"), part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  return `rgb(${[1, 3, 5].map((at) => Math.round(part(hex, at) * alpha + part(ground, at) * (1 - alpha))).join(",")})`;
}
