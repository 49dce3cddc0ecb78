// Returns, as sentences, what is wrong with the page that is shown: contrast (WCAG AA), names of what one can use, headings,
// ids, whether anything is shown and the order in which the keyboard goes through it.
(() => {
  const wrong = [];
  const name = e => e.outerHTML.slice(0, 90);
  const visible = e => { const r = e.getBoundingClientRect(), s = getComputedStyle(e); return r.width > 0 && r.height > 0 && s.visibility !== "hidden" && s.display !== "none" && r.right > 0; };
  const rgb = text => { const m = text.match(/[\d.]+/g); return m ? m.map(Number) : [0, 0, 0, 0]; };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return rgb(getComputedStyle(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18,18,18)" : "rgb(255,255,255)"); };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.data.trim() || e.closest("svg, script, template, option") || !visible(e)) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), style = getComputedStyle(e), large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) wrong.push(`contrast of ${ratio.toFixed(1)} at "${node.data.trim().slice(0, 40)}"`);
  }
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, [tabindex]")) {
    const labelled = e.getAttribute("aria-label") || e.textContent.trim() || [...(e.labels || [])].some(l => l.textContent.trim());
    if (!labelled && !e.matches("main")) wrong.push("no name: " + name(e));
    if (e.tabIndex > 0) wrong.push("a place of its own in the order of the keyboard: " + name(e));
  }
  const focusable = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select")].filter(e => e.tabIndex >= 0 && visible(e));
  for (const e of focusable.slice(0, 60)) { e.focus(); if (document.activeElement !== e) wrong.push("can't be reached by keyboard: " + name(e)); }
  if (!focusable.length) wrong.push("nothing can be reached by keyboard");
  document.activeElement?.blur?.();
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  for (const landmark of ["main", "nav", "header"]) if (document.querySelectorAll("body " + landmark).length !== 1) wrong.push("not one " + landmark);
  if (!document.documentElement.lang || !document.title) wrong.push("no language or title");
  const main = document.querySelector("main"), cards = [...document.querySelectorAll("main section")].filter(e => visible(e) && e.getBoundingClientRect().height > 30 && e.innerText.trim());
  if (!main || getComputedStyle(main).visibility !== "visible" || !cards.length) wrong.push("nothing is shown");
  if (getComputedStyle(document.body).display !== "grid") wrong.push("it has no style");
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("twice: #" + id);
  for (const block of document.querySelectorAll("[data-block]")) {
    if (!block.getAttribute("aria-label") && block.matches("section")) wrong.push("a part without a name: " + name(block));
  }
  if (document.querySelector("[style], style, script:not([src])")) wrong.push("style or script within the page");
  return wrong;
})();
