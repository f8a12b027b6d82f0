// One decision: who was admitted in which order, what each changed, why it ended, and how good the set is.
function bar(value, largest) {
  const width = largest > 0 ? Math.max(0, Math.min(1, value / largest)) * 5 : 0;
  return el("span", { class: "bar", style: `width:${width.toFixed(2)}rem` });
}
function change(value, wanted = -1) {
  if (value === null || value === undefined) return "–";
  return el("span", { class: value === 0 ? null : value * wanted > 0 ? "good" : "bad" }, `${value > 0 ? "+" : ""}${digits(value)}`);
}
function mixBar(frame, client) {
  const index = condition().clients.indexOf(client);
  if (index < 0) return ["–"]; // one of many clients that have no row here
  const mix = held(frame, index), total = mix.reduce((sum, [, count]) => sum + count, 0);
  const old = new Set(frame ? held(frame - 1, index).map(([number]) => number) : mix.map(([number]) => number));
  const fresh = mix.filter(([number]) => !old.has(number)), kept = mix.filter(([number]) => old.has(number)).slice(0, Math.max(0, 5 - fresh.length));
  const words = [...kept.map(([number]) => `${number}`), ...(kept.length + fresh.length < mix.length ? ["…"] : []), ...fresh.map(([number]) => `+${number}`)].join(" ");
  return [el("span", { class: "mix", title: mix.map(([number, count]) => `class ${number}: ${count}`).join(", ") },
    mix.map(([number, count]) => el("i", { style: `width:${(100 * count) / total}%;background:${classColour(number)}` }))), el("span", { class: "mix-words" }, words)];
}
// The decision that tells most: with a proven optimum, or else with the changes of each term, after new data came.
function tellingDecision(rounds) {
  for (const wanted of [(one) => one.gap?.proven && one.frame, (one) => one.gap?.proven, (one) => one.changes && one.gap && one.frame, (one) => one.changes]) {
    const at = rounds.findIndex(wanted);
    if (at >= 0) return at;
  }
  return 0;
}
function admissionTable(one, called) {
  const traced = Boolean(one.changes), weight = one.terms?.drift_weight ?? null;
  const head = ["", "client", "classes", "MHz", ...(traced ? [`Δ ${called[1]}`, `Δ ${called[2]}`, "Δ drift", `Δ ${called[0]}`] : []), "band left, MHz"];
  const order = one.order || one.clients, total = condition().total_hz;
  let left = total;
  const rows = order.map((client, at) => {
    const granted = one.hz[one.clients.indexOf(client)];
    left -= granted === undefined ? 0 : (granted / 1000) * total;
    const rest = one.left ? one.left[at] : left / 1e6, changes = one.changes?.[at];
    const sum = changes && changes[0] !== null && weight !== null ? changes[0] + changes[1] - weight * changes[2] : null;
    return el("tr", { "data-client": client }, el("td", {}, String(at + 1)), el("td", {}, String(client)), el("td", { class: "text" }, mixBar(one.frame, client)),
      el("td", {}, granted === undefined ? "–" : ((granted / 1000) * total / 1e6).toFixed(2)),
      traced ? [...changes.map((value, term) => el("td", {}, change(value, term === 2 ? 1 : -1))), el("td", {}, change(sum))] : [],
      el("td", { class: "left" }, el("span", {}, one.hz.length ? Math.max(0, rest).toFixed(2) : "–"), bar(rest, total / 1e6)));
  });
  return el("div", { class: "scroll" }, el("table", { id: "admissions" },
    el("thead", {}, el("tr", {}, head.map((text, at) => el("th", { class: at === 2 || at === head.length - 1 ? "text" : null }, text)))), el("tbody", {}, rows)));
}
function decisionWords(one, called) {
  const found = [];
  if (one.terms) {
    const t = one.terms;
    found.push(`${called[0]} ${digits(t.total, 4)} = ${called[1]} ${digits(t.variance, 4)} + ${called[2]} ${digits(t.divergence, 4)} − λ·drift ${digits(t.drift_weight * t.drift, 4)} (λ = ${digits(t.drift_weight)}; lower is better).`);
  } else found.push(one.why ? `The terms of an objective cannot be told: ${one.why}.` : "This rule does not measure what an objective is made of, so no terms are on record.");
  if (one.stopped) found.push(`Stopped because: ${one.stopped}.`);
  if (one.gap) {
    const gap = one.gap.total - one.gap.best, near = Math.abs(gap) <= 1e-4 * Math.max(1, Math.abs(one.gap.best));
    const what = one.gap.proven ? "the proven optimum" : "the best set that the refined search finds (not proven optimal)";
    found.push(near ? `The set is as good as ${what}, ${digits(one.gap.best, 4)}.` : gap < 0 ? `The set is better than ${what} by ${digits(-gap)}.` : `Gap: ${digits(gap)} above ${what}, ${digits(one.gap.best, 4)}.`);
  }
  if (one.source === "computed again") found.push("The trace was not recorded; it is computed again from seed and record, and gives the recorded set.");
  if (one.terms && !one.changes && one.why) found.push(`The changes of each term are not known: ${one.why}.`);
  if (one.more) found.push(`The first ${one.clients.length} of ${one.clients.length + one.more} are listed.`);
  if (one.failures) found.push(`Dropped: ${Object.entries(one.failures).slice(0, 5).map(([client, why]) => `client ${client} (${why})`).join("; ")}.`);
  return found.join(" ");
}
sections.push(["decision", function paintDecision() {
  const where = body("decision");
  const usable = groups().filter((one) => Object.values(one.runs).some((run) => run.decisions.rounds.length));
  if (!usable.length) return where.replaceChildren(absent("No decision is on record: there are no rounds with a schedule."));
  if (!usable.some((one) => one.name === state.decider)) state.decider = usable[0].name;
  const seeds = seedsOf(state.decider), seed = seeds.includes(String(state.seed)) ? state.seed : seeds[0];
  const run = runOf(state.decider, seed), called = run.decisions.called;
  const rounds = run.decisions.rounds.filter((one) => state.frame === "all" || one.frame === state.frame);
  state.told = state.told === null ? tellingDecision(rounds) : Math.max(0, Math.min(state.told, rounds.length - 1));
  const pick = (told) => set({ told }, "decision");
  const controls = el("div", { class: "row" },
    choice("Scheduler", usable.map((one) => [one.name, one.name]), state.decider, (decider) => set({ decider }, "decision"), "decider"),
    rounds.length ? choice("Round", rounds.map((one, at) => [at, roundWords([one.frame, one.round])]), state.told, (at) => pick(Number(at)), "decision-round") : null,
    el("div", { class: "field" }, el("span", {}, "Step"), el("div", { class: "seg" },
      el("button", { type: "button", id: "decision-back", "aria-label": "Round before", onclick: () => pick(state.told - 1) }, "←"),
      el("button", { type: "button", id: "decision-on", "aria-label": "Next round", onclick: () => pick(state.told + 1) }, "→"))));
  const held_ = document.activeElement?.id;
  if (!rounds.length) where.replaceChildren(controls, absent("No round of this frame is on record."));
  else {
    const one = rounds[state.told];
    where.replaceChildren(
      el("p", { class: "say" }, `${state.decider}, seed ${seed}, ${roundWords([one.frame, one.round])}: in the order of admission. A negative change is an improvement, of drift a positive one; + marks a class that the client did not hold in the frame before.`),
      controls, el("p", { id: "decision-words" }, decisionWords(one, called)),
      one.clients.length ? admissionTable(one, called) : absent("Nobody was scheduled in this round: the model stayed as it was."));
  }
  if (held_) document.getElementById(held_)?.focus();
}]);
