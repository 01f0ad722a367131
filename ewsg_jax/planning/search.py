"""The kernel that costs least, by forecast where the posterior is near normal, by trials where it is not."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array, Key
from ewsg_jax.planning.asked import Asked, Ended
from ewsg_jax.planning.candidate import Candidate, Wanted, burn_in_of
from ewsg_jax.planning.choice import SHARE, Choice
from ewsg_jax.planning.elsewhere import NUM_SEARCHES, elsewhere
from ewsg_jax.planning.frame import Frame
from ewsg_jax.planning.gaussian import MANY_ROWS, Gaussian, NoGradientError, gaussian
from ewsg_jax.planning.ladder import climb
from ewsg_jax.planning.laws import laws
from ewsg_jax.planning.pilot import seconds_of_step
from ewsg_jax.planning.trial import Trial
from ewsg_jax.planning.walls import STEEP, Wall, steepest
from ewsg_jax.planning.ways import DYNAMICS, ESTIMATORS, Way
from ewsg_jax.preparation.start import Start
from ewsg_jax.rows.gathering import num_rows

NUM_POINTS = 512
"""Places at which noise is measured."""
WIDE = 2.0
"""Widths of the posterior at which walls are looked for."""
FEW_ROWS = 1_024
"""Rows of a step of the first trial, all where there are no more."""
KNOWN = 0.2
"""The error of a trial's corrected moments below which they are the units of the next."""
CAREFUL = 0.25
"""The part of the errors allowed that may be told of a kernel where the posterior is not near normal."""
OF_FEW_ROWS = 1e3
"""The curvature, over the mode's, that few rows make."""
STEEPEST = 1e6
"""The curvature, over the mode's, above which the mode tells nothing of the posterior's widths."""
FEW = 0.1
"""The share of draws without a gradient up to which the normal approximation is given up, not the plan."""
MOST_TRIALS = 5
"""Runs after the first that are judged, each at half the step of the last."""


class NothingFitsError(ValueError):
    """Nothing that is allowed is right within the tolerance, or stable, as far as forecasts tell."""


