"""The largest resident set of this process while something runs. Linux only; read
without JAX too.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEGABYTE = 10**6


def peak_megabytes(run: Callable[[], Any]) -> float:
    """Run and return the largest resident set from now to the end of it, in MB.

    Not that of `resource.getrusage`, which begins with what the parent held.
    """
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    run()
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / MEGABYTE
