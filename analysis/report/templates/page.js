document.querySelectorAll("thead button").forEach(button => button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0], at = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending", key = row => row.cells[at].dataset.key;
  const by = (a, b) => {
    const x = key(a), y = key(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return up ? order : -order;
  };
  [...body.rows].sort(by).forEach(row => body.append(row));
  head.closest("tr").querySelectorAll("th").forEach(other => other.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
}));

// A chart is drawn when it comes near the view; until then its still picture is there. `data-drawn` of the body is the
// number of those drawn. Large ones are painted on a canvas, where an SVG's many elements would be slow. Everything
// works without a mouse: entries of legends are buttons, and below a chart its data open as a table, which says what
// tooltips say. Not modelled: choices that outlive the page; reloading shows everything again.
const charts = JSON.parse(document.getElementById("descriptions").textContent), views = [], picked = new Map();
const started = new Map(), places = [...document.querySelectorAll(".chart")];
// only errors: a filter that leaves a layer empty is none
const actions = {export: true, source: false, compiled: false, editor: false};
const options = {mode: "vega-lite", logLevel: 1, actions};
const all = document.getElementById("all");
const unpacked = ({columns, rows}) => rows.map(row => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
const element = (name, words = "", given = {}) =>
  Object.assign(document.createElement(name), {textContent: words}, given);
const follows = (meta, field, names) => meta.shown.includes(field) &&
  (field !== "condition" || meta.choices.includes(names[0]));
function follow(drawn, field) {
  const {names, store} = picked.get(field);
  if (follows(drawn, field, names)) drawn.view.signal("shown_" + field, names);
  if (drawn.legend === field) {
    drawn.view.data("chosen_store", JSON.parse(store));
    drawn.entries.forEach(one => one.setAttribute("aria-pressed", !!names?.includes(one.textContent)));
  }
  return drawn.view.runAsync();
}
function pick(field, names, tuples = []) {
  const store = JSON.stringify(tuples), before = picked.get(field);
  if (store === (before?.store ?? "[]") && String(names) === String(before?.names ?? null)) return;
  picked.set(field, {names, store});
  all.hidden = [...picked].every(([field, one]) => field === "condition" || one.names === null);
  views.forEach(drawn => follow(drawn, field));
  document.querySelectorAll("details.data[open]").forEach(tabulate);
}
all.addEventListener("click", () =>
  [...picked.keys()].filter(field => field !== "condition").forEach(field => pick(field, null)));
async function embed(place) {
  const name = place.dataset.chart, {table, ...spec} = charts[name];
  spec.datasets = {rows: unpacked(table)};
  const renderer = table.rows.length > 3000 ? "canvas" : "svg", inside = element("div");
  const {view} = await vegaEmbed(inside, spec, {...options, renderer, downloadFileName: name});
  inside.querySelector("summary")?.setAttribute("aria-label", "Save this chart");
  place.replaceChildren(inside);
  const drawn = {view, ...spec.usermeta, entries: []};
  if (drawn.legend) {
    view.addDataListener("chosen_store", (_, tuples) =>
      pick(drawn.legend, tuples.length ? tuples.map(one => one.values[0]) : null, tuples));
    drawn.entries = [...inside.querySelectorAll(".role-legend-label text")];
    drawn.entries.forEach(one => {
      one.closest(".role-legend").setAttribute("role", "group");
      for (const [key, value] of Object.entries({role: "button", tabindex: 0, "aria-pressed": false}))
        one.setAttribute(key, value);
      one.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        one.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      });
    });
  }
  views.push(drawn);
  for (const field of picked.keys()) await follow(drawn, field);
  document.body.dataset.drawn = views.length;
}
function draw(place) {
  if (!started.has(place)) started.set(place, embed(place));
  return started.get(place);
}
const nearby = new IntersectionObserver(seen => seen.filter(one => one.isIntersecting).forEach(({target}) => {
  nearby.unobserve(target);
  draw(target);
}), {rootMargin: "300px"});
const sized = new ResizeObserver(seen => seen.forEach(({target}) =>
  target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth)));
places.forEach(place => (nearby.observe(place), sized.observe(place)));
document.querySelectorAll(".where").forEach(where => {
  const menu = element("select"), {choices} = charts[where.dataset.of].usermeta;
  menu.append(...choices.map(choice => element("option", choice)));
  menu.setAttribute("aria-label", "Condition");
  menu.addEventListener("change", () => {
    pick("condition", [menu.value]);
    document.querySelectorAll(".where select").forEach(other => {
      if ([...other.options].some(one => one.value === menu.value)) other.value = menu.value;
    });
  });
  where.replaceChildren("At ", menu);
});
// the part of d3-format and of Vega's expressions that tooltips use (see panels.tip)
function format(value, how) {
  const digits = +(/\.(\d+)/.exec(how)?.[1] ?? 0), percent = how.endsWith("%");
  const fixed = /[df%]$/.test(how) && how !== ".3~%", number = percent ? 100 * value : value;
  return (fixed ? number.toFixed(digits) : String(+number.toPrecision(digits))) + (percent ? "%" : "");
}
const compiled = words => new Function("datum", "format", "abs", "isValid", "return " + words);
const isValid = value => value != null && !Number.isNaN(value);
function tabulate(details) {
  const {transform = [], usermeta: meta, table} = charts[details.dataset.of];
  const written = transform.filter(one => one.calculate).map(one => [one.as, compiled(one.calculate)]);
  const names = field => {
    const own = picked.get(field)?.names ?? null;
    return field !== "condition" || (own && follows(meta, field, own)) ? own : meta.choices.slice(0, 1);
  };
  const shown = meta.shown.map(field => [field, names(field)]).filter(([_, some]) => some !== null);
  const said = new Map();
  for (const row of unpacked(table)) {
    if (!shown.every(([field, some]) => some.includes(row[field]))) continue;
    for (const [field, words] of written) row[field] = words(row, format, Math.abs, isValid);
    const cells = meta.tells.map(({field, format: how}) =>
      !isValid(row[field]) ? "" : how ? format(row[field], how) : String(row[field]));
    said.set(cells.join("\n"), cells);
  }
  const line = (cells, kind) => {
    const row = element("tr");
    row.append(...cells.map(cell => element(kind, cell, {className: "text"})));
    return row;
  };
  const head = element("thead"), body = element("tbody"), whole = element("table"), wide = element("div");
  head.append(line(meta.tells.map(one => one.title), "th"));
  body.append(...[...said.values()].slice(0, 500 /* rows of a chart's data that open as a table */).map(words => line(words, "td")));
  whole.append(head, body);
  wide.append(whole);
  Object.assign(wide, {className: "wide", tabIndex: 0, role: "group", ariaLabel: "Data of this chart"});
  const more = said.size - 500;
  details.replaceChildren(details.firstElementChild, wide,
    ...(more > 0 ? [element("p", `${more} more rows are in tables/.`, {className: "note"})] : []));
}
document.querySelectorAll("details.data").forEach(details =>
  details.addEventListener("toggle", () => details.open && tabulate(details)));
