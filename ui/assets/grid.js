/* Grid: the cells of the table of runs. Texts come ready from the server; React escapes what people wrote. */
(function () {
  const element = (...args) => React.createElement(...args);
  const waiting = () => element("span", { className: "cell-wait" });
  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});

  components.RunName = ({ data }) => {
    if (!data) return waiting();
    return element("div", { className: "cell-two" },
      element("a", { href: data.href, className: "strong", title: data.id }, data.run),
      element("span", { className: "muted" },
        element("span", { className: `badge only-narrow badge-${data.open_href || data.is_stalled ? "danger" : data.state === "alive" ? "good" : "outline"}` }, data.outcome || data.state),
        data.error ? element("span", { className: "badge badge-warn", title: data.error }, "figures failed") : null, data.about));
  };

  components.RunStateCell = ({ data }) => {
    if (!data) return null;
    const times = window.rerailTimes;
    const said = (at, before) => at && `${before}${times.format(new Date(at), "full")}`;
    if (data.state === "silent") {
      return element("div", { className: "cell-two" },
        element("span", null, element("span", { className: "badge badge-outline" }, "silent")),
        element("span", { className: "muted" }, said(data.silent_since, "since ")));
    }
    if (data.state === "ended") {
      return element("div", { className: "cell-two" },
        element("span", null, element("span", { className: "badge badge-quiet" }, data.outcome || "ended")),
        element("span", { className: "muted" }, said(data.last_heard, "")));
    }
    const isBad = data.open_href || data.is_stalled;
    return element("div", { className: "cell-two" },
      element("span", null, element("span", { className: `badge badge-${isBad ? "danger" : "good"}` },
        element("i", { className: `dot dot-${isBad ? "danger" : "good"}` }), data.is_stalled ? "stalled" : "alive")),
      element("span", { className: "muted" }, data.open_href
        ? element("a", { href: data.open_href }, "incident open") : data.phase || ""));
  };

  components.GoodputPair = ({ data }) => {
    if (!data) return null;
    const row = (value, text, name) => element("div", { className: `good-row good-${name}` },
      element("span", { className: "good-track" }, element("span", { style: { width: `${(value || 0) * 100}%` } })),
      element("span", { className: "good-text" }, text));
    return element("div", { className: "good-pair", title: `training ${data.training_text}, infrastructure ${data.infrastructure_text}${data.infrastructure_least}` },
      row(data.training, data.training_text, "training"), row(data.infrastructure, data.infrastructure_text, "infrastructure"));
  };

  components.PhaseBar = ({ data }) => {
    if (!data) return null;
    return element("div", { className: "cell-two" },
      element("div", { className: "parts parts-cell", role: "img", "aria-label": data.phases.map((one) => one[2]).join(", ") },
        data.phases.map(([phase, share, title]) => element("span", { key: phase, className: `ph ph-${phase}`, style: { width: `${share * 100}%` }, title }))),
      element("span", { className: "muted" }, data.phases_text));
  };

  components.Strip = ({ value }) => {
    if (!value) return null;
    const edge = (place) => `${(100 * place / value.lost.length).toFixed(2)}%`;
    const colors = value.lost.map((which) => (which < 0 ? "transparent" : `var(--phase-${value.names[which]})`));
    const lost = colors.map((color, place) => `${color} ${edge(place)} ${edge(place + 1)}`).join(", ");
    const heights = value.productive.flatMap((share, place) => [`${edge(place)} ${100 - share}%`, `${edge(place + 1)} ${100 - share}%`]);
    const about = { title: value.text, "aria-label": value.text };
    return element("div", { className: "strip-cell", role: "img", ...about, style: { backgroundImage: `linear-gradient(90deg, ${lost})` } },
      element("i", { style: { clipPath: `polygon(0% 100%, ${heights.join(", ")}, 100% 100%)` } }));
  };

  components.Pair = ({ value }) => {
    if (!value) return null;
    return element("div", { className: "cell-two" },
      element("span", null, value[0]), element("span", { className: "muted" }, value[1]));
  };

  functions.rerailGridTheme = (theme) => theme.withParams({
    backgroundColor: "var(--surface)", foregroundColor: "var(--ink)", headerBackgroundColor: "var(--surface)",
    headerTextColor: "var(--muted)", borderColor: "var(--line)", rowHoverColor: "var(--raised)", accentColor: "var(--accent)",
    fontFamily: "var(--font)", fontSize: 13, headerFontSize: 12, headerFontWeight: 500, wrapperBorderRadius: 8, spacing: 6,
    headerColumnBorder: false, headerColumnResizeHandleColor: "transparent", columnBorder: false,
  });

  const grid = () => {
    try { return window.dash_ag_grid && document.getElementById("runs-grid") ? dash_ag_grid.getApi("runs-grid") : null; } catch { return null; }
  };

  /* A phone shows what fits: the name, how it is, how good it is. */
  const NARROW = { state: 560, faults: 900, recover: 760, checkpoint: 1100, step: 1000, phases: 620, strip: 820 };
  function fit() {
    const api = grid();
    if (!api || api.isDestroyed()) return;
    const width = document.getElementById("runs-grid").clientWidth;
    for (const [column, least] of Object.entries(NARROW)) {
      const wanted = width >= least;
      const found = api.getColumn(column);
      if (found && found.isVisible() !== wanted) api.setColumnsVisible([column], wanted);
    }
  }
  addEventListener("resize", () => setTimeout(fit, 150));

  /* The order is in the address, as search and state are. */
  function written(api) {
    if (!document.getElementById("runs-page")) return;
    const query = new URLSearchParams(location.search);
    const [first] = api.getColumnState().filter((column) => column.sort);
    if (first) query.set("sort", first.colId); else query.delete("sort");
    if (first && first.sort === "asc") query.set("order", "asc"); else query.delete("order");
    const text = query.toString();
    history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
  }
  /* Keys move from cell to cell, and Enter opens what a cell (else its row) links to. */
  document.addEventListener("keydown", (event) => {
    const cell = event.key === "Enter" && event.target.closest && event.target.closest("#runs-grid .ag-cell");
    if (!cell || event.target.closest("a")) return;
    const anchor = cell.querySelector("a[href]") || cell.closest(".ag-row").querySelector("a[href]");
    if (anchor) window.rerailShell.go(anchor.href);
  });
  /* j and k move from row to row, as in other lists, on from the cell that had the focus last. */
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "j" && event.key !== "k")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const api = grid();
    const count = api && !api.isDestroyed() ? api.getDisplayedRowCount() : 0;
    if (!count) return;
    const here = api.getFocusedCell();
    const next = here ? Math.min(count - 1, Math.max(0, here.rowIndex + (event.key === "j" ? 1 : -1))) : 0;
    api.ensureIndexVisible(next);
    api.setFocusedCell(next, here ? here.column : api.getAllDisplayedColumns()[0]);
  });
  const seen = new WeakSet();
  setInterval(() => {
    const frame = document.getElementById("runs-grid");
    const api = frame && grid();
    if (api && !seen.has(api)) { seen.add(api); fit(); api.addEventListener("sortChanged", () => written(api)); }
  }, 150);

  window.rerailGrid = {
    purge() { const api = grid(); if (api) api.purgeInfiniteCache(); },
    refresh() { const api = grid(); if (api) api.refreshInfiniteCache(); },
    redraw() { const api = grid(); if (api) api.refreshCells({ force: true }); },
  };
})();
