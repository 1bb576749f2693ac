/* Markup: turns the JSON of `data-markup` into elements, and lays a new value over the old ones.

   Text becomes text nodes. A tag, an attribute or an address that is not on these lists is left out, whatever was sent
   (the same lists are in ui/markup.py). */
(function () {
  const TAGS = new Set(("a b blockquote br button caption code dd del details div dl dt em h1 h2 h3 h4 h5 header hr i li mark ol "
    + "p pre section span strong summary table tbody td th thead time tr ul").split(" "));
  const ATTRIBUTES = new Set("class colspan datetime hidden href id role scope style tabindex target title type".split(" "));

  const OURS = /^(#|\/(?![/\\]))/;
  const ELSEWHERE = /^(https?:\/\/|mailto:)/i;

  /** A link out of here opens elsewhere, and tells that place nothing of this one. */
  function guard(element) {
    if (element.localName !== "a" || !ELSEWHERE.test(element.getAttribute("href") || "")) return;
    element.setAttribute("rel", "noopener noreferrer nofollow");
    element.setAttribute("target", "_blank");
  }

  function allowed(name, value) {
    if (name === "href") return OURS.test(value) || ELSEWHERE.test(value);
    return ATTRIBUTES.has(name) || name.startsWith("aria-") || name.startsWith("data-");
  }

  function build(node) {
    if (typeof node === "string") return document.createTextNode(node);
    const [tag, attributes, ...children] = node;
    const element = document.createElement(TAGS.has(tag) ? tag : "span");
    for (const [name, value] of Object.entries(attributes)) if (allowed(name, value)) element.setAttribute(name, value);
    guard(element);
    for (const child of children) element.append(build(child));
    return element;
  }

  function lay(parent, children) {
    const ids = new Set(children.map((child) => typeof child !== "string" && child[1].id).filter(Boolean));
    for (let index = 0; index < children.length; index += 1) {
      const wanted = children[index];
      let present = parent.childNodes[index];
      // What has an id is moved to its place and not made anew, so that what was unfolded in it stays so.
      const named = typeof wanted !== "string" && wanted[1].id;
      if (named && present && present.id !== named) {
        const same = [...parent.children].find((child) => child.id === named);
        if (same) { parent.insertBefore(same, present); present = same; }
      }
      const isWantedLater = present && present.id && present.id !== named && ids.has(present.id);
      if (isWantedLater) parent.insertBefore(build(wanted), present);
      else if (!present) parent.append(build(wanted));
      else if (typeof wanted === "string") {
        if (present.nodeType !== Node.TEXT_NODE) present.replaceWith(build(wanted));
        else if (present.data !== wanted) present.data = wanted;
      } else if (present.nodeType !== Node.ELEMENT_NODE || present.localName !== wanted[0]
          || (present.id || "") !== (wanted[1].id || "")) {
        present.replaceWith(build(wanted));
      } else {
        layElement(present, wanted);
      }
    }
    while (parent.childNodes.length > children.length) parent.lastChild.remove();
  }

  function layElement(element, [, attributes, ...children]) {
    const isSameInstant = element.localName === "time" && element.getAttribute("datetime") === attributes.datetime;
    for (const { name } of [...element.attributes]) {
      if (!(name in attributes) && name !== "open") element.removeAttribute(name);
    }
    for (const [name, value] of Object.entries(attributes)) {
      if (allowed(name, value) && element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
    guard(element);
    if (!isSameInstant) lay(element, children);
  }

  function show(island) {
    const text = island.getAttribute("data-markup");
    if (island.rerailShown === text) return;
    island.rerailShown = text;
    lay(island, JSON.parse(text));
  }

  function start() {
    new MutationObserver((records) => {
      for (const record of records) {
        if (record.type === "attributes") show(record.target);
        for (const node of record.addedNodes) {
          if (node.nodeType !== Node.ELEMENT_NODE) continue;
          if (node.hasAttribute("data-markup")) show(node);
          node.querySelectorAll("[data-markup]").forEach(show);
        }
      }
    }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-markup"] });
    document.querySelectorAll("[data-markup]").forEach(show);
  }

  if (document.body) start(); else addEventListener("DOMContentLoaded", start);
})();
