"""Run the studies of the gallery, keep their results, and write the page: `python docs/gallery/gallery.py [NAME ...]`.

Without names all of them run, in about six minutes, with graphs from FEDSIM_DATA or fetched.  `--write` runs nothing
and writes docs/gallery.md from studies.yaml and record.json.  Numbers in its sentences come from the record; an order
that a sentence speaks of (`ahead`) must hold: for every seed, or from five seeds on by a paired 95 % interval.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from textwrap import fill

import jinja2
import pandas as pd
import yaml

from analysis.statistics.intervals import t_interval
from fedsim.core import whole_files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE, RECORD, STUDIES = HERE.parent / "gallery.md", HERE / "record.json", HERE / "studies.yaml"
MADE = {"digits", "digit_images", "synthetic"}  # data sets that are no graph of the world
KEPT = ["score", "fm", "sim_seconds", "bytes_up", "bytes_down", "seconds_to_target", "bytes_to_target"]
HEAD = """# Gallery

**In short.** Twelve small studies to copy. Each is one scenario of 30 to 40 lines that ends in one picture, and took
{least} to {most} s on two cores. {real} of them use real graphs: a small club that comes along, and others that
are fetched once or read from `FEDSIM_DATA`.

Three of these questions are also notebooks: [a graph of your own](gallery/own_graph.ipynb), [a model of your
own](gallery/own_model.ipynb), [few take part](gallery/few_take_part.ipynb).
"""
STUDY = """
## {title}

![{alt}](gallery/{name}.svg)

{text}

```sh
python -m fedsim scenarios/gallery/{name}.yaml  # {seconds:.0f} s
```
"""


class GalleryError(Exception):
    """A sentence of the page does not hold."""


def run(name: str, picture: str) -> dict[str, object]:
    """Run a study, copy that figure of its report, and return its time and its runs."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, "-m", "fedsim", f"scenarios/gallery/{name}.yaml", "--out", folder]
        subprocess.run(command, check=True, cwd=ROOT)
        seconds = time.perf_counter() - began
        shutil.copy(Path(folder, "report", "figures", f"{picture}.svg"), HERE / f"{name}.svg")
        frame = pd.read_csv(Path(folder, "summary.csv"), dtype=str, keep_default_na=False)
    columns = list(frame.columns)
    axes = [axis for axis in columns[columns.index("status") + 1 : columns.index("method")] if axis != "seed"]
    runs = [
        {"run": row["run"], "case": " ".join(row[axes]), "seed": int(row["seed"])}
        | {key: float(row[key]) for key in KEPT if row.get(key)}
        for _, row in frame.iterrows()
    ]
    return {"seconds": seconds, "runs": runs}


def studies() -> dict[str, dict]:
    """Return the studies by name, in the page's order."""
    return yaml.safe_load(STUDIES.read_text(encoding="utf-8"))


def is_real(name: str) -> bool:
    """Return whether a study's data are a graph of the world."""
    data = yaml.safe_load((ROOT / "scenarios" / "gallery" / f"{name}.yaml").read_text(encoding="utf-8"))["data"]
    return (data["dataset"] if isinstance(data["dataset"], str) else data["dataset"]["name"]) not in MADE


def text(study: dict, runs: pd.DataFrame) -> str:
    """Return a study's sentences with the numbers of its runs.  Raise GalleryError if an order does not hold."""
    for first, second, column in study["ahead"]:
        values = runs.pivot(index="seed", columns="case", values=column)
        less = values[first] - values[second]
        low = t_interval(less).low
        if not (low > 0 or (math.isnan(low) and (less > 0).all())):
            raise GalleryError(f"{study['title']}: {column} of {first!r} is not surely above that of {second!r}")
    means = runs.groupby("case").mean(numeric_only=True)

    def mb(case: str, column: str = "bytes_up", less: str | None = None) -> str:
        size = 1e-6 * float(means.loc[case, column] - (means.loc[less, column] if less else 0))
        return f"{size:.{1 if size < 10 else 0}f} MB"

    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(study["text"]).render(
        mb=mb,
        percent=lambda case, column="score": f"{100 * means.loc[case, column]:.0f} %",
        seconds=lambda case, column="sim_seconds": f"{means.loc[case, column]:.0f} s",
        points=lambda case, column: f"{100 * means.loc[case, column]:.0f}",
        spread=lambda case: f"{100 * runs[runs['case'] == case]['score'].std():.0f}",
    )  # fmt: skip


def page(record: dict) -> str:
    """Return the page."""
    known, made = studies(), ""
    times = [record[name]["seconds"] for name in known]
    for name, study in known.items():
        sentences = fill(text(study, pd.DataFrame(record[name]["runs"])), 120)
        made += STUDY.format(
            name=name, text=sentences, seconds=record[name]["seconds"], **{k: study[k] for k in ("title", "alt")}
        )
    return HEAD.format(least=round(min(times)), most=round(max(times)), real=sum(map(is_real, known))) + made


def main() -> None:
    """Run what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies to run (default: all)")
    parser.add_argument("--write", action="store_true", help="run nothing")
    given = parser.parse_args()
    known = studies()
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"there is no study {unknown[0]!r}; there are {', '.join(known)}")
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    for name in [] if given.write else given.names or known:
        record[name] = run(name, known[name]["picture"])
        ordered = {name: record[name] for name in known if name in record}
        whole_files.replace(RECORD, json.dumps(ordered, indent=1) + "\n")
    whole_files.replace(PAGE, page(record))


if __name__ == "__main__":
    main()
