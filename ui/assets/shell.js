/* Shell: links that do not reload, keys, copying, titles, the scheme of the table. */
(function () {
  /* ── moving between pages ─────────────────────────────────────────────────────────────────────────────── */
  function go(href) {
    const url = new URL(href, location.href);
    if (url.pathname === location.pathname && url.hash) {
      history.replaceState(null, "", url.pathname + location.search + url.hash);
      reveal(url.hash);
      return;
    }
    history.pushState({}, "", url.pathname + url.search + url.hash);
    const isSamePath = url.pathname === drawn.path;
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    if (isSamePath) again();
    drawn.path = url.pathname;
    scrollTo(0, 0);
    const page = document.getElementById("page");
    if (page) page.focus({ preventScroll: true });
  }

  /** What a list is narrowed to, as an address that the way back leads away from. One entry while one types. */
  function ask(text, searched, chosen) {
    const wanted = location.pathname + (text ? `?${text}` : "");
    if (text === new URLSearchParams(location.search).toString()) return;
    const before = ask.before || {};
    const isTyping = before.path === wanted.split("?")[0] && before.chosen === chosen && before.searched !== searched
      && Date.now() - before.at < 4000;
    history[isTyping ? "replaceState" : "pushState"](isTyping ? history.state : {}, "", wanted);
    ask.before = { path: location.pathname, searched, chosen, at: Date.now() };
  }

  /* A path that stays the same draws nothing by itself: a link to another query of it does, and the way back from one.
     The page of a run reads its query itself. */
  const drawn = { path: location.pathname };
  const again = () => dash_clientside.set_props("again", { data: { n: Date.now() } });
  addEventListener("popstate", () => {
    const isSamePath = location.pathname === drawn.path;
    drawn.path = location.pathname;
    if (isSamePath && !document.getElementById("run-page")) setTimeout(again);
  });

  /** Show what an anchor names: unfold what hides it, scroll there, and let it be seen. */
  function reveal(hash) {
    const element = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
    if (!element) return false;
    for (let above = element.parentElement; above; above = above.parentElement) {
      if (above.tagName === "DETAILS") above.open = true;
    }
    element.scrollIntoView({ block: element.tagName === "TR" ? "center" : "start",
      behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    element.classList.remove("flash");
    void element.offsetWidth;
    element.classList.add("flash");
    return true;
  }

  document.addEventListener("click", (event) => {
    const action = event.target.closest("[data-do], [data-copy], [data-definition]");
    if (action) { act(action); return; }
    const anchor = event.target.closest("a[href]");
    if (!anchor || anchor.target || event.defaultPrevented || event.button
        || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const url = new URL(anchor.href, location.href);
    if (url.origin !== location.origin || /^\/(api|assets|figures)\//.test(url.pathname)) return;
    if (anchor.classList.contains("skip")) return;
    event.preventDefault();
    go(anchor.href);
  });

  /* ── buttons ──────────────────────────────────────────────────────────────────────────────────────────── */
  function act(button) {
    if (button.dataset.do === "help") dash_clientside.set_props("help", { opened: true });
    if (button.dataset.do === "png") savePicture();
    if (button.dataset.do === "add-side") addSide();
    if (button.dataset.do === "csv") saveTable(button.closest(".panel"));
    if (button.dataset.definition) define(button.dataset.definition);
    if (button.dataset.copy === "command") copy(button, button.previousElementSibling.textContent);
    if (button.dataset.copy === "address") copy(button, location.href);
    if (button.dataset.copy === "table") copy(button, csv(button.closest(".panel")));
  }

  /** One more side of a comparison: a run's id, `config:…`, or what else the page offered. */
  function addSide() {
    const field = document.getElementById("compare-add");
    const side = field && field.value.trim();
    if (!side) { if (field) field.focus(); return; }
    const query = new URLSearchParams(location.search);
    if (!query.getAll("with").includes(side)) query.append("with", side);
    go(`${location.pathname}?${query}`);
  }

  /** Another definition of goodput: in the address, and asked for. */
  function define(name) {
    const query = new URLSearchParams(location.search);
    if (name === "rerail") query.delete("definition"); else query.set("definition", name);
    const text = query.toString();
    history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : "") + location.hash);
    for (const other of document.querySelectorAll("[data-definition]")) {
      other.setAttribute("aria-pressed", String(other.dataset.definition === name));
    }
    dash_clientside.set_props("run-definition-wanted", { data: name });
  }

  async function copy(button, text) {
    const before = button.dataset.label || (button.dataset.label = button.textContent);
    try {
      if (navigator.clipboard) await navigator.clipboard.writeText(text);
      else copyWithSelection(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "not allowed";
    }
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  function copyWithSelection(text) {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  /** What a cell shows, for a program: its value where it has one, an instant in ISO 8601, a length in seconds, a share as
      a number, without the marks that part thousands. */
  function valueOf(cell) {
    if (cell.dataset.value !== undefined) return cell.dataset.value;
    const instant = cell.querySelector("time.at");
    if (instant && instant.textContent.trim() === cell.textContent.trim()) return instant.dateTime;
    const text = cell.innerText.replace(/[\s\u202f\u2009\u00a0]+/g, " ").trim();
    const plain = text.replace(/\u2212/g, "-").replace(/(\d) (?=\d{3}\b)/g, "$1");
    const share = /^(-?[\d.]+) ?%$/.exec(plain);
    if (share) return String(Math.round(Number(share[1]) * 1e4) / 1e6);
    const seconds = lengthOf(plain);
    if (seconds !== null) return String(seconds);
    return /^[+-]?[\d.]+( (GPU-h|points?))?$/.test(plain) ? plain.replace(/ .*$/, "").replace(/^\+/, "") : text === "–" ? "" : text;
  }

  const UNITS = { d: 86400, h: 3600, min: 60, s: 1, ms: 0.001, µs: 0.000001 };

  /** "2 h 3 min" as seconds; null where it is no length. */
  function lengthOf(text) {
    if (!/^-?(\d+(\.\d+)? ?(d|h|min|ms|µs|s) ?)+$/.test(text)) return null;
    let sum = 0;
    for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?) ?(d|h|min|ms|µs|s)(?![a-z])/g)) sum += Number(count) * UNITS[unit];
    return Math.round(sum * 1e6) / 1e6 * (text.startsWith("-") ? -1 : 1);
  }

  /** The tables of a panel as CSV. A cell that a spreadsheet would run as a formula gets an apostrophe. */
  function csv(panel) {
    const quote = (cell) => {
      let text = valueOf(cell).replace(/\s+/g, " ").trim();
      if (/^[=+@]/.test(text) || /^-\D/.test(text)) text = "'" + text;
      return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const lines = [];
    panel.querySelectorAll("table").forEach((table, index) => {
      const rows = [...table.rows].filter((row) => index === 0 || !table.caption.textContent.endsWith("continued") || row.parentElement.tagName === "TBODY");
      rows.forEach((row) => lines.push([...row.cells].map(quote).join(",")));
    });
    return lines.join("\n");
  }

  function saveTable(panel) {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob(["\ufeff", csv(panel), "\n"], { type: "text/csv;charset=utf-8" }));
    anchor.download = `rerail-${location.pathname.slice(1).replace(/[^\w.-]+/g, "-")}-${panel.id}.csv`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
  }

  function savePicture() {
    const plot = document.querySelector("#timeline .js-plotly-plot");
    if (!plot || !window.Plotly) return;
    window.Plotly.downloadImage(plot, { format: "png", scale: 2, width: plot.offsetWidth, height: plot.offsetHeight,
      filename: `rerail-${(document.getElementById("run-page") || { dataset: {} }).dataset.run || "run"}` });
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.id === "compare-add") addSide();
  });

  /* ── keys ─────────────────────────────────────────────────────────────────────────────────────────────── */
  let pending = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && event.target.matches('#page input[id$="-search"]')) event.target.blur();
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const key = event.key;
    if (pending === "g") {
      pending = "";
      event.preventDefault(); // no key of the page by itself
      if (key === "r") go("/runs");
      if (key === "f") go("/");
      if (key === "a") go("/alerts");
      if (key === "p") go("/problems");
      if (key === "n") go("/nodes");
      if (key === "d") go("/data");
      if (key === "k") go("/knowledge");
      if (key === "c") go("/configs");
      return;
    }
    if (key === "g") { pending = "g"; setTimeout(() => { pending = ""; }, 1200); return; }
    if (key === "?") { dash_clientside.set_props("help", { opened: true }); return; }
    if (key === "/") { event.preventDefault(); search(); return; }
    if (key === "[" || key === "]") {
      const link = document.getElementById(key === "[" ? "previous-incident" : "next-incident");
      if (link) go(link.href);
    }
  });

  function search() {
    const field = document.querySelector('#page input[id$="-search"]');
    if (field) { field.focus(); field.select(); return; }
    go("/knowledge");
    when(() => document.querySelector("#knowledge-search"), (found) => found.focus());
  }

  function when(find, then, tries = 60) {
    const found = find();
    if (found) then(found);
    else if (tries) setTimeout(() => when(find, then, tries - 1), 50);
  }

  /* ── what depends on the page ─────────────────────────────────────────────────────────────────────────── */
  function pageChanged() {
    const titled = document.querySelector("#page [data-title]");
    const title = titled ? `${titled.dataset.title} · rerail` : "rerail";
    if (document.title !== title) document.title = title;
    for (const anchor of document.querySelectorAll(".nav-link")) {
      const here = location.pathname;
      const current = here === anchor.pathname || here.startsWith(anchor.pathname + "/")
        || (anchor.pathname === "/runs" && here.startsWith("/incidents"));
      if (current && !anchor.hasAttribute("aria-current")) {
        const bar = anchor.parentElement; // on a telephone the names are wider than the screen
        bar.scrollLeft = anchor.offsetLeft - (bar.clientWidth - anchor.offsetWidth) / 2;
      }
      if (current) anchor.setAttribute("aria-current", "page"); else anchor.removeAttribute("aria-current");
    }
    for (const line of document.querySelectorAll(".command-line")) {
      if (line.textContent.includes("{server}")) {
        line.textContent = line.textContent.replaceAll("{server}", location.origin);
      }
    }
    if (location.hash && pageChanged.revealed !== location.href && reveal(location.hash)) {
      pageChanged.revealed = location.href;
    }
    if (window.rerailLive) window.rerailLive.readAsOf();
  }

  function schemeChanged() {
    const scheme = document.documentElement.getAttribute("data-mantine-color-scheme");
    document.body.setAttribute("data-ag-theme-mode", scheme);
    if (window.rerailTimeline) window.rerailTimeline.redraw();
  }

  function start() {
    let queued = false;
    new MutationObserver(() => {
      if (queued) return;
      queued = true;
      requestAnimationFrame(() => { queued = false; pageChanged(); });
    }).observe(document.body, { subtree: true, childList: true });
    new MutationObserver(schemeChanged).observe(document.documentElement, {
      attributes: true, attributeFilter: ["data-mantine-color-scheme"],
    });
    schemeChanged();
  }

  window.rerailShell = { ask, go, reveal, when };
  if (document.body) start(); else addEventListener("DOMContentLoaded", start);

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    rerail: {
      choose_zone(zone) {
        window.rerailTimes.state.zone = zone;
        window.rerailTimes.show(document.body);
        window.rerailTimes.name();
        window.rerailTimeline.redraw();
        if (window.rerailGrid) window.rerailGrid.redraw();
        if (window.rerailLive) window.rerailLive.tick();
        return dash_clientside.no_update;
      },
      filter_runs(search, state) {
        const query = new URLSearchParams(location.search);
        if (search) query.set("q", search); else query.delete("q");
        if (state) query.set("state", state); else query.delete("state");
        const text = query.toString();
        ask(text, search || "", state || "");
        if (window.rerailGrid) window.rerailGrid.purge();
        return dash_clientside.no_update;
      },
    },
  });
})();
