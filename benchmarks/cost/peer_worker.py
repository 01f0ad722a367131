"""Runs a peer's chains in an interpreter of its own, asked by lines of JSON.

Each line read is one request, each line written its answer: `{"do": "versions", "peer": …}`,
`{"do": "build", "peer": …, "case": […]}` or `{"do": "run"}`; and, of a process that has done
nothing else, `{"do": "first_draw", "peer": …, "case": […]}` or `{"do": "resident", …}`. `remote.py`
is the other end.
"""

import importlib
import json
import os
import sys
import time
from typing import Any

WITHOUT_JAX = {"posteriors": "benchmarks.cost.torch_peers"}


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    held: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line), held)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(request: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "run":
        return {"microseconds": held["program"].run()}
    from benchmarks.cost.resident import peak_megabytes
    from benchmarks.cost.settings import Case

    peer = request["peer"]
    library = importlib.import_module(WITHOUT_JAX.get(peer, "benchmarks.cost.peers"))
    found = library.versions(peer)  # and imports what it needs
    if request["do"] == "versions":
        return {"versions": found}
    case = Case(*request["case"])
    if request["do"] == "build":
        held.clear()  # frees the last program's data first
        held["program"] = library.program(peer, case)
        return {"compile_seconds": held["program"].compile_seconds}
    data = library.device_data(case.workload)
    started = time.perf_counter()
    if request["do"] == "resident":
        return {"megabytes": peak_megabytes(lambda: library.program(peer, case, data).run())}
    library.program(peer, case, data).run()
    return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    main()
