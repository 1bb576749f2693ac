/* Live: which runs changed, and how old is what one sees.

   One stream per browser where the browser can tell who holds it (navigator.locks), since HTTP/1.1 allows six connections
   to a host: the tab with the lock listens and tells the others. Where there is no stream, ask every few seconds. */
(function () {
  const channel = window.BroadcastChannel ? new BroadcastChannel("rerail-live") : null;
  const POLL_MS = 4000;
  const state = { asOf: null, heard: null, lost: null, cursor: null, newest: null, alertsAt: null };

  /* Pages that are of no one run: drawn again when anything changed, but not all the time. */
  const SLOW_MS = 10000;
  const again = (property) => () => dash_clientside.set_props(property, { data: { n: Date.now() } });
  function list(name) {
    // A new value each time, so that the list is asked for again; what is after the point is no row.
    const kept = Number(new URLSearchParams(location.search).get("offset") || 0);
    return () => dash_clientside.set_props(`${name}-offset`, { data: kept + Math.random() / 2 });
  }
  const PAGES = {
    "problem-page": () => again("problem-live"), "node-page": () => again("node-live"),
    "fleet-page": () => again("fleet-live"), "problems-page": () => list("problems"), "nodes-page": () => list("nodes"),
  };

  function elsewhere(message) {
    const isNew = (name, value) => {
      const before = state[name];
      state[name] = value;
      return before !== null && value !== undefined && before !== value;
    };
    const isChanged = isNew("newest", message.newest);
    if (isNew("alertsAt", message.alerts_at) && document.getElementById("alerts-page")) {
      soon("alerts-page", () => shown("alerts-page", () => { again("alerts-live")(); list("alerts")(); }));
    }
    if (!isChanged) return;
    for (const [page, draw] of Object.entries(PAGES)) {
      if (document.getElementById(page)) soon(page, () => shown(page, draw()), SLOW_MS);
    }
  }

  /* A page that was left meanwhile is not drawn, and one that nobody sees when somebody does. */
  function shown(page, draw) {
    if (document.hidden) { state.later = [page, draw]; return; }
    if (document.getElementById(page)) draw();
  }

  function changed(runs) {
    const page = document.getElementById("run-page") || document.getElementById("incident-page");
    if (page && runs.includes(page.dataset.run)) refresh(page.id);
    if (document.getElementById("runs-page")) soon("runs", () => window.rerailGrid && window.rerailGrid.refresh());
  }

  function refresh(pageId) {
    soon(pageId, () => {
      if (!document.getElementById(pageId)) return; // left meanwhile: there is nothing to tell it to
      if (document.hidden) { state.missed = pageId; return; }
      const signal = { data: { n: Date.now() } };
      if (pageId === "run-page") {
        dash_clientside.set_props("run-live", signal);
        window.rerailTimeline.heard();
      } else {
        dash_clientside.set_props("incident-live", signal);
      }
    });
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && state.later) {
      const [page, draw] = state.later;
      state.later = null;
      shown(page, draw);
    }
    if (document.hidden || !state.missed) return;
    const page = state.missed;
    state.missed = null;
    if (document.getElementById(page)) refresh(page);
  });

  /* Many facts make many signs; a page is drawn again at most every two seconds. */
  const waiting = new Map();
  function soon(name, act, after = 2000) {
    if (waiting.has(name)) return;
    waiting.set(name, setTimeout(() => { waiting.delete(name); act(); }, after * (waiting.size ? 1.2 : 1)));
  }

  function heard(message) {
    state.heard = Date.now();
    state.lost = null;
    if (message && message.run_ids) {
      state.cursor = message.cursor;
      changed(message.run_ids);
      elsewhere(message);
    }
    tick();
  }

  function lost() {
    if (state.lost === null) state.lost = Date.now();
    tick();
  }

  function listen() {
    const source = new EventSource("/api/v1/events");
    let first = true;
    source.addEventListener("open", () => { heard(null); tell(null); });
    source.addEventListener("changes", (event) => {
      const message = JSON.parse(event.data);
      if (first) { first = false; message.run_ids = []; }
      heard(message);
      tell(message);
    });
    source.onerror = () => {
      lost();
      if (channel) channel.postMessage({ lost: true });
      if (source.readyState === EventSource.CLOSED) { source.close(); setTimeout(poll, POLL_MS); }
    };
    return new Promise(() => {});
  }

  function tell(message) { if (channel) channel.postMessage({ message }); }

  async function poll() {
    try {
      const since = state.cursor === null ? "" : `?since=${state.cursor}`;
      const answer = await fetch(`/api/v1/changes${since}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      heard(await answer.json());
    } catch {
      lost();
    }
    setTimeout(poll, POLL_MS);
  }

  /* ── the dot ──────────────────────────────────────────────────────────────────────────────────────────── */
  function readAsOf() {
    const element = document.querySelector(".as-of time");
    if (element) state.asOf = Date.parse(element.dateTime);
    else if (!document.getElementById("runs-page")) state.asOf = null;
    tick();
  }

  function tick() {
    const dot = document.getElementById("live-dot");
    const text = document.getElementById("live-text");
    const stale = document.getElementById("stale");
    if (!dot || !text || !stale) return;
    const isLost = state.lost !== null && Date.now() - state.lost > 6000;
    // Without figures of a moment on the page, what is seen holds as long as the stream is open.
    const at = state.asOf || (state.heard && Date.now());
    dot.className = isLost ? "is-lost" : state.heard ? "is-live" : "";
    const clock = at ? window.rerailTimes.format(new Date(at), "clock") : "";
    const age = state.asOf ? ` · ${window.rerailTimes.ago(Date.now() - at)}` : "";
    const words = isLost ? "not connected" : at ? `as of ${clock}${age}` : "connecting";
    if (text.textContent !== words) text.textContent = words;
    stale.hidden = !isLost;
    if (isLost) {
      document.getElementById("stale-since").textContent =
        `The server does not answer since ${window.rerailTimes.format(new Date(state.lost), "clock")}.`;
    }
  }

  window.rerailLive = { tick, readAsOf, state, seen(milliseconds) { state.asOf = milliseconds; tick(); } };

  function start() {
    setInterval(tick, 1000);
    if (channel) {
      channel.onmessage = (event) => {
        if (event.data.lost) lost(); else heard(event.data.message);
      };
    }
    if (!window.EventSource) { poll(); return; }
    if (navigator.locks && channel) {
      navigator.locks.request("rerail-live", listen);
      // A tab without the lock learns from the one that has it; until then it asks once, so that its dot is not empty.
      setTimeout(() => { if (state.heard === null) once(); }, 800);
    } else {
      listen();
    }
  }

  async function once() {
    try {
      const answer = await fetch("/api/v1/changes", { cache: "no-store" });
      if (answer.ok) heard(null); else lost();
    } catch { lost(); }
  }

  addEventListener("pagehide", () => { if (channel) channel.close(); });
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start); else start();
})();
