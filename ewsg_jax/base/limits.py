"""Numbers of one meaning for the whole package: what is held at once, and how much is printed.

All are set by hand. But for the size of matrices none changes a result, other than by the order of
sums.
"""

INT32_MAX = 2**31 - 1
"""Rows, steps and evaluations are counted in 32 bits with a sign."""

SMALL_BYTES = 2**24
"""16 MiB: what a processor's cache holds and is copied or drawn within some milliseconds."""

BYTES_AT_ONCE = 2**26
"""64 MiB of draws or outputs that one call holds."""

NUMBERS_AT_ONCE = 2**22
"""Numbers that are worked on together: 32 MiB in float64."""

ROWS_AT_ONCE = 2**16
"""Rows, counted for each position, whose densities or gradients are evaluated together."""

POSITIONS_AT_ONCE = 256
"""Positions that one call of a compiled program takes, which bounds its memory and compile time."""

MAX_DENSE_DIMENSION = 1_000
"""Size up to which matrices are formed, at most 8 MB, of parameters or of functions of them: above
it curvature is known by products with vectors, and covariances by their diagonals. Up to it
programs are also compiled with fewer optimisations, for they run for less time than these take."""

FLOAT64_ROUNDING = 1e-12
"""A part of the largest number, below which a number is rounding of sums in float64."""

LINES_SHOWN = 12
"""Lines of a printed table, or options that a message lists."""

NAMES_SHOWN = 5
"""Chains, coordinates, columns or shapes that a sentence names: more would hide the text."""
