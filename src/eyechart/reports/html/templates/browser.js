// The image browser: everything from a run is inserted as text, never as HTML.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 44, RIGHT = 12, TOP = 12, BOTTOM = 34;
  const state = { tests: [], run: 0, rows: null, order: [], at: 0 };

  // Small helpers

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // Allow line breaks in a long name after its separators.
  function longName(name, text) {
    const made = element(name);
    text.split(/(?<=[_/:.-])/).forEach((part) => made.append(part, document.createElement("wbr")));
    return made;
  }

  function shape(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  }

  function address(path, values) {
    return `${path}?${new URLSearchParams(values)}`;
  }

  async function ask(url) {
    let reply;
    try {
      reply = await fetch(url);
    } catch {
      throw new Error("The server does not respond. If it was stopped, start it again.");
    }
    if (reply.ok) return reply;
    let sentence = `The server rejected the request (${reply.status}).`;
    try {
      sentence = (await reply.json()).error;
    } catch { /* not JSON from this server: only the status is known */ }
    throw new Error(sentence);
  }

  // At most one request of each kind is pending; of the waiting ones, only the latest is sent.
  function lastOf(work) {
    let busy = false, waiting = null;
    return async function run(...values) {
      if (busy) { waiting = values; return; }
      busy = true;
      try {
        await work(...values);
      } finally {
        busy = false;
        if (waiting) { const next = waiting; waiting = null; run(...next); }
      }
    };
  }

  function say(sentence) { $("message").textContent = sentence; }

  function shortNumber(value, digits = 4) {
    return value === null ? "unknown" : String(Number(value.toPrecision(digits)));
  }

  // Choices

  function fill(select, options, wanted) {
    select.replaceChildren(...options.map(([value, text]) => {
      const option = element("option", text);
      option.value = value;
      return option;
    }));
    if (options.some(([value]) => value === wanted)) select.value = wanted;
  }

  const test = () => state.tests[Number($("test").value)];
  const model = () => test().models.find((own) => own.name === $("model").value);

  function fillTest(wanted) {
    const own = test();
    fill($("corruption"), own.corruptions.map(({ name, title }) => [name, title]), wanted.corruption);
    fill($("model"), own.models.map(({ name, short }) => [name, short]), wanted.model);
    fillSpaces(wanted);
  }

  function fillSpaces(wanted) {
    const spaces = model().spaces;
    fill($("space"), spaces.map(({ name, title }) => [name, title]), wanted.space);
    $("space-box").hidden = spaces.length < 2;
  }

  function chosen() {
    return { test: $("test").value, corruption: $("corruption").value, model: $("model").value,
      space: $("space").value };
  }

  // Rows

  const row = () => state.order[state.at];
  const changeAt = (place) => state.rows.delta_v[place];
  const isMeasured = () => state.rows !== null && state.rows.delta_v[0] !== null;

  function reorder(keep) {
    const { rows } = state;
    const all = rows.rows.map((_, place) => place);
    const own = rows.image[keep];
    state.order = $("stay").checked ? all.filter((place) => rows.image[place] === own) : all;
    state.at = Math.max(0, state.order.indexOf(keep));
    const slider = $("slider");
    [slider.max, slider.step] = isMeasured() ? ["1", "any"] : [String(state.order.length - 1), "1"];
    $("slider-name").textContent = isMeasured() ? "Visual change Δv" : "Severity";
  }

  // Return the position of the row whose Δv is nearest; rows without Δv are sorted last.
  function nearest(change) {
    const { order } = state;
    let low = 0, high = order.length;
    while (low < high) {
      const middle = (low + high) >> 1, own = changeAt(order[middle]);
      if (own !== null && own < change) low = middle + 1; else high = middle;
    }
    const [before, after] = [low - 1, low].map((at) => changeAt(order[at]) ?? Infinity);
    return low > 0 && Math.abs(change - before) <= Math.abs(after - change)
      ? low - 1 : Math.min(low, order.length - 1);
  }

  const loadRows = lastOf(async (wanted = {}) => {
    const { test: _, ...rest } = chosen(), { run } = model();
    const change = state.rows && isMeasured() ? changeAt(row()) : null;
    const image = state.rows ? state.rows.images[state.rows.image[row()]] : null;
    say("");
    try {
      state.rows = await (await ask(address("/api/rows", { run, ...rest }))).json();
      state.run = run;
    } catch (error) {
      state.rows = null;
      say(error.message);
      return;
    }
    const asked = wanted.row ? state.rows.rows.indexOf(Number(wanted.row)) : -1;
    // The same image has a different row under this corruption.
    const same = state.rows.image.indexOf(state.rows.images.indexOf(image));
    reorder(asked >= 0 ? asked : Math.max(0, same));
    if (asked < 0 && change !== null && isMeasured()) state.at = nearest(change);
    else if (asked < 0 && !$("stay").checked) state.at = 0;
    drawChart();
    show();
  });

  function failure(step) {
    const { rows, order } = state;
    if (!rows) return -1;
    for (let at = state.at + step; at >= 0 && at < order.length; at += step)
      if (rows.correct[order[at]] === 0) return at;
    return -1;
  }

  function go(at) {
    if (!state.rows) return;
    state.at = Math.min(Math.max(at, 0), state.order.length - 1);
    show();
  }

  function show() {
    const { rows, order, at } = state, place = row(), change = changeAt(place);
    const verdict = { 1: "correct", 0: "incorrect" }[rows.correct[place]] ?? "unknown";
    const where = change === null ? "Δv unknown" : `Δv ${change.toFixed(3)}`;
    const count = `image ${at + 1} of ${order.length}`;
    const slider = $("slider");
    slider.value = isMeasured() ? String(change ?? 1) : String(at);
    slider.setAttribute("aria-valuetext", `${where}, ${count}, ${verdict}`);
    $("where").textContent = `${where} · ${count}`;
    $("before").disabled = at === 0;
    $("after").disabled = at === order.length - 1;
    $("before-failure").disabled = failure(-1) < 0;
    $("next-failure").disabled = failure(1) < 0;
    mark();
    const own = { run: state.run, row: rows.rows[place], space: rows.space };
    showRow(own);
    showPicture("seen", { run: own.run, row: own.row }, `${own.run} ${own.row}`);
    showPicture("clean", { run: own.run, row: own.row, clean: 1 },
      `${own.run} ${rows.images[rows.image[place]]}`);
    remember(own.row);
  }

  // Keep the address current; the delay avoids the browsers' rate limit on history changes.
  let later = 0;
  function remember(number) {
    clearTimeout(later);
    const link = new URLSearchParams({ ...chosen(), row: number });
    later = setTimeout(() => history.replaceState(null, "", `#${link}`), 250);
  }

  // One row: facts and predictions

  const showRow = lastOf(async (own) => {
    let found;
    try {
      found = await (await ask(address("/api/row", own))).json();
    } catch (error) {
      say(error.message);
      return;
    }
    say("");
    $("predictions").replaceChildren(...found.predictions.map(predictionRow));
    const facts = [
      ["Shows", found.truth || (found.label === null ? "unknown" : `label ${found.label}`)],
      ["Visual change", found.delta_v === null ? "cannot be measured" : `Δv ${found.delta_v.toFixed(4)}`],
    ];
    if (found.severity !== null) facts.push(["Severity", shortNumber(found.severity)]);
    for (const each of found.parameters)
      facts.push([each.name.replaceAll("_", " "), `${shortNumber(each.value)} ${each.unit}`.trim(), each.meaning]);
    facts.push(["Image", found.image], ["Row", String(found.row)]);
    $("facts").replaceChildren(...facts.flatMap(([name, text, meaning]) => {
      const told = longName("dd", text);
      if (meaning) told.append(" ", element("small", `(${meaning})`));
      return [element("dt", name), told];
    }));
    $("seen").alt = `${found.title}: ${found.truth || found.image}, ` +
      `Δv ${found.delta_v === null ? "unknown" : found.delta_v.toFixed(2)}`;
    $("clean").alt = `Without corruption: ${found.truth || found.image}`;
  });

  function predictionRow(prediction) {
    const made = element("tr");
    if (prediction.model === $("model").value) made.setAttribute("aria-current", "true");
    const name = longName("th", prediction.short);
    name.scope = "row";
    const sure = prediction.confidence === null ? "–" : `${Math.round(100 * prediction.confidence)} %`;
    made.append(name, element("td", prediction.prediction || "none of these classes"), element("td", sure, "number"),
      verdictCell(prediction.correct, "correct", "incorrect"), verdictCell(prediction.same, "same", "other"));
    return made;
  }

  function verdictCell(flag, yes, no) {
    if (flag === 1) return element("td", `✓ ${yes}`, "right");
    return flag === 0 ? element("td", `✗ ${no}`, "wrong") : element("td", "–");
  }

  // Images

  const loaders = { seen: lastOf((...values) => load("seen", ...values)),
    clean: lastOf((...values) => load("clean", ...values)) };
  const wanted = { seen: "", clean: "" }, there = { seen: "", clean: "" };

  function showPicture(id, values, key) {
    wanted[id] = key;
    $(id).classList.toggle("old", there[id] !== key);
    if (there[id] !== key) loaders[id](values, key);
  }

  async function load(id, values, key) {
    if (there[id] === key) return;
    const image = $(id), problem = $(`${id}-problem`);
    try {
      const url = URL.createObjectURL(await (await ask(address("/image", values))).blob());
      const before = image.src;
      image.src = url;
      await image.decode();
      if (before) URL.revokeObjectURL(before);
      image.classList.toggle("small", image.naturalWidth < 128);
      problem.hidden = true;
      image.hidden = false;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      image.hidden = true;
    }
    there[id] = key;
    image.dataset.shows = key;
    image.classList.toggle("old", wanted[id] !== key);
  }

  // The curve

  const CURVES = [
    ["a", "curve", "accuracy sₐ: fraction of correct predictions"],
    ["p", "curve same", "consistency sₚ: fraction of predictions equal to the one for the clean image"],
    ["humans_a", "curve humans", "human accuracy"],
    ["humans_p", "curve humans same", "human consistency"],
  ];
  let scale = null;

  function drawChart() {
    const box = $("chart"), { width, height } = box.getBoundingClientRect();
    if (!state.rows || width < LEFT + RIGHT + 20) return;
    scale = {
      x: (value) => LEFT + value * (width - LEFT - RIGHT),
      y: (value) => height - BOTTOM - value * (height - TOP - BOTTOM),
    };
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const grid = shape("g", {}, svg);
    for (const value of [0, 0.25, 0.5, 0.75, 1]) {
      const y = scale.y(value), x = scale.x(value);
      shape("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "gridline" }, grid);
      shape("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, grid).textContent = value;
      shape("text", { x, y: height - BOTTOM + 18, "text-anchor": "middle" }, grid).textContent = value;
    }
    drawTicks(svg);
    const { curves } = state.rows;
    if (curves.a) shape("path", { class: "band", d: band(curves.a) }, svg);
    for (const [name, className] of CURVES)
      if (curves[name]) shape("path", { class: className, d: path(curves[name]) }, svg);
    shape("g", { class: "marker", id: "marker" }, svg);
    box.replaceChildren(svg);
    const legend = CURVES.filter(([name]) => curves[name]).map(([, className, text]) => {
      const made = element("li"), line = shape("svg", { "aria-hidden": "true", viewBox: "0 0 36 12" });
      shape("path", { class: className, d: "M0 6H36" }, line);
      made.append(line, element("span", text));
      return made;
    });
    $("legend").replaceChildren(...legend);
    const notes = curves.humans ? [`Humans: ${curves.humans}.`] : [];
    for (const note of curves.notes) notes.push(`${note[0].toUpperCase()}${note.slice(1)}${/[.?]$/.test(note) ? "" : "."}`);
    $("notes").textContent = notes.join(" ");
    mark();
  }

  // Draw each prediction as a tick at its Δv, at most one per px.
  function drawTicks(svg) {
    const { rows, order } = state, found = { 1: new Set(), 0: new Set() };
    for (const place of order) {
      const change = changeAt(place), own = found[rows.correct[place]];
      if (change !== null && own) own.add(Math.round(scale.x(change)));
    }
    for (const [flag, className, y, height] of [[1, "ticks-right", scale.y(1), -7], [0, "ticks-wrong", scale.y(0), 7]])
      shape("path", { class: className, d: [...found[flag]].map((x) => `M${x} ${y}v${height}`).join("") }, svg);
  }

  function points(line, values) {
    return line.delta_v.map((x, place) => [x, values[place]]).filter(([x, y]) => x !== null && y !== null)
      .map(([x, y]) => `${scale.x(x).toFixed(1)} ${scale.y(y).toFixed(1)}`);
  }

  function path(line) { return `M${points(line, line.values).join("L")}`; }

  function band(line) {
    return `M${points(line, line.low).concat(points(line, line.high).reverse()).join("L")}Z`;
  }

  function valueAt(line, change) {
    const after = line.delta_v.findIndex((x) => x >= change);
    if (after <= 0) return line.values[after < 0 ? line.values.length - 1 : 0];
    const [left, right] = [line.delta_v[after - 1], line.delta_v[after]];
    const share = right > left ? (change - left) / (right - left) : 0;
    return line.values[after - 1] * (1 - share) + line.values[after] * share;
  }

  function mark() {
    const marker = $("marker");
    if (!marker || !state.rows) return;
    const { rows } = state, place = row(), change = changeAt(place), { curves } = rows;
    marker.replaceChildren();
    if (change === null) {
      $("chart").setAttribute("aria-label", "The visual change of this image is unknown, so it has no position on the curve.");
      return;
    }
    const x = scale.x(change);
    shape("line", { x1: x, x2: x, y1: scale.y(1) - 7, y2: scale.y(0) + 7 }, marker);
    const said = [];
    for (const [name, , text] of CURVES) {
      if (!curves[name]) continue;
      const value = valueAt(curves[name], change);
      if (value === null) continue;
      said.push(`${text.split(":")[0]} ${value.toFixed(2)}`);
      if (name === "a") shape("circle", { cx: x, cy: scale.y(value), r: 6 }, marker);
    }
    $("chart").setAttribute("aria-label", `At Δv ${change.toFixed(3)}: ${said.join(", ") || "there is no curve"}.`);
  }

  // Start

  function listen() {
    $("test").addEventListener("change", () => { fillTest({}); loadRows(); });
    $("corruption").addEventListener("change", () => loadRows());
    $("model").addEventListener("change", () => { fillSpaces(chosen()); loadRows(); });
    $("space").addEventListener("change", () => loadRows());
    $("choice").addEventListener("submit", (event) => event.preventDefault());
    $("stay").addEventListener("change", () => { if (state.rows) { reorder(row()); drawChart(); show(); } });
    $("before").addEventListener("click", () => go(state.at - 1));
    $("after").addEventListener("click", () => go(state.at + 1));
    $("before-failure").addEventListener("click", () => { const at = failure(-1); if (at >= 0) go(at); });
    $("next-failure").addEventListener("click", () => { const at = failure(1); if (at >= 0) go(at); });
    $("slider").addEventListener("input", () => {
      const value = Number($("slider").value);
      if (state.rows) go(isMeasured() ? nearest(value) : value);
    });
    $("slider").addEventListener("keydown", (event) => {
      if (!state.rows || event.altKey || event.ctrlKey || event.metaKey) return;
      const page = Math.max(1, Math.round(state.order.length / 20));
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -page,
        PageUp: page, Home: -Infinity, End: Infinity };
      if (!(event.key in steps)) return;
      event.preventDefault();
      go(state.at + steps[event.key]);
    });
    $("chart").addEventListener("click", (event) => {
      if (!scale || !isMeasured()) return;
      const box = $("chart").getBoundingClientRect();
      go(nearest((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)));
    });
    // The delayed change of the address may come between a new one and this event.
    window.addEventListener("hashchange", (event) => {
      clearTimeout(later);
      begin(new URL(event.newURL).hash);
    });
    new ResizeObserver(() => drawChart()).observe($("chart"));
  }

  function theme() {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
    const name = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };
    try {
      const kept = localStorage.getItem("eyechart-theme");
      if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    } catch { /* storage is not available */ }
    $("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("eyechart-theme", root.dataset.theme); } catch { /* as above */ }
      name();
    });
    dark.addEventListener("change", name);
    name();
  }

  function begin(hash) {
    const asked = Object.fromEntries(new URLSearchParams(hash.slice(1)));
    fill($("test"), state.tests.map(({ title }, place) => [String(place), title]), asked.test);
    $("test-box").hidden = state.tests.length < 2;
    fillTest(asked);
    loadRows(asked);
  }

  theme();
  ask("/api/runs").then((reply) => reply.json()).then(({ tests }) => {
    state.tests = tests;
    listen();
    begin(location.hash);
  }).catch((error) => say(error.message));
})();
