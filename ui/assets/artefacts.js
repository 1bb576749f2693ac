/* Artefacts: gives files to an incident, withdraws one, and undoes that, through the API.

   Files are sent two at a time, each with its own line: how far it is, what was understood, or why not. A dump that does
   not say whose it is asks for its rank there. When all are there, the list is asked until the verdict is made of them,
   and then the page is drawn again. The name is remembered in this browser, a token only until it is closed. */
(function () {
  const AUTHOR = "rerail-author";
  const TOKEN = "rerail-token";
  const AT_ONCE = 2;
  const waiting = [];
  let active = 0;
  let isSettling = false;

  const part = () => document.getElementById("files");
  const incident = () => document.getElementById("incident-page").dataset.incident;
  const address = (rest = "") => `/api/v1/incidents/${encodeURIComponent(incident())}/artefacts${rest}`;
  const value = (id) => (document.getElementById(id) || { value: "" }).value.trim();

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB"];
    let unit = 0;
    while (bytes >= 1000 && unit < 3) { bytes /= 1000; unit += 1; }
    return `${bytes >= 100 || unit === 0 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[unit]}`;
  }

  function headers() {
    const typed = value("give-token");
    if (typed) sessionStorage.setItem(TOKEN, typed);
    const token = typed || sessionStorage.getItem(TOKEN);
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  function refused(status, told) {
    if (status === 401) {
      sessionStorage.removeItem(TOKEN);
      document.getElementById("give-token-part").hidden = false;
    }
    const error = (told && told.error) || {};
    if (!error.message) return status ? `The server answered ${status}.` : "The server does not answer.";
    return `${error.message}.${error.hint ? ` ${error.hint}.` : ""}`;
  }

  /** One line per file under the place to drop. */
  function line(file) {
    const row = document.createElement("div");
    row.className = "give-line";
    for (const name of ["give-name", "give-bar", "give-said"]) {
      const cell = document.createElement("span");
      cell.className = name;
      row.append(cell);
    }
    row.children[0].textContent = `${file.name} · ${size(file.size)}`;
    row.children[1].append(document.createElement("i"));
    document.getElementById("give-progress").append(row);
    return {
      progress(share) { row.children[1].firstChild.style.width = `${Math.round(share * 100)}%`; },
      say(words, tone = "") { row.children[2].textContent = words; row.dataset.tone = tone; row.children[1].hidden = tone !== ""; },
      ask(words, go) {
        const input = document.createElement("input");
        const button = document.createElement("button");
        input.type = "number"; input.min = "0"; input.className = "give-rank"; input.setAttribute("aria-label", "Rank of this dump");
        input.placeholder = "rank";
        button.type = "button"; button.className = "seg seg-alone"; button.textContent = "give again";
        const send = () => { if (input.value !== "" && Number(input.value) >= 0) { row.remove(); go(Number(input.value)); } };
        button.addEventListener("click", send);
        input.addEventListener("keydown", (event) => { if (event.key === "Enter") send(); });
        row.children[2].textContent = `${words} `;
        row.children[2].append(input, " ", button);
        row.dataset.tone = "bad";
        row.children[1].hidden = true;
        input.focus();
      },
    };
  }

  function give(file, rank) {
    const shown = line(file);
    const largest = Number(part().dataset.largest);
    if (file.size > largest) {
      shown.say(`It has ${size(file.size)}; the most is ${largest / 1048576} MB. Compress it, or give the part around the fault.`, "bad");
      return;
    }
    if (!file.size) { shown.say("It is empty.", "bad"); return; }
    waiting.push({ file, rank, shown });
    next();
  }

  function next() {
    while (active < AT_ONCE && waiting.length) {
      active += 1;
      send(waiting.shift());
    }
  }

  function send({ file, rank, shown }) {
    const query = new URLSearchParams({ name: file.name });
    const author = value("give-author");
    if (author) { localStorage.setItem(AUTHOR, author); query.set("author", author); }
    if (rank !== undefined) query.set("rank", rank);
    const request = new XMLHttpRequest();
    request.open("POST", address(`?${query}`));
    for (const [name, held] of Object.entries(headers())) request.setRequestHeader(name, held);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) shown.progress(event.loaded / event.total); });
    request.upload.addEventListener("load", () => { shown.progress(1); });
    request.addEventListener("loadend", () => {
      active -= 1;
      let told = null;
      try { told = JSON.parse(request.responseText); } catch { /* an answer of a proxy, or none */ }
      if (request.status !== 200 && request.status !== 201) shown.say(refused(request.status, told), "bad");
      else if (!told.pieces && told.refused.some((why) => why.includes("whose it is"))) {
        shown.ask("A dump does not say whose it is.", (number) => give(file, number));
      } else if (told.kind === "archive" && !told.files.length) {
        shown.say(`Nothing was kept: ${told.refused.slice(0, 5).join("; ")}${told.refused.length > 5 ? " …" : ""}.`, "bad");
      } else if (!told.pieces) shown.say(`Kept; nothing was understood: ${told.refused.join("; ") || "nothing in it tells of a fault"}.`, "bad");
      else if (told.kind === "archive") {
        const refusedHere = told.refused.length ? ` Not understood: ${told.refused.slice(0, 5).join("; ")}${told.refused.length > 5 ? " …" : ""}.` : "";
        shown.say(`${told.files.length} files, ${told.pieces} ${told.pieces === 1 ? "piece" : "pieces"} of evidence.${refusedHere}`, "good");
      } else shown.say(`${told.new ? "" : "Was there already. "}${told.pieces} ${told.pieces === 1 ? "piece" : "pieces"} of evidence.`, "good");
      next();
      if (!active && !waiting.length) settle();
    });
    shown.say("");
    request.send(file);
  }

  async function list() {
    const answer = await fetch(address(), { headers: headers() });
    if (!answer.ok) throw new Error(refused(answer.status, await answer.json().catch(() => null)));
    return (await answer.json()).artefacts;
  }

  function redraw() { dash_clientside.set_props("incident-live", { data: { n: Date.now() } }); }

  /** Wait until the verdict is made of every file, then draw the page again. */
  async function settle(isDone = (files) => files.every((one) => one.heard)) {
    if (isSettling) return;
    isSettling = true;
    redraw();
    try {
      for (let turn = 0; turn < 120; turn += 1) {
        if (isDone(await list())) break;
        await new Promise((go) => { setTimeout(go, 250); });
      }
    } catch { /* the next change of the run draws the page */ } finally { isSettling = false; redraw(); }
  }

  async function change(digest, isUndone, button) {
    button.disabled = true;
    const author = value("give-author") || localStorage.getItem(AUTHOR) || "";
    const query = author ? `?${new URLSearchParams({ author })}` : "";
    try {
      const answer = await fetch(address(isUndone ? `/${digest}${query}` : `/${digest}/restore${query}`), {
        method: isUndone ? "DELETE" : "POST", headers: headers(),
      });
      if (!answer.ok) throw new Error(refused(answer.status, await answer.json().catch(() => null)));
      await settle((files) => files.some((one) => one.sha256 === digest && one.withdrawn === isUndone));
    } catch (error) {
      line({ name: "Not changed", size: 0 }).say(error.message, "bad");
    } finally { button.disabled = false; }
  }

  function take(files) {
    for (const old of document.querySelectorAll(".give-line[data-tone=good]")) old.remove();
    for (const file of files) give(file);
    part().scrollIntoView({ block: "nearest" });
  }

  function choose() {
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.id = "give-input";
    input.hidden = true;
    document.getElementById("give-zone").append(input);
    input.addEventListener("change", () => { take(input.files); input.remove(); });
    input.addEventListener("cancel", () => { input.remove(); });
    input.click();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-give], [data-artefact-undo], [data-artefact-redo]");
    if (!button || !part()) return;
    const { artefactUndo, artefactRedo } = button.dataset;
    if (button.dataset.give === "choose") choose();
    else change(artefactUndo || artefactRedo, Boolean(artefactUndo), button);
  });

  /* Files may be dropped anywhere on the page of an incident. */
  let depth = 0;
  const carriesFiles = (event) => part() && event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  document.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    document.getElementById("give-zone").classList.add("give-over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (!depth) document.getElementById("give-zone").classList.remove("give-over");
  });
  document.addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    document.getElementById("give-zone").classList.remove("give-over");
    take(event.dataTransfer.files);
  });
})();
