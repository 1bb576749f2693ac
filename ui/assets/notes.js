/* Notes: writes, changes and undoes them through the API; and asks what is known.

   What is being typed is kept in this browser until it is saved or thrown away, one draft for each note and subject. A
   change says which revision it was made of: where somebody else was faster, the text stays in the editor, theirs stands
   beside it, and nothing is saved until it is said which of both holds. */
(function () {
  const AUTHOR = "rerail-author";
  const TOKEN = "rerail-token";
  const DRAFT = "rerail-note-draft";
  const find = (id) => document.getElementById(id);
  const part = () => find("notes");
  let writing = null; // {id, revision, start, end}

  const bytes = (text) => new TextEncoder().encode(text).length;
  const size = (count) => (count < 1000 ? `${count} B` : count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`);
  const draftKey = (id) => `${DRAFT}:${part().dataset.subjectKind}:${part().dataset.subject}:${id || "new"}`;

  function say(words, isBad = false) {
    const line = find("note-said");
    if (!line) return;
    line.textContent = words;
    line.className = isBad ? "exclude-bad" : "muted";
  }

  function keepDraft() {
    if (!writing) return;
    const text = find("note-text").value;
    try {
      if (text.trim() && text !== writing.original) localStorage.setItem(draftKey(writing.id), JSON.stringify({ ...writing, text }));
      else localStorage.removeItem(draftKey(writing.id));
    } catch { say("Too long to be kept as a draft in this browser; it is only here.", true); }
  }

  function draftOf(id) {
    try { return JSON.parse(localStorage.getItem(draftKey(id)) || "null"); } catch { return null; }
  }

  function measure() {
    const longest = Number(part().dataset.longest);
    const count = bytes(find("note-text").value);
    const isTooLong = count > longest;
    find("note-size").textContent = count > longest * 0.8 ? `${size(count)} of at most ${longest / 1024} kB` : "";
    find("note-size").className = isTooLong ? "exclude-bad" : "muted";
    return isTooLong;
  }

  function show(tab) {
    const isPreview = tab === "preview";
    find("note-text").hidden = isPreview;
    find("note-preview").hidden = !isPreview;
    for (const button of find("note-editor").querySelectorAll("[data-note=write], [data-note=preview]")) {
      button.setAttribute("aria-pressed", String(button.dataset.note === tab));
    }
    if (isPreview) preview(); else find("note-text").focus();
  }

  async function preview() {
    const place = find("note-preview");
    const answer = await fetch("/figures/notes/preview", {
      method: "POST", headers: { "Content-Type": "text/plain; charset=utf-8" }, body: find("note-text").value,
    });
    place.setAttribute("data-markup", answer.ok ? await answer.text() : JSON.stringify(["It cannot be shown: it is too long."]));
  }

  function range(start, end) {
    const shown = (at) => new Date(Number(BigInt(at) / 1000000n)).toISOString().slice(0, 19).replace("T", " ");
    return `${shown(start)} – ${shown(end)} UTC`;
  }

  function open(what, original = "") {
    writing = { ...what, original };
    const draft = draftOf(what.id);
    find("note-text").value = draft ? draft.text : original;
    if (draft && draft.start) { writing.start = draft.start; writing.end = draft.end; }
    if (draft && draft.revision && what.revision && draft.revision < what.revision) writing.revision = draft.revision;
    find("note-about").textContent = what.id ? `note-${what.id}` : writing.start ? `On ${range(writing.start, writing.end)}` : "New note";
    find("note-editor").hidden = false;
    find("note-merge").hidden = true;
    dash_clientside.set_props("note-author", { value: localStorage.getItem(AUTHOR) || "" });
    say(draft ? "Your draft is back." : "");
    show("write");
    measure();
    find("note-editor").scrollIntoView({ block: "nearest" });
  }

  function close() {
    keepDraft();
    find("note-editor").hidden = true;
    writing = null;
    // Else the next Tab begins at the top of the page.
    const button = document.querySelector("[data-note=new]");
    if (button) button.focus({ preventScroll: true });
  }

  function headers() {
    const typed = (find("note-token") || { value: "" }).value.trim();
    if (typed) sessionStorage.setItem(TOKEN, typed);
    const token = typed || sessionStorage.getItem(TOKEN);
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  function author() {
    const typed = find("note-author").value.trim();
    if (typed) localStorage.setItem(AUTHOR, typed);
    return typed || localStorage.getItem(AUTHOR) || undefined;
  }

  async function ask(where, body) {
    let answer;
    try {
      answer = await fetch(where, { method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(body) });
    } catch { throw new Error("The server does not answer; your text is still here."); }
    const told = await answer.json().catch(() => ({}));
    if (answer.ok) return told;
    if (answer.status === 401) { sessionStorage.removeItem(TOKEN); find("note-token-part").hidden = false; }
    const error = told.error || {};
    const refused = new Error(error.message ? `${error.message}.${error.hint ? ` ${error.hint}.` : ""}` : `The server answered ${answer.status}.`);
    refused.told = told;
    refused.status = answer.status;
    throw refused;
  }

  async function save() {
    const text = find("note-text").value;
    if (measure()) {
      const longest = Number(part().dataset.longest) / 1024;
      say(`It has ${size(bytes(text))}; the most is ${longest} kB. Nothing was saved and the text is still here: shorten it, or attach it as a file.`, true);
      return;
    }
    say("…");
    const { id, revision, start, end } = writing;
    try {
      if (id) await ask(`/api/v1/notes/${id}/revisions`, { action: "edit", revision, text, author: author() });
      else {
        const { subjectKind, subject } = part().dataset;
        await ask("/api/v1/notes", { subject_kind: subjectKind, subject, text, author: author(), ...(start ? { start, end } : {}) });
      }
    } catch (error) {
      if (error.status === 409 && error.told.theirs) merge(error.told, text);
      else say(error.message, true);
      return;
    }
    try { localStorage.removeItem(draftKey(id)); } catch { /* nothing was kept */ }
    find("note-editor").hidden = true;
    writing = null;
    await redraw();
  }

  /** Their text beside mine; lines that the other does not have are marked. */
  function merge(told, mine) {
    const place = find("note-merge");
    const theirs = told.theirs.text === null ? "" : told.theirs.text;
    const column = (title, text, other) => {
      const known = new Set(other.split("\n"));
      const box = document.createElement("div");
      const head = document.createElement("strong");
      const body = document.createElement("pre");
      head.textContent = title;
      for (const line of text.split("\n")) {
        const piece = document.createElement(known.has(line) ? "span" : "mark");
        piece.textContent = `${line}\n`;
        body.append(piece);
      }
      box.append(head, body);
      return box;
    };
    const button = (words, act) => {
      const made = document.createElement("button");
      made.type = "button"; made.className = "quiet-button"; made.textContent = words;
      made.addEventListener("click", act);
      return made;
    };
    const settle = (text, words) => {
      if (text !== null) find("note-text").value = text;
      writing.revision = told.theirs.revision;
      place.hidden = true;
      measure(); keepDraft(); say(words); show("write");
    };
    const by = told.theirs.changed_by || "somebody";
    const columns = document.createElement("div");
    columns.className = "note-columns";
    columns.append(column(told.theirs.deleted ? `${by} deleted it` : `As ${by} left it`, theirs, mine), column("Yours, not saved", mine, theirs));
    const choices = document.createElement("div");
    choices.className = "note-choices";
    choices.append(
      button("Both, theirs first", () => settle(`${theirs}\n\n${mine}`, "Both are in the editor; make one of them, then save.")),
      button("Mine over theirs", () => settle(null, "Save writes yours as the next revision; theirs stays in the history.")),
      button("Theirs, drop mine", () => settle(theirs, "Theirs is in the editor.")),
    );
    place.replaceChildren(columns, choices);
    place.hidden = false;
    say(told.theirs.deleted ? `${by} deleted it meanwhile: undo that first, your text is kept here.`
      : `${by} saved another text meanwhile. Nothing is lost: both stand above, choose what goes on.`, true);
  }

  async function redraw() {
    const { subjectKind, subject, alone } = part().dataset;
    const query = alone ? new URLSearchParams({ note: alone }) : new URLSearchParams({ kind: subjectKind, name: subject });
    const answer = await fetch(`/figures/notes?${query}`);
    if (answer.ok) find("notes-list").setAttribute("data-markup", await answer.text());
    if (window.rerailTimeline) window.rerailTimeline.redraw();
  }

  async function change(button, action) {
    const { noteId, revision } = button.closest("[data-note-id]").dataset;
    if (action === "delete" && button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.textContent = "delete it?";
      setTimeout(() => { button.dataset.sure = ""; button.textContent = "delete"; }, 4000);
      return;
    }
    const body = { action, revision: Number(revision), author: author() };
    if (button.dataset.restores) body.restores = Number(button.dataset.restores);
    try { await ask(`/api/v1/notes/${noteId}/revisions`, body); } catch (error) {
      find("note-editor").hidden = false;
      if (!writing) { open({ id: null }); }
      say(error.message, true);
    }
    await redraw();
  }

  async function edit(button) {
    const { noteId } = button.closest("[data-note-id]").dataset;
    const answer = await fetch(`/api/v1/notes/${noteId}`);
    const told = await answer.json();
    if (writing) keepDraft();
    open({ id: noteId, revision: told.revision }, told.text || "");
  }

  function attach() {
    const input = document.createElement("input");
    input.type = "file";
    input.addEventListener("change", async () => {
      for (const file of input.files) await give(file);
    });
    input.click();
  }

  async function give(file) {
    say(`Attaching ${file.name} …`);
    const query = new URLSearchParams({ name: file.name });
    try {
      const answer = await fetch(`/api/v1/notes/files?${query}`, {
        method: "POST", headers: { "Content-Type": "application/octet-stream", ...headers() }, body: file,
      });
      const told = await answer.json();
      if (!answer.ok) throw new Error(told.error.message);
      const area = find("note-text");
      const words = `[${told.name.replace(/[[\]\\]/g, "\\$&")}](${told.path})`;
      area.setRangeText(words, area.selectionStart, area.selectionEnd, "end");
      measure(); keepDraft(); say("Attached; the text links to it.");
    } catch (error) { say(`${file.name} was not attached: ${error.message}.`, true); }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-note]");
    if (!button || !part()) return;
    const does = button.dataset.note;
    if (does === "new") open({ id: null });
    else if (does === "region") {
      const shown = window.rerailTimeline.shown();
      open(shown ? { id: null, start: shown[0], end: shown[1] } : { id: null });
    } else if (does === "save") save();
    else if (does === "close") close();
    else if (does === "discard") {
      localStorage.removeItem(draftKey(writing.id));
      find("note-editor").hidden = true;
      writing = null;
    } else if (does === "attach") attach();
    else if (does === "write" || does === "preview") show(does);
    else if (does === "edit") edit(button);
    else change(button, does);
  });

  document.addEventListener("input", (event) => {
    if (event.target.id === "note-text") { measure(); keepDraft(); }
    if (event.target.id === "knowledge-search") question();
  });

  document.addEventListener("drop", (event) => {
    if (!event.target.closest || !event.target.closest("#note-editor") || !event.dataTransfer.files.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    for (const file of event.dataTransfer.files) give(file);
  }, true);

  let lastKey = ["", 0];
  document.addEventListener("keydown", (event) => {
    if (event.target.id === "note-text" || (event.target.closest && event.target.closest("#note-editor"))) {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); }
      if (event.key === "Escape") close();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable]")) return;
    const isAfterGo = lastKey[0] === "g" && Date.now() - lastKey[1] < 1300;
    lastKey = [event.key, Date.now()];
    if (event.key === "n" && !isAfterGo && part() && find("note-editor") && find("note-editor").hidden) {
      event.preventDefault();
      open({ id: null });
    }
  });

  /* ── asking what is known ─────────────────────────────────────────────────────────────────────────────── */
  let asked = null;
  let soon = null;

  function question() {
    clearTimeout(soon);
    soon = setTimeout(async () => {
      const text = find("knowledge-search").value;
      history.replaceState(history.state, "", text ? `/knowledge?${new URLSearchParams({ q: text })}` : "/knowledge");
      if (asked) asked.abort();
      asked = new AbortController();
      try {
        const answer = await fetch(`/figures/search?${new URLSearchParams({ q: text })}`, { signal: asked.signal });
        if (answer.ok) find("knowledge-results").setAttribute("data-markup", await answer.text());
      } catch { /* a newer question, or no server: what is shown stays */ }
    }, 120);
  }

  /** The box is made here, so that no callback wipes out what is being typed. */
  function makeBox() {
    const place = find("knowledge-box");
    if (!place || place.firstChild) return;
    const input = document.createElement("input");
    input.type = "search";
    input.id = "knowledge-search";
    input.className = "knowledge-search";
    input.placeholder = "What do you want to know?   /";
    input.autocomplete = "off";
    input.spellcheck = false;
    input.setAttribute("aria-label", "Search everything that is known");
    input.value = find("knowledge-value").dataset.value;
    place.append(input);
    input.focus({ preventScroll: true });
  }

  function start() {
    new MutationObserver(makeBox).observe(document.body, { subtree: true, childList: true });
    makeBox();
  }

  window.rerailNotes = { redraw };
  if (document.body) start(); else addEventListener("DOMContentLoaded", start);
})();
