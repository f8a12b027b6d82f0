// The headline, what is missing, and the settings in plain words.
sections.push(["headline", function paintHeadline() {
  const one = condition(), title = document.getElementById("title"), lead = document.getElementById("lead");
  const frame = state.frame === "all" ? one.frames[one.frames.length - 1] : state.frame;
  const kind = state.accuracy === "global" ? "global" : "balanced";
  const found = one.headlines[String(frame)]?.[kind] || { title: "No rounds yet", text: "These runs have no rounds: what is known before the first one is drawn below." };
  title.textContent = found.title;
  lead.textContent = (one.label ? `${one.label[0].toUpperCase()}${one.label.slice(1)}. ` : "") + found.text;
}]);
function paintNotes() {
  const where = document.getElementById("notes");
  const block = (title, lines) => (lines.length ? [el("div", { class: "note" }, lines.length === 1 ? `${title}: ${lines[0]}` : [`${title}:`, el("ul", {}, lines.map((line) => el("li", {}, line)))])] : []);
  where.replaceChildren(...block("What is missing", report.notes));
}
sections.push(["settings", function paintSettings() {
  const words = condition().words, where = body("settings");
  const rows = words.changed.map(([path, value, unit, meaning]) => el("tr", {}, el("td", { class: "text" }, el("code", {}, path)), el("td", { class: "text" }, `${value}${unit && value ? ` ${unit}` : ""}`), el("td", { class: "wide" }, meaning)));
  where.replaceChildren(
    el("dl", { class: "words" }, words.paragraphs.flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])),
    rows.length ? el("details", {}, el("summary", {}, `${plural(rows.length, "setting")} that ${rows.length === 1 ? "is" : "are"} not the default`), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["key", "value", "meaning"].map((text) => el("th", { class: "text" }, text)))), el("tbody", {}, rows)))) : "",
    el("details", {}, el("summary", {}, "All settings of the first of these runs, as a file"), el("pre", {}, words.toml)));
}]);
function paintFoot() {
  const notes = report.thinned.length ? ` To stay small: ${report.thinned.join(" ")}` : "";
  document.getElementById("foot").textContent = `${plural(report.runs, "run")} in ${report.folder}, by fedteddi ${report.version}. This file is complete in itself: it loads nothing.${notes}`;
  document.getElementById("where").textContent = `fedteddi · ${report.folder}`;
}
