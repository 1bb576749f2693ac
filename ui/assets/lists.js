/* Lists: the address of a narrowed list, its pages, and j and k through its rows. */
(function () {
  const lists = { problems: "status", nodes: "level", alerts: "standing", configs: "which" };

  function write(name) {
    return (search, choice, sort, offset) => {
      const query = new URLSearchParams(location.search);
      const put = (key, value) => { if (value) query.set(key, value); else query.delete(key); };
      const asked = JSON.stringify([search, choice, sort]);
      const isOther = write.asked && write.asked[name] !== undefined && write.asked[name] !== asked;
      write.asked = { ...write.asked, [name]: asked };
      put("q", search);
      put(lists[name], choice);
      const bar = document.querySelector(`[data-narrows="${name}"]`);
      put("sort", bar && bar.dataset.order === sort ? "" : sort); // the order that it has anyhow is not said
      // Another question begins with its first page.
      if (isOther && offset) { dash_clientside.set_props(`${name}-offset`, { data: 0 }); put("offset", 0); } else put("offset", Math.floor(offset || 0));
      const text = query.toString();
      window.rerailShell.ask(text, `${name} ${search}`, choice + sort);
      return dash_clientside.no_update;
    };
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    rerail_lists: { filter_status: write("problems"), filter_level: write("nodes"), filter_standing: write("alerts"),
      filter_which: write("configs") },
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-offset]");
    if (!button) return;
    dash_clientside.set_props(`${button.dataset.list}-offset`, { data: Number(button.dataset.offset) });
    scrollTo(0, 0);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "j" && event.key !== "k")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const rows = [...document.querySelectorAll("[data-walk] tbody tr, [data-walk] > li")].filter((row) => row.querySelector("a[href], button"));
    if (!rows.length) return;
    const here = rows.indexOf(document.activeElement.closest("[data-walk] tr, [data-walk] > li"));
    const next = here < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, here + (event.key === "j" ? 1 : -1)));
    (rows[next].classList.contains("alert-group") ? rows[next] : rows[next].querySelector("a[href]")).focus();
    rows[next].scrollIntoView({ block: "nearest" });
  });
})();
