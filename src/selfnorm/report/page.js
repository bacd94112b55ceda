"use strict";
// Tables: a click on a head sorts, words in the filter hide rows. Figures are drawn when their section is opened.
const root = document.documentElement;
const themes = JSON.parse(document.getElementById("themes").textContent);
const narrow = () => window.innerWidth < 700;
if (window.innerWidth < 960) document.getElementById("contents").open = false;

function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// the number a cell starts with; undefined for words
function value(text) {
  const found = text.replace(/,(?=\d{3})/g, "").match(/^(?:own \()?([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)/i);
  return found ? Number(found[1]) : undefined;
}

function compare(a, b) {
  const x = value(a), y = value(b);
  if (x !== undefined && y !== undefined) return x - y;
  if (x !== undefined || y !== undefined) return x !== undefined ? -1 : 1;  // words and gaps come last
  return a.localeCompare(b);
}

function sort(table, column, head) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0], rows = [...body.rows];
  const known = rows.filter(row => value(row.cells[column].textContent) !== undefined);
  const rest = rows.filter(row => !known.includes(row));
  const by = (r, s) => (up ? 1 : -1) * compare(r.cells[column].textContent, s.cells[column].textContent);
  body.append(...known.sort(by), ...rest.sort(by));
}

function filter(box) {
  const words = box.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...box.querySelector("tbody").rows];
  for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
  const left = rows.filter(row => !row.hidden).length;
  box.querySelector(".count").textContent = words.length ? `${left} of ${rows.length}` : "";
}

for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table"), heads = [...table.tHead.rows[0].cells], rows = [...table.tBodies[0].rows];
  heads.forEach((head, column) => {
    const cells = rows.map(row => row.cells[column]);
    const filled = cells.filter(cell => !["", "–"].includes(cell.textContent));
    if (2 * filled.filter(cell => value(cell.textContent) === undefined).length >= filled.length)
      for (const cell of [head, ...cells]) cell.classList.add("words");
    head.firstElementChild.addEventListener("click", () => sort(table, column, head));
  });
  box.querySelector("input")?.addEventListener("input", () => filter(box));
}

// panels share the width of the page; where they come out narrow, labels leave the points
const SIDES = 85, LEAST = 320;
function fit(spec, width, over = 0) {
  const own = Math.max(...spec.concat.map(panel => panel.width));
  const most = Math.min(spec.columns, spec.concat.length);
  spec.columns = Math.max(1, Math.min(most, Math.floor(width / (Math.min(own, LEAST) + SIDES))));
  const room = Math.max(200, Math.min(1.5 * own, width / spec.columns - SIDES - over / spec.columns));
  for (const panel of spec.concat) {
    panel.width = Math.round(room);
    if (room < 0.75 * own) panel.layer = panel.layer.filter(layer => layer.mark.type !== "text");
  }
  return spec;
}

// the drawing library is read when the first figure is drawn: the page itself opens at once
function library() {
  const text = document.getElementById("library");
  if (text && !window.vegaEmbed) {
    const script = document.createElement("script");
    script.textContent = text.textContent;
    document.head.append(script);
  }
  return window.vegaEmbed;
}

async function draw(chart) {
  if (!library()) return;
  const text = document.getElementById(chart.dataset.spec).textContent, width = chart.parentElement.clientWidth;
  const config = structuredClone(themes[isDark() ? "dark" : "light"]);
  if (narrow()) config.legend.columns = 1;
  const actions = {export: true, source: false, compiled: false, editor: false};
  const options = {renderer: "svg", config, tooltip: {theme: isDark() ? "dark" : "light"}, actions};
  let over = 0;
  for (let turn = 0; turn < 2; turn += 1) {  // long words along an axis take room that is known only when they are drawn
    chart.vega?.finalize();
    chart.vega = await vegaEmbed(chart, fit(JSON.parse(text), width, over), options);
    over = chart.querySelector("svg").getBoundingClientRect().width - width;
    if (over <= 0) break;
  }
  chart.dataset.drawn = "yes";
}

function drawIn(section) {
  for (const chart of section.querySelectorAll(".chart")) if (chart.dataset.drawn !== "yes") draw(chart);
}

const sections = [...document.querySelectorAll("details.section")];
for (const section of sections) section.addEventListener("toggle", () => { if (section.open) drawIn(section); });
if (sections.length <= 3 && !location.hash) sections[0].open = true;  // one text: its charts are what the page is for
document.getElementById("open-all").addEventListener("click", () => sections.forEach(section => { section.open = true; }));
document.getElementById("close-all").addEventListener("click", () => sections.forEach(section => { section.open = false; }));
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});

function redraw() {
  for (const chart of document.querySelectorAll('.chart[data-drawn="yes"]')) draw(chart);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let before = window.innerWidth;
window.addEventListener("resize", () => {
  if (Math.abs(window.innerWidth - before) > 60) { before = window.innerWidth; redraw(); }
});

// a link opens the section it leads to
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => {
  if (window.innerWidth < 960) document.getElementById("contents").open = false;
  if (link.hash === location.hash) reveal();
});
const links = new Map([...document.querySelectorAll("nav a")].map(link => [link.hash.slice(1), link]));
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) links.get(entry.target.id)?.classList.toggle("here", entry.isIntersecting);
}, {rootMargin: "-10% 0px -70% 0px"});
for (const id of links.keys()) { const part = document.getElementById(id); if (part) seen.observe(part); }
reveal();
