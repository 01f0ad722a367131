"""`python -m benchmarks.hierarchies`."""

from benchmarks.hierarchies.command import main

if __name__ == "__main__":
    main()
