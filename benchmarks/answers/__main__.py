"""`python -m benchmarks.answers`."""

import sys

from benchmarks.answers.command import main

if __name__ == "__main__":
    sys.exit(main())