class Search(Asked):
    """By the law around the mode, and by trials."""

    def around_mode(self, key: Key) -> Ended:
        """Return the kernel, by the law that it has around the mode; or by trials, where that is no good.

        Raises:
            ValueError: nothing that is allowed fits.
        """
        for_gaussian, for_places, for_trials = jax.random.split(key, 3)
        at_mode = Frame.at_mode(self.mode)
        # A check of rows in parts draws them uniformly from each.
        if self.posterior.predictor is not None and num_rows(self.data) > MANY_ROWS and self.parts == 1:
            at_mode = replace(at_mode, rows=at_mode.leverage(self.posterior, self.data))
        tolerance, rows = self.wanted.tolerance, at_mode.rows
        try:
            normal = gaussian(for_gaussian, self.posterior, self.mode, self.data, tolerance, rows, self.mesh)
        except NoGradientError as error:
            if error.share > FEW:
                raise
            # Far out alone: the approximation is too wide, and chains may never come there.
            return climb(for_trials, self)
        if normal.outside.matters(tolerance):
            # No trial cures it: chains do not see where the density is 0.
            ended = self.by_law(for_places, normal, at_mode, for_trials)
            return replace(ended, doubts=[f"of draws of the normal approximation {normal.outside.in_short}"])
        frame = at_mode.corrected(normal)
        ended = self.by_law(for_places, normal, frame, for_trials)
        others = 0 if ended.gaussian is None else elsewhere(self.posterior, frame, self.data)
        if others:
            ended.doubts.append(
                f"there is another mode: {others} of {NUM_SEARCHES} searches that began some widths away settled "
                "at one, and chains near the first do not see it"
            )
        return ended

    def by_law(self, key: Key, normal: Gaussian, frame: Frame, for_trials: Key) -> Ended:
        """Return the kernel by its law in a frame where the posterior is near normal there, else by trials."""
        for_near, for_far, for_steps = jax.random.split(key, 3)
        wall = steepest(self.posterior, frame, frame.places(for_far, NUM_POINTS, WIDE), self.data)
        is_outside = normal.outside.matters(self.wanted.tolerance)
        if not (is_outside or (normal.is_right and normal.is_normal)):
            try:
                if wall.curvature <= STEEPEST:
                    return self.by_trials(for_trials, normal, frame, wall)
            except NothingFitsError:
                if self.is_restricted:
                    raise
            ended = climb(for_trials, self)
            return replace(ended, data_passes=ended.data_passes + normal.report.data_passes)
        near = frame.places(for_near, NUM_POINTS, 1.0)
        choice = self.choice(for_steps, frame, near, wall.curvature, self.wanted)
        best = self.best(choice)
        burn_in, table, spent = burn_in_of(best.time), choice.candidates, normal.report.data_passes
        return Ended(choice.kernel(best), frame.start, burn_in, best.time, table, normal, None, spent)

    def choice(self, key: Key, frame: Frame, places: Array, wall: float, wanted: Wanted) -> Choice:
        """Return all candidates; the key is for the steps that are measured."""
        # On such a wall few rows make most of the noise, which batches at random seldom show.
        sure = [way for way in self.ways if way.rows != "random"] if wall > OF_FEW_ROWS else []
        choice = Choice(self.posterior, frame, self.data, places, sure or self.ways, wall, wanted)
        if wanted.by == "seconds" and choice.best is not None:
            choice.measure(lambda each: self.seconds_of(key, choice, each))
        return choice

    def seconds_of(self, key: Key, choice: Choice, each: Candidate) -> float:
        """Return what a step of a candidate takes; of one that was measured before, what it took then."""
        way = each.way
        alike = way.estimator, way.rows, way.has_friction, each.batch_size
        if alike not in self.measured:
            kernel, number = choice.kernel(each), len(self.measured)
            self.measured[alike] = seconds_of_step(
                jax.random.fold_in(key, number),
                kernel,
                choice.frame.start,
                self.given,
                self.wanted.num_chains,
                self.mesh,
            )
        return self.measured[alike]

    def best(self, choice: Choice) -> Candidate:
        """Return the best candidate.

        Raises:
            ValueError: there is none.
        """
        if choice.best is None:
            reasons = "; ".join(f"{each.way}: {each.why_not}" for each in choice.candidates[:3])
            raise NothingFitsError(
                f"methods and batch_size must allow a run within the tolerance; got none ({reasons})"
            )
        return choice.best

    def by_trials(self, key: Key, normal: Gaussian, frame: Frame, wall: Wall) -> Ended:
        """Return the kernel whose trial is right: noise, walls and widths are those that the trials met."""
        notes = ["the posterior is not near normal: chosen by trials"]
        first, *keys = jax.random.split(key, 1 + MOST_TRIALS)
        if wall.curvature > STEEP:
            names = ", ".join(normal.report.names[k] for k in wall.coordinates)
            along = f", along {names}" if names else ""
            notes.append(f"a wall: the curvature reaches {wall.curvature:.3g} times the mode's{along}")
        last = self.tried(first, *self.scout(frame, wall.curvature))
        spent, least, ended = normal.report.data_passes + last.data_passes, 0.0, None
        for number, own in enumerate(keys):
            for_seen, for_far, for_trial, for_steps = jax.random.split(own, 4)
            frame, places = self.seen(for_seen, frame, last)
            # Draws on a wall are rare: what is as far out as they may go is looked at too.
            near = jnp.concatenate([places, frame.places(for_far, NUM_POINTS, WIDE)])
            steep = max(least, steepest(self.posterior, frame, near, self.data).curvature)
            strict = replace(self.wanted, tolerance=self.wanted.tolerance / 2**number, careful=CAREFUL)
            choice = self.choice(for_steps, frame, places, steep, strict)
            if choice.best is None and ended is not None:
                notes.append(
                    "nothing is foretold to be right at half of that error: the last trial is the nearest to it"
                )
                break
            best = self.best(choice)
            kernel, start = choice.kernel(best), frame.start
            last = self.tried(for_trial, kernel, start, best.time)
            spent += last.data_passes
            time, table = max(best.time, last.time), choice.candidates
            burn_in, doubts = burn_in_of(best.time), last.doubts
            ended = Ended(kernel, start, burn_in, time, table, normal, last.report, spent, notes, doubts)
            if not last.is_wrong or last.is_outside:
                break
            # Half the step, and half of the error that is told: what is told is of a normal law.
            least = 4 * steep
        else:
            notes.append(f"none of {MOST_TRIALS} trials was right: the last is the nearest to it")
        assert ended is not None
        return ended

    def scout(self, frame: Frame, wall: float) -> tuple[Kernel, Start, float]:
        """Return a careful kernel, where it starts and its memory: the noise of its batches is not known yet."""
        n = num_rows(self.data)
        way = min(self.ways, key=lambda each: self.rank(each, n))
        few = max(self.parts, min(FEW_ROWS, n // 2) // self.parts * self.parts)
        size = n if way.estimator == "full" else self.wanted.batch_size or few
        known = [
            law for law in laws(way, self.posterior, self.data, wall) if law.error <= SHARE * self.wanted.tolerance
        ]
        if not known:
            raise NothingFitsError(
                f"methods must allow a step that is stable; got none for {way} at curvature {wall:.3g}"
            )
        law = min(known, key=lambda each: each.time)
        rows = frame.leverage(self.posterior, self.data) if way.rows == "leverage" else "random"
        kernel = way.kernel_of(self.posterior, law.step_size, law.friction, size, frame, rows)
        return kernel, frame.start, law.time

    def rank(self, way: Way, n: int) -> tuple[int, int, bool]:
        """Return how far down a way is among those to begin with."""
        order = ESTIMATORS if n <= FEW_ROWS else (*ESTIMATORS[1:], ESTIMATORS[0])
        return order.index(way.estimator), DYNAMICS.index(way.dynamics), way.rows != "leverage"

    def seen(self, key: Key, frame: Frame, last: Trial) -> tuple[Frame, Array]:
        """Return the units of a trial's corrected moments, and places where it was less their center."""
        if last.report is None:
            return frame, frame.places(key, NUM_POINTS, 1.0)
        corrected = last.report.corrected
        if corrected is None or corrected.covariance is None:
            return frame, last.places(NUM_POINTS, frame.center)
        if not last.is_short and max(corrected.errors) < KNOWN:
            frame = Frame.at(self.mode, corrected.mean, corrected.covariance)
        return frame, last.places(NUM_POINTS, frame.center)
