"""What steps, methods and calls cost; run as `python -m benchmarks.cost.step`."""
