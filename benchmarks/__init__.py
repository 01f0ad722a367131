"""What steps and methods cost, and the pages that tell it; run as `python -m
benchmarks.step_cost`.
"""
