"""Lines of a printed table, whose columns are as wide as their widest cell."""

from collections.abc import Collection, Sequence


def aligned(
    rows: Sequence[Sequence[str]],
    left: Collection[int] = (0,),
    least: Sequence[int] = (),
    gap: str = "  ",
) -> list[str]:
    """Return the lines of a table.

    Args:
        rows: the cells of each row, the header among them; all rows have as many.
        left: the numbers of the columns that are aligned left; the others are aligned right.
        least: the smallest width of each of the first columns, in characters.
        gap: what stands between two columns.

    Example:
        >>> aligned([["", "passes"], ["sghmc", "20"]])
        ['       passes', 'sghmc      20']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for i, width in enumerate(least):
        widths[i] = max(widths[i], width)
    return [
        gap.join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
