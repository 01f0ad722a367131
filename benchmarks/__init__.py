"""Measurements, a folder for each question: `answers`, `cost`, `papers`, and the `pages` that tell
it.
"""
