/* The reader's scheme, before the first paint: without this a dark page flashes white. */
(function () {
  let scheme = null;
  try { scheme = localStorage.getItem("mantine-color-scheme-value"); } catch { /* storage is forbidden: follow the system */ }
  if (scheme !== "dark" && scheme !== "light") {
    scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
})();
