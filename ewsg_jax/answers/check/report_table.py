"""The table of a printed report: a line for each coordinate."""

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.verdict import Measured
from ewsg_jax.base.table import aligned
from ewsg_jax.draws.coordinates import with_digits


def table_lines(
    coordinates: np.ndarray,
    names: tuple[str, ...],
    sd_ratio: Measured,
    mean_shift: Measured,
    moments: TargetMoments,
) -> list[str]:
    """Return the lines of the table, the header first; one line if nothing is known.

    Args:
        coordinates: the numbers of the coordinates that have a line, in their order.
        names: names of all coordinates.
        sd_ratio: standard deviations of the draws over those of the target.
        mean_shift: means of the draws less those of the target, in sds.
        moments: moments of the target.
    """
    errors = np.maximum(moments.mean_error / moments.sd, moments.sd_error)
    unknown = settings.NOTHING_KNOWN_SDS
    least = np.min([x[coordinates] for x in (sd_ratio.error, mean_shift.error, errors)])
    if not least < unknown:
        return [
            f"of {len(coordinates)} coordinates nothing is known: errors are above {unknown:g} sd"
        ]
    rows = [["coordinate", "sd / target's", "mean shift (sd)", "corrected mean", "sd"]]
    for i in coordinates.tolist():
        ratio = with_error(float(sd_ratio.value[i]), float(sd_ratio.error[i]), 6)
        shift = with_error(float(mean_shift.value[i]), float(mean_shift.error[i]), 7)
        corrected = ["unknown", "unknown"]
        if errors[i] < unknown:
            corrected = [with_digits(moments.mean[i], moments.sd[i]), f"{moments.sd[i]:.4g}"]
        rows.append([names[i], ratio, shift, *corrected])
    return aligned(rows, least=(0, 14, 15, 14, 9))


def with_error(value: float, error: float, width: int) -> str:
    """Return a number and its error, or that it is unknown, or as large as can be measured."""
    if np.isinf(error) and np.isfinite(value):
        ratio, shift = settings.max_measured_ratio(), settings.max_measured_shift()
        if abs(value) < shift:
            return f"> {ratio:g}"
        return f"> {shift:g}" if value > 0 else f"< {-shift:g}"
    if not error < settings.NOTHING_KNOWN_SDS:
        return "unknown"
    return f"{value:{width}.3f} ± {error:5.3f}"
