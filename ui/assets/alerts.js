/* Alerts: what people do with alerts, thresholds and channels, through the API; then the page is drawn anew.

   The name is remembered in this browser, a token only until it is closed. */
(function () {
  const find = (id) => document.getElementById(id);
  const value = (id) => {
    const field = find(id);
    const hidden = field && field.parentElement.parentElement.querySelector("input[type=hidden]");
    return (hidden && hidden.value ? hidden.value : field ? field.value : "").trim();
  };
  const put = (id, text) => dash_clientside.set_props(id, { value: text });

  function say(id, words, isBad = false) {
    const line = find(id);
    if (!line) return;
    line.textContent = words;
    line.classList.toggle("alert-bad", isBad);
    clearTimeout(say.later);
    if (id === "alert-said" && words) say.later = setTimeout(() => line.replaceChildren(), 30000);
  }

  async function ask(method, path, body) {
    const headers = { "Content-Type": "application/json" };
    const typed = value("alert-token");
    if (typed) sessionStorage.setItem("rerail-token", typed);
    const token = typed || sessionStorage.getItem("rerail-token");
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error((told.error && told.error.message) || `The server answered ${answer.status}.`);
    return told;
  }

  function redraw() {
    dash_clientside.set_props("alerts-live", { data: { n: Date.now() } });
    const kept = Number(new URLSearchParams(location.search).get("offset") || 0);
    // A new value each time, so that the list is asked for again; what is after the point is no row.
    dash_clientside.set_props("alerts-offset", { data: kept + Math.random() / 2 });
  }

  const author = () => { const name = value("alert-author"); return name ? { author: name } : {}; };
  const reason = () => { const words = value("alert-reason"); return words ? { reason: words } : {}; };

  const two = (number) => String(number).padStart(2, "0");

  /** What a field of day and time says, in ms since 1970, in the zone that times are shown in. */
  const picked = (text) => Date.parse(window.rerailTimes.state.zone === "utc" ? `${text}Z` : text);

  /** A field for the instant beside the button; the next click takes it. */
  function pick(button) {
    const field = document.createElement("input");
    field.type = "datetime-local";
    field.className = "alert-until";
    field.setAttribute("aria-label", `Silent until, ${(find("zone-name") || {}).textContent || "local time"}`);
    const isUtc = window.rerailTimes.state.zone === "utc";
    const tomorrow = new Date(Date.now() + 86400000 - (isUtc ? 0 : new Date().getTimezoneOffset() * 60000));
    field.value = `${tomorrow.getUTCFullYear()}-${two(tomorrow.getUTCMonth() + 1)}-${two(tomorrow.getUTCDate())}T09:00`;
    button.before(field);
    button.textContent = "silence";
    field.addEventListener("keydown", (event) => { if (event.key === "Enter") button.click(); });
    field.focus();
  }

  /** What was done to a group, with the way to take it back: from here at once, later from each alert's history. */
  function sayDone(group, done) {
    say("alert-said", `${SAYS[done.actions[0].action]} ${done.count} ${done.count === 1 ? "alert" : "alerts"}. `);
    if (done.actions[0].action === "undo") return;
    const undo = document.createElement("button");
    undo.type = "button";
    undo.className = "quiet-button";
    undo.textContent = "undo";
    Object.assign(undo.dataset, { group, does: "undo", undoes: done.actions[0].action_id });
    find("alert-said").append(undo);
  }
  const SAYS = { acknowledge: "Acknowledged", silence: "Silenced", unsilence: "Ended the silence of", resolve: "Resolved",
    undo: "Undone for" };

  /** Whether somebody says who they are: asked once where the name is empty; who does it again goes on without. */
  function isNamed(line) {
    if (value("alert-author") || isNamed.asked) return true;
    isNamed.asked = true;
    say(line, "Who are you? Write your name, or do it again to go without one.", true);
    find("alert-author").focus();
    return false;
  }

  async function act(button) {
    const { alert, group, does, revision, seconds, undoes, search, standing, run } = button.dataset;
    const field = button.dataset.pick && button.parentElement.querySelector(".alert-until");
    if (button.dataset.pick && !field) { pick(button); return; }
    if (!isNamed("alert-said")) return;
    const body = { action: does, ...author(), ...(does === "undo" ? {} : reason()) };
    if (revision) body.revision = Number(revision);
    if (seconds) body.seconds = Number(seconds);
    if (group && does !== "undo") Object.assign(body, search && { search }, standing && { standing }, run && { run });
    if (field) {
      const until = picked(field.value);
      if (Number.isNaN(until)) throw new Error("Say a day and a time until when it is silent.");
      body.until = until * 1e6;
    }
    if (undoes) body.undoes = Number(undoes);
    const path = group ? `groups/${encodeURIComponent(group)}` : encodeURIComponent(alert);
    const done = await ask("POST", `/api/v1/alerts/${path}/actions`, body);
    put("alert-reason", "");
    if (group) sayDone(group, done); else say("alert-said", "Done.");
    redraw();
  }

  async function channel(button) {
    const { channel: id, does } = button.dataset;
    const path = `/api/v1/alerts/channels/${id}`;
    if (does === "remove" && button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "remove it?";
      return;
    }
    if (does === "test") { await ask("POST", `${path}/test`); say("channel-said", "A test is on its way; see Messages."); }
    else if (does === "remove") await ask("DELETE", path);
    else await ask("PATCH", path, { is_on: does === "on" });
    setTimeout(redraw, does === "test" ? 1500 : 0);
  }

  function threshold() {
    const typed = value("threshold-value");
    const name = value("threshold-name");
    const rule = value("threshold-rule").toLowerCase().replaceAll(" ", "_"); // its name, or the label of the choice
    const body = { rule, values: { [name]: typed === "" ? null : Number.isFinite(Number(typed)) ? Number(typed) : typed } };
    if (value("threshold-project")) body.project = value("threshold-project");
    return body;
  }

  async function dryRun() {
    say("threshold-said", "Looking at the last 30 days …");
    const mine = (dryRun.newest = (dryRun.newest || 0) + 1);
    let told = await ask("POST", "/api/v1/alerts/rules/dry-run", { ...threshold(), wait_seconds: 0.5 });
    while (!told.is_done && find("threshold-said")) {
      if (mine !== dryRun.newest) return;
      say("threshold-said", `${told.looked_at + told.without_log} of ${told.runs} runs, ${alerts(told.alerts)} so far ` +
        `(${told.alerts_now} with the thresholds in force) …`);
      told = await ask("GET", `/api/v1/alerts/rules/dry-run/${told.dry_run}?wait_seconds=0.7`);
    }
    if (mine === dryRun.newest) say("threshold-said", outcome(told));
  }
  const alerts = (times) => `${times} ${times === 1 ? "alert" : "alerts"}`;

  /** What a dry run came to; at least that where not every run was looked at. */
  function outcome(done) {
    const lead = done.is_whole ? "" : "At least ";
    const missing = done.is_whole ? ` on ${done.runs} runs` : ` (${done.looked_at} of ${done.runs} runs looked at` +
      `${done.without_log ? `, the log of ${done.without_log} is gone` : ""})`;
    const newest = done.examples.length ? ` The newest: ${done.examples[0].run_id}: ${done.examples[0].sentence}` : "";
    return `${lead}${alerts(done.alerts)} instead of ${done.is_whole ? "" : "at least "}${done.alerts_now}${missing}.${newest}`;
  }

  async function save() {
    if (!isNamed("threshold-said")) return;
    await ask("POST", "/api/v1/alerts/rules", { ...threshold(), ...author(), ...reason() });
    say("threshold-said", "Saved.");
    redraw();
  }

  async function add() {
    const body = { name: value("channel-name"), kind: value("channel-kind"), address: value("channel-address"), ...author() };
    if (value("channel-secret")) body.secret = value("channel-secret");
    if (find("channel-standing").checked) body.tell_standing = true;
    await ask("POST", "/api/v1/alerts/channels", body);
    for (const part of ["name", "address", "secret"]) put(`channel-${part}`, "");
    dash_clientside.set_props("channel-standing", { checked: false });
    say("channel-said", "Added. Send it a test.");
    redraw();
  }

  function doing(button) {
    if (button.dataset.alert || button.dataset.group) return ["alert-said", () => act(button)];
    if (button.dataset.channel) return ["channel-said", () => channel(button)];
    if (button.dataset.retry) {
      return ["channel-said", () => ask("POST", `/api/v1/alerts/messages/${button.dataset.retry}/retry`).then(redraw)];
    }
    if (button.dataset.rule && button.dataset.undoes) {
      const body = { rule: button.dataset.rule, undoes: Number(button.dataset.undoes), ...author() };
      return ["threshold-said", () => ask("POST", "/api/v1/alerts/rules", body).then(redraw)];
    }
    if (button.dataset.rule) {
      return ["threshold-said", async () => {
        put("threshold-rule", button.dataset.rule);
        put("threshold-name", button.dataset.threshold);
        put("threshold-value", button.dataset.value);
        find("threshold-form").scrollIntoView({ block: "center" });
      }];
    }
    return { "threshold-try": ["threshold-said", dryRun], "threshold-save": ["threshold-said", save],
      "channel-add": ["channel-said", add] }[button.id];
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("#alerts-page button");
    const found = button && doing(button);
    if (!found) return;
    button.disabled = true;
    found[1]().catch((error) => say(found[0], error.message, true)).finally(() => { button.disabled = false; });
  });

  /* a, s, e: to the alert or the group that is in focus. On the window, so that keys of the shell come first. */
  const KEYS = { a: "[data-does=acknowledge]", s: "[data-does=silence][data-seconds='28800']", e: "[data-does=resolve]" };
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const row = event.target.closest("#alerts-page [data-walk] > li");
    const button = row && row.querySelector(`.alert-buttons ${KEYS[event.key]}`);
    if (button) button.click();
  });

  /* The number of open alerts beside their name in the navigation, on every page. */
  async function count() {
    const mark = document.querySelector('.nav-link[href="/alerts"]');
    if (!mark || document.hidden) return;
    const answer = await fetch("/api/v1/alerts?standing=open&limit=1").catch(() => null);
    if (!answer || !answer.ok) return;
    const { total } = await answer.json();
    if (total) mark.dataset.open = total > 999 ? "999+" : total;
    else delete mark.dataset.open;
  }
  setInterval(count, 10000);
  let tries = 0;
  const first = setInterval(() => {
    if (document.querySelector('.nav-link[href="/alerts"]') || ++tries > 50) { clearInterval(first); count(); }
  }, 200);
})();
