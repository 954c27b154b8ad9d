(() => {
  const problems = [];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const what = (e) => `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ""}.${e.className}: ${e.textContent.trim().slice(0, 40)}`;

  // names
  for (const e of all("input, select, button, a, summary")) {
    const name = (e.labels?.[0]?.textContent || e.getAttribute("aria-label") || e.textContent || "").trim();
    if (!name) problems.push(`no name: ${what(e)}`);
  }
  for (const e of document.querySelectorAll("[aria-labelledby]")) {
    for (const id of e.getAttribute("aria-labelledby").split(" ")) {
      if (!document.getElementById(id)) problems.push(`no label ${id}: ${what(e)}`);
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) problems.push(`id ${id} is not unique`);
  if (!document.documentElement.lang || !document.title) problems.push("no language or title");
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");

  // structure
  let level = 0;
  for (const e of all("h1, h2, h3, h4")) {
    const next = Number(e.tagName[1]);
    if (next > level + 1) problems.push(`a level of headings is missing: ${what(e)}`);
    level = next;
  }
  for (const e of document.querySelectorAll("th")) if (!e.scope) problems.push(`no scope: ${what(e)}`);
  for (const e of document.querySelectorAll("ul > *")) if (e.tagName !== "LI") problems.push(`not an item: ${what(e)}`);
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) problems.push(`order of focus: ${what(e)}`);

  // sizes of what is clicked, in CSS pixels; links in texts and summaries are as high as their line
  for (const e of all("button, input, select, summary, nav a")) {
    const { width, height } = e.getBoundingClientRect();
    if (width < 24 || height < 24) problems.push(`${width} x ${height} is too small: ${what(e)}`);
  }
  const clipped = (e) => e.closest("thead, .for-readers") && getComputedStyle(e.closest("thead, .for-readers")).clipPath !== "none";
  for (const e of all("main *")) {
    if (clipped(e)) continue;
    const box = e.getBoundingClientRect();
    if (box.width > 1 && box.right > innerWidth + 1 && !e.closest(".map")) problems.push(`beyond the window: ${what(e)}`);
  }

  // contrast
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).slice(0, 3).map((c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const back = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const contrast = (e, colour, behind, least, kind) => {
    const found = ratio(colour, behind);
    if (found < least) problems.push(`contrast of ${kind} ${found.toFixed(2)}, less than ${least}: ${what(e)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(e) || !shown(e) || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    seen.add(e);
    contrast(e, getComputedStyle(e).color, back(e), 4.5, "text");
  }
  for (const e of all("input, select, button, .bar, .chip.f, .chip.d")) contrast(e, getComputedStyle(e).borderTopColor, back(e.parentElement), 3, "a frame");
  for (const e of all(".chip.a, .chip.u, .chip.n")) contrast(e, getComputedStyle(e).backgroundColor, back(e.parentElement), 3, "a chip");
  for (const e of all(".bar i")) {
    const filled = getComputedStyle(e).backgroundImage.match(/rgba?\([^)]*\)/)?.[0] ?? getComputedStyle(e).backgroundColor;
    contrast(e, filled, back(e.parentElement), 3, "a bar");
  }

  // states differ by more than colours
  for (const e of all(".chip:not(.none):not(.f)")) if (!e.textContent.trim()) problems.push(`only a colour: ${what(e)}`);
  for (const e of all(".bar.over-deserved, .bar.over-capability")) {
    if (!e.parentElement.textContent.includes("over ")) problems.push(`only a colour: ${what(e)}`);
  }
  return problems;
})();
