"""Checks of arguments, pytrees, keys, compiled programs: no statistics."""
