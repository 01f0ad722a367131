"""Runs a peer's chains in an interpreter of its own, asked by lines of JSON.

Each line read is one request, each line written its answer: `{"do": "versions", "peer": …}`,
`{"do": "build", "peer": …, "case": […]}` or `{"do": "run"}`. `remote.py` is the other end.
"""

import json
import os
import sys
from typing import Any


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
    from benchmarks import peers
    from benchmarks.program import Program
    from benchmarks.workload import Case

    if request["do"] == "versions":
        return {"versions": peers.versions(request["peer"])}
    held.clear()  # frees the last program's data first
    build = (peers.PEERS | peers.BY_HAND)[request["peer"]].build
    held["program"] = Program(build, Case(*request["case"]))
    return {"compile_seconds": held["program"].compile_seconds}


if __name__ == "__main__":
    main()
