"""The scripts inside the page: Vega-Lite as it is delivered with vl-convert, and what draws and links the charts.

Charts are drawn one after another, so that the page can be read meanwhile; when all are there, `data-drawn` of the
body is their number. Large ones are painted on a canvas, where an SVG's many elements would be slow.

Not modelled: choices that outlive the page; reloading shows everything again.
"""

from functools import lru_cache

import vl_convert

CHARTS = """
const charts = JSON.parse(document.getElementById("descriptions").textContent), views = [], picked = new Map();
// only errors: a filter that leaves a layer empty is none
const actions = {export: true, source: false, compiled: false, editor: false};
const options = {mode: "vega-lite", logLevel: 1, actions};
const all = document.getElementById("all");
const unpacked = ({columns, rows}) => rows.map(row => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
function follow(drawn, field) {
  const {names, store} = picked.get(field);
  if (drawn.shown.includes(field)) drawn.view.signal("shown_" + field, names);
  if (drawn.legend === field) drawn.view.data("chosen_store", JSON.parse(store));
  return drawn.view.runAsync();
}
function pick(field, names, tuples) {
  const store = JSON.stringify(tuples);
  if (store === (picked.get(field)?.store ?? "[]")) return;
  picked.set(field, {names, store});
  all.hidden = [...picked.values()].every(one => one.names === null);
  views.forEach(drawn => follow(drawn, field));
}
all.addEventListener("click", () => [...picked.keys()].forEach(field => pick(field, null, [])));
async function draw() {
  for (const place of document.querySelectorAll(".chart")) {
    const name = place.dataset.chart, {table, ...spec} = charts[name];
    spec.datasets = {rows: unpacked(table)};
    const renderer = table.rows.length > 3000 ? "canvas" : "svg";
    const {view} = await vegaEmbed(place, spec, {...options, renderer, downloadFileName: name});
    const drawn = {view, ...spec.usermeta};
    views.push(drawn);
    if (drawn.legend) view.addDataListener("chosen_store", (_, tuples) =>
      pick(drawn.legend, tuples.length ? tuples.map(one => one.values[0]) : null, tuples));
    for (const field of picked.keys()) await follow(drawn, field);
  }
  document.body.dataset.drawn = views.length;
}
draw();
"""


@lru_cache
def library() -> str:
    """Return Vega-Lite, Vega and Vega-Embed as one script that sets `vegaEmbed`; it takes seconds to put together."""
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # the end of a script element, were it ever inside a string of theirs, would end ours
    return script.replace("</script", "<\\/script")
