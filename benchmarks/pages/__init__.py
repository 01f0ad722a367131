"""What makes the pages, numbers and pictures of `docs/`; run as `python -m
benchmarks.pages.methods`.
"""
