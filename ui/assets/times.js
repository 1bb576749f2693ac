/* Times: every <time> in the reader's zone, with UTC as its hint.

   The server writes UTC, since it does not know the zone. Here the text is replaced; React replaces it again when an
   instant changes, and then the observer below replaces it once more. */
(function () {
  const state = { zone: "local" };
  const two = (number) => String(number).padStart(2, "0");

  function parts(date) {
    const utc = state.zone === "utc";
    return {
      year: utc ? date.getUTCFullYear() : date.getFullYear(),
      month: (utc ? date.getUTCMonth() : date.getMonth()) + 1,
      day: utc ? date.getUTCDate() : date.getDate(),
      hour: utc ? date.getUTCHours() : date.getHours(),
      minute: utc ? date.getUTCMinutes() : date.getMinutes(),
      second: utc ? date.getUTCSeconds() : date.getSeconds(),
      millisecond: date.getUTCMilliseconds(),
    };
  }

  function ago(milliseconds) {
    const seconds = Math.max(0, Math.round(milliseconds / 1000));
    if (seconds < 60) return `${seconds} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} d ago`;
  }

  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  function format(date, form) {
    const at = parts(date);
    const clock = `${two(at.hour)}:${two(at.minute)}:${two(at.second)}`;
    if (form === "clock") return clock;
    if (form === "precise") return `${clock}.${String(at.millisecond).padStart(3, "0")}`;
    if (form === "ago") return ago(Date.now() - date.getTime());
    const year = at.year === new Date().getFullYear() ? "" : ` ${at.year}`;
    return `${at.day} ${MONTHS[at.month - 1]}${year} ${clock}`;
  }

  /** Minutes east of UTC that the reader's zone is at an instant; 0 in UTC. */
  function offset(milliseconds) {
    return state.zone === "utc" ? 0 : -new Date(milliseconds).getTimezoneOffset();
  }

  /** The zone that times are shown in, as its users know it: `Asia/Seoul`; UTC where that was chosen. */
  function name() {
    const shown = document.getElementById("zone-name");
    if (!shown) return;
    const east = offset(Date.now());
    const zone = state.zone === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone || "";
    const two_ = (minutes) => `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
    shown.textContent = zone.replaceAll("_", " ");
    shown.title = `Times are shown in ${zone}${east ? ` (UTC${east < 0 ? "\u2212" : "+"}${two_(Math.abs(east))})` : ""}`;
  }

  function show(root) {
    const found = root.querySelectorAll ? [...root.querySelectorAll("time.at")] : [];
    if (root.matches && root.matches("time.at")) found.push(root);
    for (const element of found) {
      const date = new Date(element.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      const wanted = format(date, element.dataset.form || "full");
      if (element.textContent !== wanted) element.textContent = wanted;
    }
  }

  function start() {
    new MutationObserver((records) => {
      for (const record of records) {
        if (record.type === "childList") {
          for (const node of record.addedNodes) if (node.nodeType === 1) show(node);
          if (record.target.matches && record.target.matches("time.at")) show(record.target);
        } else {
          const element = record.target.nodeType === 1 ? record.target : record.target.parentElement;
          if (element && element.matches("time.at")) show(element);
        }
      }
    }).observe(document.body, {
      subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["datetime"],
    });
    show(document.body);
    setInterval(() => document.querySelectorAll('time.at[data-form="ago"]').forEach(show), 5000);
  }

  window.rerailTimes = { state, format, ago, offset, show, name };
  if (document.body) start(); else addEventListener("DOMContentLoaded", start);
})();
