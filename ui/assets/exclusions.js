/* Exclusions: declares a window of a run out of account, undoes one, and undoes that, through the API.

   The form begins with the range the timeline shows, in the reader's zone. The name is remembered in this browser, a
   token only until it is closed. After an answer the figures take a moment: the list is asked until it knows, and then
   page and picture are drawn again. */
(function () {
  const AUTHOR = "rerail-author";
  const TOKEN = "rerail-token";
  const two = (number) => String(number).padStart(2, "0");
  const value = (id) => (document.getElementById(id) || { value: "" }).value.trim();
  const put = (id, text) => dash_clientside.set_props(id, { value: text });

  function address(rest = "") {
    return `/api/v1/runs/${encodeURIComponent(document.getElementById("run-page").dataset.run)}/exclusions${rest}`;
  }

  /** Minutes east of UTC as ISO 8601 has them. */
  function zone(offset) {
    const size = Math.abs(offset);
    return `${offset < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
  }

  function shown(nanoseconds) {
    const at = Number(BigInt(nanoseconds) / 1000000n);
    const offset = window.rerailTimes.offset(at);
    return new Date(at + offset * 60000).toISOString().replace("T", " ").replace("Z", "").replace(/\.000$/, "") + zone(offset);
  }

  /** What was typed, with the reader's zone where none was. */
  function instant(text) {
    if (!/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return text;
    const at = Date.parse(`${text.replace(" ", "T")}Z`);
    return text + zone(window.rerailTimes.offset(at));
  }

  function say(text, isBad = false) {
    const line = document.getElementById("exclude-said");
    line.textContent = text;
    line.className = isBad ? "exclude-bad" : "";
  }

  function open(isOpen) {
    document.getElementById("exclude-form").hidden = !isOpen;
    if (!isOpen) return;
    say("");
    const range = window.rerailTimeline.shown();
    if (range) { put("exclude-start", shown(range[0])); put("exclude-end", shown(range[1])); }
    put("exclude-author", localStorage.getItem(AUTHOR) || "");
    document.getElementById("exclude-reason").focus();
  }

  async function ask(method, where, body) {
    const headers = {};
    const typed = value("exclude-token");
    if (typed) sessionStorage.setItem(TOKEN, typed);
    const token = typed || sessionStorage.getItem(TOKEN);
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(where, { method, headers, body: body ? JSON.stringify(body) : undefined });
    const told = await answer.json().catch(() => ({}));
    if (answer.ok) return told;
    if (answer.status === 401) {
      sessionStorage.removeItem(TOKEN);
      document.getElementById("exclude-form").hidden = false;
      document.getElementById("exclude-token-part").hidden = false;
    }
    const error = told.error || {};
    throw new Error(error.message ? `${error.message}.` : `The server answered ${answer.status}.`);
  }

  /** Wait until the figures know of it, then draw page and picture again. */
  async function settle(window_) {
    for (let turn = 0; turn < 60; turn += 1) {
      const { exclusions } = await ask("GET", address());
      const known = exclusions.find((one) => one.window === window_.window);
      if (known && known.withdrawn === window_.withdrawn && known.changes.length >= window_.changes.length) break;
      await new Promise((go) => { setTimeout(go, 250); });
    }
    dash_clientside.set_props("run-live", { data: { n: Date.now() } });
    window.rerailTimeline.redraw();
  }

  async function send() {
    const author = value("exclude-author");
    localStorage.setItem(AUTHOR, author);
    const body = { start: instant(value("exclude-start")), end: instant(value("exclude-end")) };
    if (value("exclude-reason")) body.reason = value("exclude-reason");
    if (author) body.author = author;
    say("…");
    await settle(await ask("POST", address(), body));
    put("exclude-reason", "");
    open(false);
  }

  async function change(name, isUndone) {
    const author = localStorage.getItem(AUTHOR);
    const query = author ? `?${new URLSearchParams({ author })}` : "";
    const one = `/${encodeURIComponent(name)}`;
    await settle(await ask(isUndone ? "DELETE" : "POST", address(isUndone ? `${one}${query}` : `${one}/restore${query}`)));
  }

  function act(promise, button) {
    button.disabled = true;
    promise.catch((error) => {
      document.getElementById("exclude-form").hidden = false;
      say(error.message, true);
    }).finally(() => { button.disabled = false; });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-exclude], [data-window-undo], [data-window-redo]");
    if (!button || !document.getElementById("exclude-form")) return;
    const { exclude, windowUndo, windowRedo } = button.dataset;
    if (exclude === "open") open(document.getElementById("exclude-form").hidden);
    else if (exclude === "close") open(false);
    else if (exclude === "send") act(send(), button);
    else act(change(windowUndo || windowRedo, Boolean(windowUndo)), button);
  });
})();
