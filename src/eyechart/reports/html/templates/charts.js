// Draws the charts of a page. Specs are in #chart-specs and are drawn when they come into view.
(function () {
  "use strict";

  const FEW = 3; // maximum number of models whose bands can be told apart
  const NARROW = 560, PRINTED = 640; // pixels
  const MIN_CONTRAST = 3;
  const COLOR_KEYS = /^(color|fillcolor|bgcolor|fgcolor|bordercolor|colorscale)$/;
  const THEME = {"--ink": "#1a1a1a", "--muted": "#595959", "--grid": "#dddddd", "--paper": "#ffffff"};

  const state = { hidden: new Set(), focus: "", printing: false };
  const places = new Map(); // element → {spec, stale, width}

  // ---- colors ----

  function theme() {
    if (state.printing) return THEME;
    const style = getComputedStyle(document.documentElement);
    const found = {};
    for (const name of Object.keys(THEME)) {
      found[name] = hex(style.getPropertyValue(name).trim()) || THEME[name];
    }
    return found;
  }

  function hex(color) {
    if (/^#[0-9a-f]{6}$/i.test(color)) return color;
    const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(color);
    if (short) return "#" + short.slice(1).map((digit) => digit + digit).join("");
    const numbers = /^rgba?\((\d+)[ ,]+(\d+)[ ,]+(\d+)/.exec(color);
    if (!numbers) return "";
    return "#" + numbers.slice(1).map((n) => Number(n).toString(16).padStart(2, "0")).join("");
  }

  const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

  function luminance(color) {
    const [red, green, blue] = channels(color).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function contrast(one, two) {
    const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  function mixed(color, other, share) {
    const ends = channels(other);
    const parts = channels(color).map((value, at) => Math.round(value + (ends[at] - value) * share));
    return "#" + parts.map((value) => value.toString(16).padStart(2, "0")).join("");
  }

  // Keep the hue, but mix in ink until the contrast with the paper suffices.
  function legible(color, colors) {
    let found = color;
    for (let share = 0.1; contrast(found, colors["--paper"]) < MIN_CONTRAST && share < 1; share += 0.1) {
      found = mixed(color, colors["--ink"], share);
    }
    return found;
  }

  function colorOf(text, colors) {
    const [name, opacity] = text.split("/");
    const variable = /^var\((--[a-z]+)\)$/.exec(name);
    const own = variable ? colors[variable[1]] : hex(name);
    if (!own) return text;
    if (opacity !== undefined) return `rgba(${channels(own).join(",")},${opacity})`;
    return variable ? own : legible(own, colors);
  }

  // Return a copy of plain values with the colors resolved to the page's colors.
  function colored(value, colors, isColor) {
    if (typeof value === "string") return isColor ? colorOf(value, colors) : value;
    if (Array.isArray(value)) {
      // Long arrays of numbers are not copied.
      if (typeof value[0] === "number") return typeof value[1] === "string" ? [value[0], colorOf(value[1], colors)] : value;
      return value.map((each) => colored(each, colors, isColor));
    }
    if (value === null || typeof value !== "object") return value;
    const copy = {};
    for (const [key, own] of Object.entries(value)) {
      copy[key] = key === "meta" ? own : colored(own, colors, isColor || COLOR_KEYS.test(key));
    }
    return copy;
  }

  // ---- what is drawn around a curve ----

  function places_of(trace, count, step) {
    if (trace.x) return trace.x.filter((_, at) => at % step === 0);
    return Array.from({ length: count }, (_, at) => (trace.x0 || 0) + at * step * trace.dx);
  }

  function polygon(x, low, high) {
    const at = x.map((_, place) => place).filter((place) => low[place] !== null && high[place] !== null);
    const back = at.slice().reverse();
    return {
      x: at.map((place) => x[place]).concat(back.map((place) => x[place])),
      y: at.map((place) => high[place]).concat(back.map((place) => low[place])),
    };
  }

  const around = (trace, more) => ({
    type: "scatter", mode: "lines", name: trace.name, showlegend: false, hoverinfo: "skip",
    xaxis: trace.xaxis, yaxis: trace.yaxis, meta: { model: trace.meta.model, with: trace.meta.with }, ...more,
  });

  function bands(trace) {
    const own = trace.meta.bands;
    return ["95", "83"].filter((level) => own[level]).map((level) => {
      const [low, high] = own[level].map((ends) => ends.map((end) => (end === null ? null : end / own.scale)));
      const x = places_of(trace, low.length, own.thin);
      return around(trace, {
        ...polygon(x, low, high), fill: "toself", line: { width: 0 },
        fillcolor: `${trace.line.color}/${level === "95" ? 0.14 : 0.2}`,
      });
    });
  }

  function rates(trace, spec) {
    const counts = spec.data.find((own) => own.type === "bar");
    const found = trace.meta.rates;
    const enough = counts.y.map((count) => count >= spec.layout.meta.min_per_bin);
    return around(trace, {
      mode: "markers", x: counts.x, y: found.map((rate) => (rate === null ? null : rate / trace.meta.bands.scale)),
      hoverinfo: undefined, hovertemplate: "rate of the bin at %{x:.2f}: %{y:.3f}<extra>%{fullData.name}</extra>",
      marker: { color: trace.line.color, size: 5, symbol: enough.map((is) => (is ? "circle" : "circle-open")) },
    });
  }

  // Where nothing was observed a curve is thin and dotted: it is extrapolated.
  function split(trace) {
    const x = places_of(trace, trace.y.length, 1);
    const seen = x.map((at) => trace.meta.observed.some(([start, end]) => at >= start - 1e-9 && at <= end + 1e-9));
    const thin = around(trace, {
      x, y: trace.y, opacity: 0.55, line: { color: trace.line.color, width: 1.2, dash: "dot" },
      hoverinfo: undefined, hovertemplate: "Δv %{x:.2f}: %{y:.3f}, not observed<extra>%{fullData.name}</extra>",
    });
    return [thin, { ...trace, y: trace.y.map((value, at) => (seen[at] ? value : null)), connectgaps: false }];
  }

  function areas(trace, humans, looks) {
    const x = places_of(trace, trace.y.length, 1);
    const [human, model] = [humans.y, trace.y];
    const least = human.map((value, at) => Math.min(value, model[at]));
    const region = (low, high, [name, color], shape) => around(trace, {
      ...polygon(x, low, high), name, legendgroup: name, showlegend: true, fill: "toself", line: { width: 0 },
      fillcolor: shape ? undefined : `${color}/0.22`,
      fillpattern: shape ? { shape, fgcolor: color, bgcolor: `${color}/0.15`, size: 7, solidity: 0.25, fillmode: "overlay" } : undefined,
    });
    const isAhead = (one) => one.some((value, at) => value > least[at] + 1e-9);
    const found = [region(least.map(() => 0), least, looks.both, "")];
    if (isAhead(human)) found.push(region(least, human, looks.humans, "+"));
    if (isAhead(model)) found.push(region(least, model, looks.model, "/"));
    return found;
  }

  // ---- from spec to what plotly draws ----

  const isHidden = (trace) => {
    const meta = trace.meta || {};
    return state.hidden.has(meta.model) || state.hidden.has(meta.with);
  };

  const hasOwnBand = (trace) => Boolean(trace.meta && trace.meta.bands && trace.meta.model !== "humans");

  const shownModels = (spec) =>
    new Set(spec.data.filter((trace) => hasOwnBand(trace) && !isHidden(trace)).map((trace) => trace.meta.model));

  function expanded(spec) {
    const shown = shownModels(spec);
    const focus = shown.has(state.focus) && shown.size > FEW ? state.focus : "";
    const back = [], front = [];
    for (const given of spec.data) {
      const meta = given.meta || {};
      const trace = meta.same === undefined ? given : { ...given, y: spec.data[meta.same].y };
      const visible = !isHidden(trace);
      const add = (list, own) => list.push({ ...own, visible });
      if (meta.bands && (shown.size <= FEW || focus === meta.model || meta.model === "humans" || meta.bands.always)) {
        bands(trace).forEach((own) => add(back, own));
        if (meta.rates && (shown.size <= FEW || focus)) add(front, rates(trace, spec));
      }
      if (meta.against !== undefined) {
        const humans = spec.data[meta.against];
        const line = humans.meta.same === undefined ? humans : spec.data[humans.meta.same];
        areas(trace, line, spec.layout.meta.areas).forEach((own) => add(back, own));
      }
      const pale = focus && meta.bands && meta.model !== focus && meta.model !== "humans";
      const lines = meta.observed ? split(trace) : [trace];
      lines.forEach((own) => add(front, pale ? { ...own, opacity: 0.3 } : own));
    }
    return withLegend(back.concat(front));
  }

  // Only the first visible trace of a group is in the legend.
  function withLegend(data) {
    const seen = new Set();
    for (const trace of data) {
      if (!trace.legendgroup || trace.showlegend === false) continue;
      trace.showlegend = trace.visible && !seen.has(trace.legendgroup);
      if (trace.visible) seen.add(trace.legendgroup);
    }
    return data;
  }

  function put(layout, path, value) {
    const steps = path.split(".");
    let own = layout;
    for (const step of steps.slice(0, -1)) own = own[step] = { ...own[step] };
    own[steps[steps.length - 1]] = value;
  }

  function legendRows(data, width, size) {
    const names = data.filter((own) => own.visible && own.showlegend !== false && own.name).map((own) => own.name);
    let rows = names.length ? 1 : 0, used = 0;
    for (const name of names) {
      const own = name.replace(/&[a-z]+;/g, "&").length * size * 0.58 + 50;
      if (used && used + own > width) { rows += 1; used = 0; }
      used += own;
    }
    return rows;
  }

  function laidOut(spec, data, width, colors) {
    const layout = colored(spec.layout, colors, false);
    const narrow = width < NARROW;
    const more = (layout.meta && layout.meta.narrow) || {};
    if (narrow) for (const [path, value] of Object.entries(more)) put(layout, path, value);
    const size = narrow ? 11 : 13;
    const family = getComputedStyle(document.body).fontFamily || "sans-serif";
    const rows = layout.showlegend === false ? 0 : legendRows(data, width - 10, size);
    const legend = rows ? rows * (size + 9) : 0;
    for (const [name, own] of Object.entries(layout)) {
      if (!/^[xy]axis\d*$/.test(name)) continue;
      layout[name] = {
        gridcolor: colors["--grid"], zerolinecolor: colors["--grid"], linecolor: colors["--muted"],
        tickcolor: colors["--muted"], tickfont: { color: colors["--muted"], size: size - 1 },
        zeroline: false, fixedrange: true, ...own,
        automargin: own.type === "category", // slow, and only names need the extra space
        title: { standoff: 8, ...own.title, font: { size, color: colors["--ink"] } },
      };
    }
    const notes = (layout.annotations || []).map((own) => ({ font: { size: size - 1, color: colors["--ink"] }, ...own }));
    if (shownModels(spec).size > FEW && !state.printing) notes.push(hint(size, colors));
    const height = layout.height + legend;
    const top = notes.some((own) => own.yanchor === "bottom" && /^y1? domain/.test(own.yref || "")) ? 36 : 16;
    return {
      ...layout, annotations: notes, width, height,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "closest",
      font: { family, size, color: colors["--ink"] },
      margin: { l: narrow ? 50 : 60, r: 16, t: top + legend, b: 44, pad: 2 },
      legend: {
        orientation: "h", x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top",
        font: { size, color: colors["--ink"] }, bgcolor: "rgba(0,0,0,0)", tracegroupgap: 0,
        itemclick: spec.data.some(hasOwnBand) ? "toggle" : false, itemdoubleclick: false,
      },
      hoverlabel: { bgcolor: colors["--paper"], bordercolor: colors["--muted"], font: { family, size, color: colors["--ink"] }, namelength: 40 },
    };
  }

  const hint = (size, colors) => ({
    text: "click a name to show its bands", x: 0, xref: "x domain", xanchor: "left", y: 1, yref: "y2 domain",
    yanchor: "bottom", showarrow: false, font: { size: size - 1, color: colors["--muted"] },
  });

  function withDefaults(data) {
    return data.map((trace) => {
      if (trace.hoverinfo || trace.hovertemplate || trace.type !== "scatter") return trace;
      return { ...trace, hovertemplate: "Δv %{x:.2f}: %{y:.3f}<extra>%{fullData.name}</extra>" };
    });
  }

  // Omit numbers from cells that are too small for them.
  function withRoom(data, width) {
    return data.map((trace) => {
      if (trace.type !== "heatmap" || (width - 160) / trace.x.length >= 30) return trace;
      return { ...trace, texttemplate: "" };
    });
  }

  // ---- drawing ----

  // No mode bar: an element with role="img" must not contain anything focusable.
  const CONFIG = { displayModeBar: false, doubleClick: false, showTips: false };

  async function draw(element) {
    const own = places.get(element);
    const width = state.printing ? Math.min(PRINTED, element.clientWidth || PRINTED) : element.clientWidth;
    if (!own || !width) return;
    const isFirst = !own.width;
    own.stale = false;
    own.width = width;
    const colors = theme();
    const data = colored(withRoom(withDefaults(expanded(own.spec)), width), colors, false);
    await Plotly.react(element, data, laidOut(own.spec, data, width, colors), CONFIG);
    if (isFirst) listen(element);
  }

  function listen(element) {
    const own = places.get(element);
    if (!own.spec.data.some(hasOwnBand)) return;
    const chosen = (trace) => {
      const model = trace && trace.meta && trace.meta.model;
      if (model && model !== "humans") focus(model === state.focus ? "" : model);
    };
    element.on("plotly_legendclick", (event) => { chosen(event.data[event.curveNumber]); return false; });
    element.on("plotly_click", (event) => chosen(event.points[0].data));
  }

  function isInView(element) {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.bottom > -300 && box.top < innerHeight + 300;
  }

  const drawAll = () => Promise.all(Array.from(places.keys(), draw));

  // Redraw charts in view now, the others when they come into view.
  function redraw() {
    const now = [];
    for (const [element, own] of places) {
      own.stale = true;
      if (state.printing || isInView(element)) now.push(draw(element));
    }
    return Promise.all(now);
  }

  function focus(model) {
    state.focus = model;
    redraw();
  }

  const seen = new IntersectionObserver((entries) => {
    const drawn = entries.filter((entry) => entry.isIntersecting && places.get(entry.target).stale)
      .map((entry) => draw(entry.target));
    Promise.all(drawn).then(() => { window.eyechartReady = true; });
  }, { rootMargin: "300px" });

  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const own = places.get(target);
      if (state.printing || !own.width || !target.clientWidth || Math.abs(own.width - target.clientWidth) < 2) continue;
      own.stale = true;
      // Draw after the observer's callback, not inside it.
      requestAnimationFrame(() => { if (own.stale && isInView(target)) draw(target); });
    }
  });

  function mount(element, spec) {
    places.set(element, { spec, stale: true, width: 0 });
    if (!element.style.minHeight) element.style.minHeight = `${spec.layout.height || 300}px`;
    element.style.overflow = "hidden"; // a chart drawn for a wider window must not widen this one
    seen.observe(element);
    sized.observe(element);
  }

  function start() {
    const text = document.getElementById("chart-specs");
    const specs = text ? JSON.parse(text.textContent) : {};
    for (const element of document.querySelectorAll("[data-chart]")) {
      if (specs[element.dataset.chart]) mount(element, specs[element.dataset.chart]);
    }
    if (!places.size) window.eyechartReady = true;
  }

  function print(on) {
    if (state.printing === on) return;
    state.printing = on;
    redraw();
  }

  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.addEventListener("theme-changed", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("models-changed", (event) => {
    state.hidden = new Set(event.detail.hidden);
    redraw();
  });
  window.addEventListener("model-focused", (event) => focus(event.detail.model || ""));
  window.eyechartCharts = { mount, redraw, drawAll, focus };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
