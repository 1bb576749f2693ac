/* Problem actions: what people do with a problem, through the API, and drawing what changed.

   One form serves every action; the fields an action uses are shown. The name is remembered in this browser, a token
   only until it is closed. A request says which revision it was made of, so that nobody overwrites what they did not see. */
(function () {
  const AUTHOR = "rerail-author";
  const TOKEN = "rerail-token";
  const USES = {
    assign: ["assignee", "reason"], resolve: ["reason", "fixed_by"], known: ["reason"], ignore: ["reason"], reopen: ["reason"], rename: ["title", "reason"],
    merge: ["into", "reason"], split: ["facet", "value", "title", "reason"], move: ["into", "reason"],
  };
  const ABOUT = {
    assign: "Who looks after it; lists and all its incidents show the name.",
    resolve: "An incident that begins after this makes it regressed.",
    known: "Somebody knows of it; it is no longer new.",
    ignore: "It stays in the list, and asks nobody for anything.",
    reopen: "It is not resolved after all, or not to be ignored.",
    rename: "What it is called in lists; the fingerprint stays.",
    merge: "All its incidents, and those to come, belong to the other one.",
    split: "These incidents, and those to come that are like them, are a problem of their own.",
    move: "The incident belongs to the other problem, whatever its fingerprint.",
  };
  let doing = null;
  let opener = null;
  const find = (id) => document.getElementById(id);
  const put = (id, value) => dash_clientside.set_props(id, { value });

  function say(text, isBad = false) {
    const line = find("problem-said");
    line.textContent = text;
    line.className = isBad ? "exclude-bad" : "";
  }

  /** What was typed or chosen in a field. A choice shows its label; its value is beside it in a hidden input. */
  function value(name) {
    const field = find(`problem-${name}`);
    const hidden = field && field.closest("[data-part]") && field.closest("[data-part]").querySelector("input[type=hidden]");
    return (hidden ? hidden.value : field ? field.value : "").trim();
  }

  function open(button) {
    const { action, facet, value: known, incidents } = button.dataset;
    doing = { action, facet, known, incidents };
    opener = button;
    const isGiven = (part) => (part === "facet" || part === "value") && (facet || incidents);
    for (const part of document.querySelectorAll("[data-part]")) {
      const name = part.dataset.part;
      part.hidden = name !== "author" && !(USES[action].includes(name) && !isGiven(name));
    }
    find("problem-form-title").textContent = button.textContent + (facet ? `: ${facet} = ${known}` : incidents ? `: ${incidents}` : "");
    find("problem-form-about").textContent = ABOUT[action];
    find("problem-send").textContent = "Confirm";
    find("problem-form").hidden = false;
    for (const name of ["title", "value", "reason", "fixed_by"]) put(`problem-${name}`, "");
    for (const name of ["author", "assignee"]) put(`problem-${name}`, localStorage.getItem(AUTHOR) || "");
    say("");
    find("problem-form").scrollIntoView({ block: "nearest" });
    const first = [...document.querySelectorAll("[data-part]")].find((part) => !part.hidden);
    if (first) first.querySelector("input").focus();
  }

  function close() {
    find("problem-form").hidden = true;
    doing = null;
    if (opener && opener.isConnected) opener.focus();
  }

  async function ask(problem, body) {
    const headers = { "Content-Type": "application/json" };
    const typed = value("token");
    if (typed) sessionStorage.setItem(TOKEN, typed);
    const token = typed || sessionStorage.getItem(TOKEN);
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(`/api/v1/problems/${encodeURIComponent(problem)}/actions`,
      { method: "POST", headers, body: JSON.stringify(body) });
    const told = await answer.json().catch(() => ({}));
    if (answer.ok) return told;
    if (answer.status === 401) { sessionStorage.removeItem(TOKEN); find("problem-token-part").hidden = false; }
    if (answer.status === 409) redraw();
    const error = told.error || {};
    throw new Error(error.message ? `${error.message}.` : `The server answered ${answer.status}.`);
  }

  const shown = () => document.querySelector("[data-problem-id]").dataset;

  function redraw() {
    const signal = { data: { n: Date.now() } };
    dash_clientside.set_props(find("problem-page") ? "problem-live" : "incident-live", signal);
  }

  async function send() {
    const { problemId, revision } = shown();
    const author = value("author");
    localStorage.setItem(AUTHOR, author);
    const body = { action: doing.action, revision: Number(revision) };
    for (const name of USES[doing.action]) if (value(name)) body[name] = value(name);
    if (author) body.author = author;
    if (doing.incidents) { body.incidents = [doing.incidents]; delete body.facet; delete body.value; }
    if (doing.facet) { body.facet = doing.facet; body.value = doing.known; }
    say("…");
    const told = await ask(problemId, body);
    close();
    settle(told, problemId);
  }

  /** Where it went to another problem, go there; else draw this page again. */
  function settle(told, problemId) {
    const isElsewhere = told.action.kind === "merge" || (told.action.kind === "split" && find("problem-page"));
    if (isElsewhere && told.problem.problem_id !== problemId) window.rerailShell.go(`/problems/${told.problem.problem_id}`);
    else redraw();
  }

  async function undo(button) {
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "undo it?";
      setTimeout(() => { button.dataset.sure = ""; button.textContent = "undo"; }, 4000);
      return;
    }
    const author = localStorage.getItem(AUTHOR) || "";
    const body = { action: "undo", undoes: Number(button.dataset.undo) };
    if (button.dataset.undoOf === shown().problemId) body.revision = Number(shown().revision);
    if (author) body.author = author;
    await ask(button.dataset.undoOf, body);
    redraw();
  }

  function act(promise, button) {
    button.disabled = true;
    promise.catch((error) => { find("problem-form").hidden = false; say(error.message, true); })
      .finally(() => { button.disabled = false; });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action], [data-problem], [data-undo]");
    if (!button || !find("problem-form")) return;
    if (button.dataset.action) open(button);
    else if (button.dataset.problem === "send") act(send(), button);
    else if (button.dataset.problem === "close") close();
    else act(undo(button), button);
  });

  document.addEventListener("keydown", (event) => {
    const form = find("problem-form");
    if (!form || form.hidden || !event.target.closest("#problem-form")) return;
    if (event.key === "Escape") close();
    if (event.key === "Enter" && event.target.closest("[data-part=author], [data-part=reason], [data-part=title], [data-part=fixed_by], [data-part=assignee]")) {
      act(send(), find("problem-send"));
    }
  });
})();
