/* What people say of a config change: sent to the API; the page is read again when it is durable. */
(function () {
  const find = (id) => document.getElementById(id);
  const value = (name) => ((find(`change-${name}`) || {}).value || "").trim();

  async function send(body) {
    const form = find("change-form");
    const headers = { "Content-Type": "application/json" };
    if (value("token")) headers.Authorization = `Bearer ${value("token")}`;
    const path = `/api/v1/configs/changes/${encodeURIComponent(form.dataset.changeId)}/actions`;
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error((told.error || {}).message || `the server answered ${answer.status}`);
  }

  async function keep() {
    const author = value("author");
    const explained = {};
    for (const name of ["changed_by", "reason"]) if (value(name)) explained[name] = value(name);
    if (author) localStorage.setItem("rerail-author", author);
    const named = author ? { author } : {};
    if (!Object.keys(explained).length && !value("target")) throw new Error("say who, why, or what argued for it");
    if (Object.keys(explained).length) await send({ action: "explain", ...explained, ...named });
    const target = value("target");
    if (target) await send({ action: "link", target, target_kind: target.includes("~") ? "incident" : "problem", ...named });
  }

  document.addEventListener("click", (event) => {
    const undo = event.target.closest("[data-undo-change]");
    const button = event.target.closest("#change-send") || undo;
    if (!button) return;
    button.disabled = true;
    const doing = undo ? send({ action: "undo", undoes: Number(undo.dataset.undoChange) }) : keep();
    doing.then(() => window.location.reload())
      .catch((error) => { find("change-status").textContent = error.message; })
      .finally(() => { button.disabled = false; });
  });
})();
