"""Hierarchies in both forms: whether a check sees what is wrong, and whether a plan solves them.

    python -m benchmarks.hierarchies [--part references,judged,solved,nuts]
        [--models many_groups,slopes_c] [--keys 3] [--minutes 30] [--out FILE]
    python -m benchmarks.hierarchies --table

`references` makes exact draws and keeps their moments; `judged` gives draws whose errors are known
to `ewsg.check`, in either form; `solved` plans, runs and checks with default arguments; `nuts` is
NumPyro's NUTS of the same densities. Each result is stored when it is there, in
`benchmarks/results/hierarchies.json`, and what is there is not made again: a run that is cut loses
nothing. `--minutes` begins nothing after so many.
"""

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.hierarchies import judged, references, solved, table, wrong
from benchmarks.hierarchies.model import Draws, HierarchyModel, Pair
from benchmarks.hierarchies.models import models, pairs

RESULT = Path(__file__).parents[1] / "results" / "hierarchies.json"
PARTS = ("references", "judged", "solved", "nuts")
POOL, POOL_SEED = 40_000, 11
"""Exact draws of a hierarchy that draws to be judged are taken from; their seed, which is not that
of the references.
"""


def pool(pair: Pair, seed: int = POOL_SEED, count: int = POOL) -> Draws:
    """Return exact draws in the centred form, kept in the folder of temporary files until the
    source of this folder changes.
    """
    source = b"".join(
        path.read_bytes()
        for path in sorted(Path(__file__).parent.glob("*.py"))
        if path.name.endswith(
            ("cases.py", "linear.py", "local.py", "scales.py", "gibbs.py", "response.py")
        )
    )
    digest = hashlib.sha256(source).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / "hierarchies_pools"
    folder.mkdir(exist_ok=True)
    path = folder / f"{pair.name}_{seed}_{count}_{digest}.npz"
    if not path.exists():
        draws: Any = pair.draw(np.random.default_rng([seed, 2]), count)
        np.savez(path, **draws)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


class Results:
    """Records by part, model, way and key, in a file that is written at each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def records(self) -> list[dict[str, Any]]:
        """What is there."""
        return json.loads(self.path.read_text())["records"] if self.path.exists() else []

    def has(self, **where: Any) -> bool:
        """Return whether there is such a record."""
        return any(where.items() <= each.items() for each in self.records)

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record, a line of the file."""
        lines = ",\n".join(json.dumps(each) for each in [*self.records, record])
        part = self.path.with_suffix(".part")
        part.write_text(f'{{"records": [\n{lines}\n]}}\n')
        part.replace(self.path)


def cells(part: str, model: HierarchyModel, num_keys: int) -> Iterator[dict[str, Any]]:
    """Yield what is to be made of a model."""
    if part == "judged":
        for way in wrong.WAYS:
            keys = num_keys if way == "exact" else 1
            yield from ({"way": way, "key": key} for key in range(keys))
    elif part == "solved":
        yield from ({"key": key} for key in range(num_keys))
    else:
        yield {"key": 0}


def make(part: str, model: HierarchyModel, cell: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell of a part is."""
    if part == "nuts":
        return solved.by_nuts(model)
    if part == "solved":
        return solved.solve(model, cell["key"])
    exact, way, key = pool(model.of_pair), cell["way"], cell["key"]
    if way == "exact":  # each key has draws of its own
        draws: Draws | None = {
            name: leaf[key * judged.GIVEN : (key + 1) * judged.GIVEN]
            for name, leaf in exact.items()
        }
    else:
        draws = wrong.make(model, exact, way, np.random.default_rng([5, key]))
    if draws is None:
        return {"outcome": "none", "verdict": "no closed conditionals"}
    if len(draws[model.scales[0]]) < judged.LEAST:
        return {"outcome": "none", "verdict": "too few draws are kept"}
    return judged.judge(model, draws, key)


def chosen(names: str | None) -> list[HierarchyModel]:
    """Return the models that are asked for, by their own names or those of pairs."""
    known = models()
    if names is None:
        return list(known.values())
    asked = names.split(",")
    for name in asked:
        if name not in known and name not in pairs():
            raise SystemExit(f"{name!r} is none of {', '.join(pairs())}")
    return [model for model in known.values() if model.name in asked or model.pair in asked]


def main() -> None:
    """Make what is asked for, or print the table."""
    parser = argparse.ArgumentParser(description="Hierarchies in both forms.")
    parser.add_argument("--part", default="references,judged,solved,nuts")
    parser.add_argument("--models", help="names of hierarchies, or of one form; default: all")
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    asked = parser.parse_args()
    results = Results(asked.out)
    if asked.table:
        print(table.text(results.records))
        return
    end = time.perf_counter() + 60 * asked.minutes
    parts = asked.part.split(",")
    for part in parts:
        if part not in PARTS:
            raise SystemExit(f"{part!r} is none of {', '.join(PARTS)}")
    for model in chosen(asked.models):
        if "references" in parts and model.name not in references.stored():
            exact = pool(model.of_pair, references.SEED, references.NUM_DRAWS)
            references.store(model, exact)
    for key in range(asked.keys):  # first keys of all models first
        for model in chosen(asked.models):
            for part in (part for part in parts if part != "references"):
                for cell in cells(part, model, asked.keys):
                    where = {"part": part, "model": model.name, **cell}
                    if cell["key"] != key or results.has(**where):
                        continue
                    if time.perf_counter() > end:
                        return
                    record = {**where, **make(part, model, cell)}
                    results.add(record)
                    print(table.line(record), flush=True)
            jax.clear_caches()


if __name__ == "__main__":
    main()
