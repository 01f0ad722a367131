"""How right answers are, and the time they take; run as `python -m benchmarks.answers`."""
