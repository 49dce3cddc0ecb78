// Returns, as sentences, what of the page that is shown does not fit into the width.
(() => {
  const wrong = [];
  const name = e => e.outerHTML.slice(0, 90);
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    const wide = [...document.querySelectorAll("body *")].find(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, nav"));
    wrong.push(`it is ${document.documentElement.scrollWidth} wide, and the screen is ${innerWidth}: ` + (wide ? name(wide) : ""));
  }
  for (const e of document.querySelectorAll(".scroll:has(table)")) {
    if (e.scrollWidth > e.clientWidth + 1) wrong.push(`a table is ${e.scrollWidth} wide, and its place is ${e.clientWidth}: ` + name(e));
  }
  const named = [...document.querySelectorAll("td:empty")].find(e => e.offsetHeight && getComputedStyle(e.closest("table")).display === "block");
  if (named) wrong.push("a list names a cell in which nothing is: " + name(named));
  return wrong;
})();
