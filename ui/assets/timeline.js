/* Timeline: zoom and pan without a callback on the server.

   The range, the window and following are in the address, so a link shows the same view. A range that a person chose is
   an entry of the history: "back" undoes it (moves in a row within a second are one). Each new question aborts the one
   before. While the run lives and the reader has not zoomed, the picture grows with it; a zoomed
   range stays where it is. Instants are BigInt nanoseconds here, for Number cannot hold them. */
(function () {
  const NS_PER_MS = 1000000n;
  const state = { run: null, frame: null, path: null, from: null, to: null, span: null, window: "", follow: false, last: null, busy: null,
    width: 0, pressed: false };

  const nanoseconds = (milliseconds) => BigInt(Math.round(milliseconds * 1000)) * 1000n;
  const milliseconds = (ns) => Number(ns / 1000n) / 1000;

  function readAddress() {
    const query = new URLSearchParams(location.search);
    const read = (name) => (/^\d{1,19}$/.test(query.get(name) || "") ? BigInt(query.get(name)) : null);
    state.from = read("from");
    state.to = read("to");
    const last = read("last");
    state.span = last === null ? null : last * 1000000000n;
    state.follow = query.get("follow") !== "0";
    const window_ = query.get("window");
    return /^\d{1,8}$/.test(window_ || "") ? window_ : "";
  }

  let movedAt = 0;

  function writeAddress(isMove) {
    const query = new URLSearchParams(location.search);
    const put = (name, value) => { if (value === null || value === "") query.delete(name); else query.set(name, String(value)); };
    put("from", state.from);
    put("to", state.to);
    put("last", state.span === null ? null : state.span / 1000000000n);
    put("window", state.window);
    put("follow", state.follow ? null : "0");
    const text = query.toString();
    const wanted = location.pathname + (text ? `?${text}` : "") + location.hash;
    if (wanted === location.pathname + location.search + location.hash) return;
    const isNew = isMove && Date.now() - movedAt > 1000;
    if (isMove) movedAt = Date.now();
    if (isNew) history.pushState({}, "", wanted);
    else history.replaceState(history.state, "", wanted);
  }

  /** A wall-clock text of the axis, in the offset it was drawn with, as an instant. */
  function instant(text) {
    const padded = String(text).replace(" ", "T").replace(/(\.\d{3})\d+/, "$1");
    const full = /T/.test(padded) ? padded : `${padded}T00:00`;
    return nanoseconds(Date.parse(`${full}Z`) - state.last.offset * 60000);
  }

  function range() {
    if (state.from !== null && state.to !== null) return [state.from, state.to];
    if (state.span !== null && state.last) {
      const end = BigInt(state.last.run_end);
      return [end - state.span, end];
    }
    return [null, null];
  }

  async function fetchFigure() {
    if (state.busy) state.busy.abort();
    const busy = (state.busy = new AbortController());
    const frame = document.getElementById("timeline-frame");
    state.width = frame ? frame.clientWidth : 1200;
    let [from, to] = range();
    if (state.span !== null && !state.last) {
      // "The last hour" of a run whose end is not known yet: ask for the whole first, to learn it.
      await ask(null, null, busy);
      [from, to] = range();
    }
    return ask(from, to, busy);
  }

  async function ask(from, to, busy, again = false) {
    const middle = to !== null ? milliseconds(to) : state.last ? milliseconds(BigInt(state.last.run_end)) : Date.now();
    const offset = window.rerailTimes.offset(middle);
    const query = new URLSearchParams({ width: String(Math.max(100, state.width)), offset: String(offset),
      scheme: document.documentElement.getAttribute("data-mantine-color-scheme") || "light" });
    if (from !== null) { query.set("from", from); query.set("to", to); }
    if (state.window) query.set("window", state.window);
    const answer = await fetch(`/figures/runs/${encodeURIComponent(state.run)}/timeline?${query}`, { signal: busy.signal });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const drawing = await answer.json();
    drawing.offset = offset;
    state.last = drawing;
    // The first question did not know when the run was; summer time there may not be summer time now.
    const isOtherSeason = window.rerailTimes.offset(milliseconds(BigInt(drawing.end))) !== offset;
    return isOtherSeason && !again ? ask(from, to, busy, true) : drawing;
  }

  function describe(drawing) {
    const caption = document.getElementById("timeline-caption");
    if (caption) caption.textContent = drawing.caption;
    const legend = document.getElementById("timeline-legend");
    if (legend) {
      const entry = (look, name, number) => {
        const item = document.createElement("span");
        const swatch = document.createElement("i");
        swatch.className = `swatch ${look}`;
        const part = document.createElement("b");
        part.textContent = number;
        item.append(swatch, `${name} `, part);
        return item;
      };
      legend.replaceChildren(
        ...drawing.legend.map(([phase, name, share]) => entry(`ph ph-${phase}`, name, share)),
        ...drawing.signs.map(([kind, name, times]) => entry(`sign sign-${kind}`, name, times)));
    }
    const follow = document.getElementById("timeline-follow");
    const isWhole = state.from === null && state.span === null;
    if (follow) {
      follow.hidden = !drawing.is_open;
      follow.setAttribute("aria-pressed", String(state.follow && state.from === null));
    }
    // The waterfall is of what is shown.
    const shown = isWhole ? null : [drawing.start, drawing.end];
    if (JSON.stringify(shown) !== state.shown) {
      state.shown = JSON.stringify(shown);
      dash_clientside.set_props("timeline-shown", { data: shown });
    }
    for (const button of document.querySelectorAll("[data-range]")) {
      const value = button.dataset.range;
      const on = value === "all" ? isWhole : state.span !== null && String(state.span / 1000000000n) === value;
      button.setAttribute("aria-pressed", String(on));
      const life = BigInt(drawing.run_end) - BigInt(drawing.run_start || drawing.run_end);
      button.hidden = value !== "all" && BigInt(value) * 1000000000n >= life;
    }
  }

  /* Not the answer of a callback: Dash may keep the older of two that overlap, and gives one call for a key and for what
     Plotly tells of its first layout. Here the last question wins, and a key is never lost. */
  async function redraw(isMove = false) {
    const run = state.run;
    writeAddress(isMove);
    try {
      const drawing = await fetchFigure();
      if (state.run !== run || !document.getElementById("timeline")) return;
      describe(drawing);
      dash_clientside.set_props("timeline", { figure: drawing.figure });
    } catch (error) {
      const caption = document.getElementById("timeline-caption");
      if (error.name !== "AbortError" && caption) {
        caption.textContent = `The picture could not be read: ${error.message}. What is shown may be old.`;
      }
    }
  }

  function show(from, to) {
    if (state.last) {
      const start = BigInt(state.last.run_start || state.last.start);
      const end = BigInt(state.last.run_end);
      if (from < start) from = start;
      if (to > end) to = end;
      if (from <= start && to >= end) { whole(); return; }
      if (to - from < NS_PER_MS * 10n) return;
    }
    state.from = from;
    state.to = to;
    state.span = null;
  }

  function whole() { state.from = state.to = state.span = null; }

  /** Whether Plotly told of a range that a person chose (it also tells of its own layout). */
  function take(relayout) {
    if (!relayout || !state.last) return false;
    if ("xaxis.range[0]" in relayout) show(instant(relayout["xaxis.range[0]"]), instant(relayout["xaxis.range[1]"]));
    else if (relayout["xaxis.autorange"]) whole();
    else return false;
    return true;
  }

  /** Whether a fact that just came could be seen in what is shown. */
  function isShownLive() {
    if (state.pressed) return false;
    if (state.from === null) return state.follow;
    return !state.last || BigInt(state.last.run_end) <= state.to;
  }

  const isThere = () => state.run !== null && state.frame === document.getElementById("timeline-frame");
  window.rerailTimeline = {
    /** Other colours or another zone. */
    redraw() { if (isThere()) redraw(); },
    /** The run changed. */
    heard() { if (isThere() && isShownLive()) redraw(); },
    /** The range in the picture, as texts of nanoseconds; null where there is none yet. */
    shown() { return isThere() && state.last ? [state.last.start, state.last.end] : null; },
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    rerail_timeline: {
      draw(relayout, window_, run) {
        const causes = dash_clientside.callback_context.triggered.map((one) => one.prop_id);
        // A page that is drawn anew, also of the same run, has a new frame.
        const frame = document.getElementById("timeline-frame");
        if (state.run !== run || state.frame !== frame) {
          Object.assign(state, { run, frame, path: location.pathname, last: null, shown: "null", window: readAddress() || window_ });
          if (state.window !== window_) dash_clientside.set_props("timeline-window", { value: state.window });
          redraw();
          return dash_clientside.no_update;
        }
        const isChosen = causes.includes("timeline-window.value") && state.window !== window_;
        const isMoved = causes.includes("timeline.relayoutData") && take(relayout);
        state.window = window_;
        if (isChosen || isMoved) redraw(isMoved);
        return dash_clientside.no_update;
      },
      open(click) {
        const point = click && click.points && click.points[0];
        const link = point && point.customdata;
        if (typeof link === "string" && /^[/#]/.test(link)) window.rerailShell.go(link);
        return dash_clientside.no_update;
      },
    },
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-range]");
    if (button) {
      whole();
      if (button.dataset.range !== "all") state.span = BigInt(button.dataset.range) * 1000000000n;
      redraw(true);
    }
    if (event.target.closest("#timeline-follow")) {
      const isOn = state.follow && state.from === null;
      state.follow = !isOn;
      if (!isOn && state.from !== null) {
        state.span = state.to - state.from;
        state.from = state.to = null;
      }
      redraw();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !state.last) return;
    // Arrows belong to the picture alone; the keys that zoom work wherever nobody types.
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (!isThere() || (event.key.startsWith("Arrow") && !event.target.closest("#timeline-frame"))) return;
    const from = BigInt(state.last.start);
    const to = BigInt(state.last.end);
    const length = to - from;
    const moves = {
      ArrowLeft: [from - length / 4n, to - length / 4n],
      ArrowRight: [from + length / 4n, to + length / 4n],
      "+": [from + length / 4n, to - length / 4n],
      "=": [from + length / 4n, to - length / 4n],
      "-": [from - length / 2n, to + length / 2n],
    };
    if (event.key === "0") whole();
    else if (moves[event.key]) move(...moves[event.key], event.key.startsWith("Arrow"));
    else return;
    event.preventDefault();
    redraw(true);
  });

  window.addEventListener("popstate", () => {
    // Another page is drawn by its own way; of this one only the range is older.
    if (!isThere() || location.pathname !== state.path) return;
    state.window = readAddress() || state.window;
    movedAt = 0;
    redraw();
  });

  /** Pan keeps its length at either end of the run. */
  function move(from, to, isPan) {
    const start = BigInt(state.last.run_start || state.last.start);
    const end = BigInt(state.last.run_end);
    if (isPan && from < start) { to += start - from; from = start; }
    if (isPan && to > end) { from -= to - end; to = end; }
    show(from, to);
  }

  document.addEventListener("pointerdown", (event) => { state.pressed = Boolean(event.target.closest("#timeline")); });
  document.addEventListener("pointerup", () => { state.pressed = false; });

  /* ── what the curves say under the pointer ────────────────────────────────────────────────────────────── */
  const CURVES = [["training goodput", "training", percent], ["infrastructure goodput", "infrastructure", percent],
    ["step", "step", whole_], ["durable step", "durable", whole_]];

  function percent(value) { return `${(value * 100).toFixed(1)}\u202f%`; }
  function whole_(value) { return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f"); }

  /** The value of a curve at a wall-clock text: stairs hold, lines are straight between their points. */
  function valueAt(trace, at) {
    const xs = trace.x;
    let low = 0;
    let high = xs.length;
    while (low < high) { const middle = (low + high) >> 1; if (xs[middle] <= at) low = middle + 1; else high = middle; }
    const before = low - 1;
    if (before < 0) return null;
    const y = trace.y[before];
    if (low >= xs.length) return xs[before] >= at ? y : null;
    if (y === null || trace.y[low] === null || trace.line.shape === "hv") return y;
    const time = (text) => Date.parse(`${text.replace(" ", "T")}Z`);
    const span = time(xs[low]) - time(xs[before]);
    return span ? y + (trace.y[low] - y) * (time(at) - time(xs[before])) / span : y;
  }

  function readOut(event) {
    const line = document.getElementById("timeline-readout");
    const plot = document.querySelector("#timeline .js-plotly-plot");
    const axis = plot && plot._fullLayout && plot._fullLayout.xaxis;
    if (!line || !axis || !axis.p2d || !state.last) return;
    const x = event.clientX - plot.getBoundingClientRect().left - axis._offset;
    if (x < 0 || x > axis._length) { line.textContent = ""; return; }
    const at = String(axis.p2d(x)).replace("T", " ").slice(0, 23);
    const parts = [];
    for (const [name, label, format] of CURVES) {
      const trace = state.last.figure.data.find((one) => one.name === name);
      const value = trace && trace.x.length ? valueAt(trace, at) : null;
      if (value !== null && value !== undefined) parts.push(`${label} ${format(value)}`);
    }
    line.textContent = [at.slice(11, 19) || at, ...parts].join("  ·  ");
  }

  let reading = false;
  document.addEventListener("pointermove", (event) => {
    if (reading || !event.target.closest || !event.target.closest("#timeline")) return;
    reading = true;
    requestAnimationFrame(() => { reading = false; readOut(event); });
  });

  let resize = null;
  addEventListener("resize", () => {
    clearTimeout(resize);
    resize = setTimeout(() => {
      const frame = document.getElementById("timeline-frame");
      if (frame && Math.abs(frame.clientWidth - state.width) > 80) redraw();
    }, 200);
  });
})();
