// The cell: clients where they stood, as small pies of their classes; the scheduled ringed, ring area ∝ bandwidth.
let playing = null;
const shownRounds = () => condition().rounds.map((one, at) => [...one, at]).filter(([frame]) => state.frame === "all" || frame === state.frame);
const limitedOrNot = () => groups().filter((one) => Object.values(one.runs).some((run) => run.shown));

function checkPair() {
  const names = limitedOrNot().map((one) => one.name);
  const usual = [names[0], names.includes("random") ? "random" : names[1]];
  state.pair = state.pair.map((name, at) => (names.includes(name) ? name : usual[at] || null));
  if (state.pair[0] === state.pair[1]) state.pair[1] = names.find((name) => name !== state.pair[0]) || null;
}
function pairControls(prefix, ...sectionsToDraw) {
  checkPair();
  const names = limitedOrNot().map((one) => [one.name, one.name]);
  return state.pair.filter((name) => name !== null).map((name, at) => choice(at ? "beside" : "Scheduler", names, name, (chosen) => {
    const pair = [...state.pair];
    if (pair[1 - at] === chosen) pair[1 - at] = pair[at];
    pair[at] = chosen;
    set({ pair }, "cell", "timeline", ...sectionsToDraw);
  }, `${prefix}-${at ? "b" : "a"}`));
}
function slice(mix, radius) {
  const total = mix.reduce((sum, [, count]) => sum + count, 0);
  let from = -Math.PI / 2;
  if (mix.length === 1) return [el("circle", { r: radius, fill: classColour(mix[0][0]) })];
  return mix.map(([number, count]) => {
    const to = from + (2 * Math.PI * count) / total, large = to - from > Math.PI ? 1 : 0;
    const point = (angle) => `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
    const path = el("path", { d: `M0 0L${point(from)}A${radius} ${radius} 0 ${large} 1 ${point(to)}Z`, fill: classColour(number) });
    from = to;
    return path;
  });
}
function clientWords(index, frame, granted, needed, isScheduled) {
  const mix = held(frame, index).map(([number, count]) => `class ${number}: ${count}`).join(", ");
  const total = condition().total_hz;
  const words = [`Client ${condition().clients[index]}. Holds ${mix || "nothing"}.`];
  if (needed === -1 || needed > 1000) words.push(needed === -1 ? "Cannot meet the deadline with any part of the band." : `Needs ${mega((needed / 1000) * total)}, more than the band has.`);
  else if (needed !== undefined) words.push(`Needs ${mega((needed / 1000) * total)} to meet the deadline.`);
  words.push(isScheduled ? (granted === undefined ? "Scheduled." : `Scheduled with ${mega((granted / 1000) * total)}.`) : "Not scheduled.");
  return words.join(" ");
}
function disc(name, frame, at) {
  const one = condition(), world = one.worlds[state.seed], run = runOf(name, state.seed);
  const radius = one.radius_m, size = pieRadius();
  const picture = el("svg", { class: "disc", viewBox: `${-1.17 * radius} ${-1.17 * radius} ${2.34 * radius} ${2.34 * radius}`, role: "img", "aria-label": `cell with ${name}`, "data-scheduler": name });
  for (const part of [1, 0.5]) picture.append(el("circle", { r: radius * part, fill: part === 1 ? css("--disc") : "none", stroke: css("--line"), "stroke-width": radius / 170 }));
  picture.append(el("text", { x: 0, y: radius * 0.475, fill: css("--soft"), "font-size": radius / 19, "text-anchor": "middle" }, `${digits(radius / 2)} m`));
  picture.append(el("text", { x: 0, y: radius * 1.1, fill: css("--soft"), "font-size": radius / 19, "text-anchor": "middle" }, `${digits(radius)} m`));
  const s = size * 1.1;
  picture.append(el("path", { d: `M0 ${-s}L${s * 0.9} ${s * 0.8}L${-s * 0.9} ${s * 0.8}Z`, fill: css("--ink") }, el("title", {}, "base station")));
  const who = run?.shown?.who[at], hz = run?.shown?.hz[at] || [], needed = world?.needed?.[at] || [];
  const places = world?.moving?.[at] || world?.places || [];
  const c = colour(name);
  const order = places.map((_, index) => index).sort((a, b) => Number((who || []).includes(a)) - Number((who || []).includes(b)));
  for (const index of order) {
    const place = who ? who.indexOf(index) : -1, scheduled = place >= 0, granted = hz[place];
    const out = needed[index] === -1 || needed[index] > 1000;
    const node = el("g", {
      class: `client${scheduled ? " scheduled" : ""}${out ? " infeasible" : ""}`, "data-client": one.clients[index],
      transform: `translate(${places[index][0]} ${-places[index][1]})`,
      onclick: () => set({ detail: index }, "cell"), onmouseenter: () => showDetail(clientWords(index, frame, granted, needed[index], scheduled)),
    });
    if (scheduled) {
      const ring = ringRadius(size, granted === undefined ? 0 : granted, radius);
      node.append(el("circle", { class: "ring", r: ring.toFixed(2), fill: faded(c, 0.09), stroke: c, "stroke-width": radius / 85 }));
    }
    node.append(el("g", { opacity: out && !scheduled ? 0.22 : 1 }, slice(held(frame, index), size), el("circle", { r: size, fill: "none", stroke: css("--ground"), "stroke-width": radius / 220 })));
    node.append(el("title", {}, clientWords(index, frame, granted, needed[index], scheduled)));
    picture.append(node);
  }
  const used = hz.reduce((sum, part) => sum + part, 0);
  const words = el("p", { class: "caption" }, el("b", {}, name), ": ");
  if (!run?.shown) words.append(`no run with seed ${state.seed}`);
  else if (!who) words.append("this round is not played yet");
  else {
    words.append(`${run.shown.all[at]} of ${one.num_clients} scheduled`);
    if (hz.length) words.append(`, ${mega((used / 1000) * one.total_hz)} of ${mega(one.total_hz)}`);
    if (group(name).bound) words.append(", without band and deadline");
    else if (world?.infeasible) words.append(world.infeasible[at] ? `; ${world.infeasible[at]} could not meet the deadline` : "; all could meet the deadline");
  }
  return el("div", {}, words, picture);
}
const ringRadius = (size, part, radius) => size * 1.3 + radius * 0.3 * Math.sqrt(part / 1000);
const pieRadius = () => Math.max(0.022, Math.min(0.066, 0.3 / Math.sqrt(condition().clients.length))) * condition().radius_m;
// Rings of 5 and 20 % of the band, as large as in the discs at their usual width.
function ringScale() {
  const radius = condition().radius_m, size = pieRadius(), scale = (narrow() ? 340 : 500) / (2.34 * radius);
  return [50, 200].map((part) => {
    const r = ringRadius(size, part, radius) * scale, edge = 2 * r + 4;
    const ring = el("svg", { width: edge.toFixed(0), height: edge.toFixed(0), "aria-hidden": "true" }, el("circle", { cx: edge / 2, cy: edge / 2, r: r.toFixed(1), fill: "none", stroke: css("--soft"), "stroke-width": 2 }));
    return el("span", { class: "scale" }, ring, `${part / 10} % of the band`);
  });
}
function showDetail(text) {
  const where = document.getElementById("client-detail");
  if (where) where.textContent = text;
}
function roundWords([frame, number]) {
  return `frame ${frame}, round ${number} of ${condition().lengths[frame]}`;
}
function player(rounds) {
  const stop = () => { clearInterval(playing); playing = null; };
  const go = (round) => set({ round, detail: null }, "cell");
  const button = el("button", { type: "button", id: "play", "aria-pressed": String(Boolean(playing)), onclick: () => {
    if (playing) stop();
    else {
      if (state.round >= rounds.length - 1) state.round = 0;
      playing = setInterval(() => {
        if (state.round >= rounds.length - 1) { stop(); draw("cell"); } else go(state.round + 1);
      }, 650);
    }
    draw("cell");
  } }, playing ? "Pause" : "Play");
  const slider = el("input", { type: "range", id: "round", min: 0, max: rounds.length - 1, "aria-label": "Round", oninput: (event) => go(Number(event.target.value)) });
  slider.value = state.round;
  return el("div", { class: "player" }, button, slider, el("output", { id: "round-words" }, roundWords(rounds[state.round])));
}
sections.push(["cell", function paintCell() {
  const where = body("cell"), rounds = shownRounds();
  checkPair();
  const worlds = Object.entries(condition().worlds).filter(([, world]) => world);
  if (!worlds.length || !rounds.length || state.pair[0] === null) {
    clearInterval(playing);
    playing = null;
    return where.replaceChildren(absent("There is no cell to draw: these runs have no clients that share a band, or no rounds."));
  }
  if (!condition().worlds[state.seed]) state.seed = worlds[0][0];
  state.round = Math.min(state.round, rounds.length - 1);
  if (!where.querySelector(".player")) {
    where.replaceChildren(el("p", { class: "say" }), el("div", { class: "row who" }), el("div", { class: "row" }), el("div", { class: "pair", id: "discs" }), el("p", { class: "detail", id: "client-detail" }), el("div", { class: "swatches" }));
  }
  const [say, row, second, discs, detail, swatches] = where.children, [frame, , at] = rounds[state.round];
  const world = condition().worlds[state.seed];
  say.textContent = "Clients stand where the seed put them, each a pie of the classes it holds. A ring marks the scheduled; its size is the bandwidth. "
    + (world.needed?.length ? "Pale clients could not meet the deadline within the band in this round." : `Who could not meet the deadline is not known: ${world.note}.`)
    + (world.moving ? " Clients walk." : "");
  const held_ = document.activeElement?.id;
  row.replaceChildren(...pairControls("cell"), choice("Seed", worlds.map(([seed]) => [seed, `seed ${seed}`]), state.seed, (seed) => set({ seed }, "cell", "timeline", "decision", "data"), "cell-seed"));
  const slider = second.querySelector("#round");
  if (slider && Number(slider.max) === rounds.length - 1) {
    slider.value = state.round;
    second.querySelector("#round-words").textContent = roundWords(rounds[state.round]);
    const button = second.querySelector("#play");
    button.textContent = playing ? "Pause" : "Play";
    button.setAttribute("aria-pressed", String(Boolean(playing)));
  } else second.replaceChildren(player(rounds));
  if (held_ && document.activeElement?.id !== held_) document.getElementById(held_)?.focus();
  discs.replaceChildren(...state.pair.filter((name) => name !== null).map((name) => disc(name, frame, at)));
  if (state.detail !== null) {
    const run = runOf(state.pair[0], state.seed), place = run?.shown?.who[at]?.indexOf(state.detail) ?? -1;
    detail.textContent = clientWords(state.detail, frame, run?.shown?.hz[at]?.[place], world.needed?.[at]?.[state.detail], place >= 0);
  } else detail.textContent = "Point at a client, or tap it, to read what it holds and needs.";
  const classes = classesHeld();
  swatches.replaceChildren(...ringScale(), ...(condition().classes <= 12 ? classes.map(classSwatch) : [el("span", {}, "A hue for each class; point at a client to read its classes.")]));
}]);
