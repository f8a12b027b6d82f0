// Accuracy class by class, of one scheduler: lines, or a map where there are many classes.
sections.push(["classes", function paintClasses() {
  const where = body("classes");
  if (!where.firstChild) where.append(el("p", { class: "say" }), el("div", { class: "row" }), el("div", { class: "plot", id: "plot-classes" }), el("div", { class: "swatches" }));
  const [say, row, plot, swatches] = where.children;
  const usable = groups().filter((one) => one.by_class);
  if (!usable.length) {
    say.textContent = "No evaluation with accuracies by class is on record.";
    [row, swatches].forEach((part) => part.replaceChildren());
    return Plotly.purge(plot);
  }
  if (!usable.some((one) => one.name === state.classOf)) state.classOf = usable[0].name;
  row.replaceChildren(choice("Scheduler", usable.map((one) => [one.name, one.name]), state.classOf, (classOf) => set({ classOf }, "classes"), "class-of"));
  const table = group(state.classOf).by_class, wanted = new Set(frames());
  const rows = table.frame.map((frame, at) => at).filter((at) => wanted.has(table.frame[at]));
  const x = rows.map((at) => table.round[at] + (state.frame === "all" ? startOf(table.frame[at]) : 0));
  const many = condition().classes > 12, seen = classesHeld(condition().seeds[0]);
  const numbers = seen.length && !many ? seen : [...Array(condition().classes).keys()];
  const fresh = frames().flatMap((frame) => newClasses(frame, condition().seeds[0]).map((one) => `${one} (frame ${frame})`));
  say.textContent = `Per-class test accuracy of ${state.classOf}, ${table.seeds > 1 ? `mean over ${table.seeds} seeds` : "one seed"}.`
    + (fresh.length && fresh.length <= 12 ? ` New classes: ${fresh.join(", ")}.` : "")
    + (seen.length && seen.length < condition().classes ? ` Classes of the data set that no client ever holds: ${condition().classes - seen.length}.` : "");
  const label = (at) => `frame ${table.frame[at]}, round ${table.round[at]}`;
  const value = (at, c) => (table.accuracy[at][c] === null || (seen.length && !seen.includes(c)) ? null : table.accuracy[at][c] / 100);
  const traces = many
    ? [{ type: "heatmap", x, y: numbers, z: numbers.map((c) => rows.map((at) => value(at, c))), zmin: 0, zmax: 1, colorscale: [[0, css("--empty")], [1, css("--heat")]], colorbar: { tickformat: ".0%", thickness: 10, outlinewidth: 0 }, text: numbers.map(() => rows.map(label)), hovertemplate: "class %{y}<br>%{text}<br>%{z:.0%}<extra></extra>" }]
    : numbers.map((c) => ({ type: "scatter", mode: "lines+markers", name: `class ${c}`, x, y: rows.map((at) => value(at, c)), line: { color: classColour(c), width: 2 }, marker: { size: 5, symbol: SYMBOLS[c % SYMBOLS.length], color: classColour(c), maxdisplayed: 30 }, text: rows.map(label), hovertemplate: `<b>class ${c}</b><br>%{text}<br>%{y:.0%}<extra></extra>` }));
  chart(plot, traces, {
    ...(state.frame === "all" ? boundaries(startOf) : {}),
    xaxis: { title: titled(state.frame === "all" ? "rounds since the run began" : `rounds of frame ${state.frame}`), rangemode: "tozero", tickformat: "d" },
    yaxis: many ? { title: titled("class") } : { title: titled("accuracy on the class"), tickformat: ".0%", range: [-0.02, 1.02] },
  }, narrow() ? 300 : 380);
  swatches.replaceChildren(...(many ? [] : numbers.map(classSwatch)));
}]);
function classSwatch(number) {
  return el("span", {}, el("i", { style: `background:${classColour(number)}` }), `class ${number}`);
}
