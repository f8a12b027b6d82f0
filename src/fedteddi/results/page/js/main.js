// Controls that all figures share, the theme, and the first drawing.
const TITLES = { accuracy: "Accuracy", classes: "Class by class", cell: "The cell", decision: "One decision", timeline: "Who was scheduled when", fairness: "Fairness", data: "Who holds what", settings: "Settings" };

function paintControls() {
  const where = document.getElementById("controls"), held_ = document.activeElement;
  const kept = held_ && where.contains(held_) ? (held_.id || `${held_.parentElement.id}|${held_.dataset.value}`) : null;
  const again = (changes) => { set({ round: 0, told: null, detail: null, ...changes }); paintControls(); };
  const parts = [];
  if (report.conditions.length > 1) parts.push(choice("Setting", report.conditions.map((one, at) => [at, one.label]), state.condition, (at) => { state.condition = Number(at); arrive(); again({}); }, "condition"));
  if (condition().frames.length > 1) parts.push(segments("Frame", [["all", "all frames"], ...condition().frames.map((frame) => [frame, String(frame)])], state.frame, (frame) => again({ frame }), "frame"));
  parts.push(segments("Accuracy", ["balanced", "global", "old", "new"].map((name) => [name, name]), state.accuracy, (accuracy) => { set({ accuracy }, "headline", "accuracy"); paintControls(); }, "accuracy-of"));
  where.replaceChildren(...parts);
  if (kept) {
    const [id, value] = kept.split("|");
    (value === undefined ? document.getElementById(id) : where.querySelector(`#${id} [data-value="${value}"]`))?.focus();
  }
}
// What was chosen may not exist in another setting.
function arrive() {
  const one = condition();
  if (state.frame !== "all" && !one.frames.includes(state.frame)) state.frame = "all";
  if (!one.seeds.map(String).includes(String(state.seed))) state.seed = String(one.seeds[0]);
  checkPair();
}
function themed() {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  draw();
}
function start() {
  paintFoot();
  paintNotes();
  document.getElementById("theme").addEventListener("click", themed);
  if (!report.conditions.length) {
    document.getElementById("title").textContent = "No runs to show";
    document.querySelectorAll("main > section:not(#headline), #controls, nav").forEach((part) => part.remove());
    return;
  }
  document.getElementById("contents").append(...Object.entries(TITLES).map(([id, text]) => el("a", { href: `#${id}` }, text)));
  arrive();
  paintControls();
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if ((width < 720) !== narrow()) draw(); width = window.innerWidth; });
}
start();
