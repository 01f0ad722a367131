"""The kernel that costs least, by forecast where the posterior is near normal, by trials where it
is not.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan.candidates import Way
from ewsg_jax.answers.plan.choice import Choice
from ewsg_jax.answers.plan.gaussian import MANY_ROWS, Gaussian, NoGradientError, gaussian
from ewsg_jax.answers.plan.nuts_fallback import by_nuts, why_not
from ewsg_jax.answers.plan.other_modes import NUM_SEARCHES, elsewhere
from ewsg_jax.answers.plan.pilot import seconds_of_step
from ewsg_jax.answers.plan.request import Asked, Ended
from ewsg_jax.answers.plan.run_size import Candidate, Wanted, burn_in_of
from ewsg_jax.answers.plan.scheme_errors import STABLE
from ewsg_jax.answers.plan.stiff_directions import STEEP, WIDE, Wall, led_into, steepest
from ewsg_jax.answers.plan.tails import FAR, tails
from ewsg_jax.answers.plan.trial import NUM_CHAINS, trial
from ewsg_jax.answers.plan.warm_up import FULL, MOST_FULL, Warmed, is_far, warmed
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Key, Position
from ewsg_jax.draws.coordinates import flattened, named
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.rows._view import num_rows

NUM_POINTS = 512
"""Places at which noise is measured."""
FEW_ROWS = 1_024
"""Rows of a step where no forecast says how many there should be, all where there are no more."""
CAREFUL = 0.25
"""The part of the errors allowed that may be predicted for a kernel where the posterior is not near
normal.
"""
OF_FEW_ROWS = 1e3
"""The curvature, over the posterior's, that few rows make."""
FEW = 0.1
"""The share of draws without a gradient up to which the normal approximation is given up, not the
plan.
"""
SLOW = 40.0
"""Data passes an effective draw from which NUTS is tried too."""
PATIENCE = 8.0
"""Times as many steps as predicted that an effective draw takes, from which a trial's own draws
give the units of the next.
"""
MOST_TRIALS = 6
"""Runs that are judged, each at half the step of the last."""


class NothingFitsError(ValueError):
    """Nothing that is allowed is right within the tolerance, or stable, as far as forecasts go."""


class Search(Asked):
    """By the law around the mode, and by trials."""

    def around_mode(self, key: Key) -> Ended:
        """Return the kernel, by the law that it has around the mode; or by trials, where that is no
        good.

        Raises:
            ValueError: nothing that is allowed fits.
        """
        for_look, for_gaussian, for_places, for_trials = rng.keys_of(key, 4)
        at_mode = Frame.at_mode(self.mode)
        if self.posterior.predictor is None and self.parts == 1:
            with self.timed("gaussian"):
                self.ahead.wait("gradients")
                far = is_far(for_look, self, at_mode)
            if far:
                # The mode of a joint posterior with an unknown scale may be where the scale is 0
                # and hardly any mass: chains find out of there slowly, and from anywhere else soon.
                # Very tall data need the mode, for batches are centred there.
                is_tall = num_rows(self.data) > MOST_FULL
                ended = self.by_trials(
                    for_trials, None, at_mode if is_tall else None, None if is_tall else at_mode
                )
                ended.notes.insert(0, f"the normal approximation at the mode is no answer: {far}")
                return self.with_others(ended, at_mode)
        # A check of rows in parts draws them uniformly from each.
        if (
            self.posterior.predictor is not None
            and num_rows(self.data) > MANY_ROWS
            and self.parts == 1
        ):
            at_mode = replace(at_mode, rows=at_mode.leverage(self.posterior, self.data))
        tolerance, rows = self.wanted.tolerance, at_mode.rows
        try:
            with self.timed("gaussian"):
                for name in ("gradients", "check"):
                    self.ahead.wait(name, meanwhile=("noise", "walls"))
                normal = gaussian(
                    for_gaussian, self.posterior, self.mode, self.data, tolerance, rows, self.mesh
                )
        except NoGradientError as error:
            if error.share > FEW:
                raise
            # Far out alone: the approximation is too wide, and chains may never come there.
            return self.by_trials(for_trials, None, None)
        if normal.outside.matters(tolerance):
            # No trial cures it: chains do not see where the density is 0.
            ended = self.by_law(for_places, normal, at_mode, for_trials)
            return replace(
                ended, doubts=[f"of draws of the normal approximation {normal.outside.in_short}"]
            )
        frame = at_mode.corrected(normal)
        return self.with_others(self.by_law(for_places, normal, frame, for_trials), frame)

    def with_others(self, ended: Ended, frame: Frame) -> Ended:
        """Return an end with a doubt where there is another mode than that of the frame, which no
        chain of its trial has visited; with a note where all have.
        """
        with self.timed("modes"):
            others = elsewhere(self.posterior, frame, self.data)
            far = tails(self.posterior, frame, self.data)
        said = []
        if far.level:
            said.append(
                f"the density does not fall along {_named(frame, far.level)}: {FAR[1]:,.0f} "
                "standard deviations away it is about as high as at the center, so that it may "
                "have no finite integral; give it a prior that falls to both sides"
            )
        if far.slow or far.is_slow:
            along = f"along {_named(frame, far.slow)}" if far.slow else "in all directions"
            said.append(
                f"the density falls {along} as that of a law without a standard deviation, to "
                f"{FAR[1]:,.0f} of those at the mode: none is known; give it a prior that falls "
                "faster, or ask for quantiles"
            )
        if said and ended.gaussian is not None:
            ended.gaussian = replace(ended.gaussian, tails="; ".join(said))
        ended.doubts += said
        if others:
            if ended.gaussian is not None:
                ended.gaussian = replace(ended.gaussian, is_alone=False)
            draws = None if ended.report is None else ended.report.draws.values
            is_seen = draws is not None and all(each.is_visited(frame, draws) for each in others)
            settled = sum(each.searches for each in others)
            text = (
                f"there is another mode: {settled} of {NUM_SEARCHES} searches that began some "
                "widths away, or where parameters have changed places or signs, settled at one, "
            )
            if is_seen:
                ended.notes.append(text + "and all chains of the trial have been there")
            else:
                ended.doubts.append(text + "and chains near the first do not see it")
        return ended

    def by_law(self, key: Key, normal: Gaussian, frame: Frame, for_trials: Key) -> Ended:
        """Return the kernel by its law in a frame where the posterior is near normal there, else by
        trials.
        """
        for_near, for_far, for_steps = rng.keys_of(key, 3)
        if not (
            normal.outside.matters(self.wanted.tolerance) or (normal.is_right and normal.is_normal)
        ):
            return self.by_trials(for_trials, normal, frame)
        near = frame.places(for_near, NUM_POINTS, 1.0)
        with self.timed("candidates"):
            self.ahead.wait("walls")
            wall = steepest(
                self.posterior, frame, frame.places(for_far, NUM_POINTS, WIDE), self.data
            )
            choice = self.choice(for_steps, frame, near, wall.curvature, self.wanted)
        best = self.best(choice)
        burn_in, table, spent = burn_in_of(best.time), choice.candidates, normal.report.data_passes
        return Ended(
            choice.kernel(best), frame.start, burn_in, best.time, table, normal, None, spent
        )

    def choice(
        self, key: Key, frame: Frame, places: np.ndarray, wall: float, wanted: Wanted
    ) -> Choice:
        """Return all candidates; the key is for the steps that are measured."""
        self.ahead.wait("noise")
        # On such a wall few rows make most of the noise, which batches at random seldom show.
        sure = [way for way in self.ways if way.rows != "random"] if wall > OF_FEW_ROWS else []
        choice = Choice(self.posterior, frame, self.data, places, sure or self.ways, wall, wanted)
        if wanted.by == "seconds" and choice.best is not None:
            choice.measure(lambda each: self.seconds_of(key, choice, each))
        return choice

    def seconds_of(self, key: Key, choice: Choice, each: Candidate) -> float:
        """Return what a step of a candidate takes; of one that was measured before, what it took
        then.
        """
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
                "methods and batch_size must allow a run within the tolerance; got none "
                f"({reasons})"
            )
        return choice.best

    def by_trials(
        self, key: Key, normal: Gaussian | None, frame: Frame | None, other: Frame | None = None
    ) -> Ended:
        """Return the kernel whose trial is right: noise, walls and widths are those that chains
        met.

        Args:
            key: a typed PRNG key.
            normal: what was found to be no answer; None where there is no mode.
            frame: the units of the mode, from where chains warm up; None: from where the search for
                it began.
            other: from where they do if they do not settle, if that is known.

        Raises:
            NothingFitsError: nothing that is allowed fits.
        """
        first, second, for_nuts, *keys = rng.keys_of(key, 3 + MOST_TRIALS)
        warm = self.warmed_up((first, second), frame, other)
        ended, among = self.tried_in_turn(keys, warm, normal)
        if ended.report is not None and ended.report.mistaken:
            return ended
        if ended.doubts or self.passes_of(ended) > SLOW:
            ended = self.or_nuts(for_nuts, ended, warm.frame, among)
        if warm.why_not and ended.doubts:
            ended.doubts.append(f"the warm-up has not settled: {warm.why_not}")
        return ended

    def warmed_up(self, keys: tuple[Key, Key], frame: Frame | None, other: Frame | None) -> Warmed:
        """Return the units that chains find from one frame, or another if they do not settle."""
        with self.timed("windows"):
            for name in ("gradients", "walls"):
                self.ahead.wait(name)
            warm = warmed(keys[0], self, frame)
            if not warm.why_not or other is None:
                return warm
            again = warmed(keys[1], self, other)
            spent = warm.data_passes + again.data_passes
            # Both are measured by how much the last window changed them.
            better = again if not again.why_not or again.ratio < warm.ratio else warm
            return better._replace(data_passes=spent)

    def tried_in_turn(
        self, keys: Sequence[Key], warm: Warmed, normal: Gaussian | None
    ) -> tuple[Ended, Among[Position]]:
        """Return what the last of some trials is, and its draws: each is at half the step of the
        one before, until one is right.
        """
        notes, frame = warm.notes, warm.frame
        places, steep_places = warm.places(NUM_POINTS), warm.steep_places(NUM_POINTS)
        among, ended, least, halvings = frame.among(warm.draws), None, 0.0, 0
        spent = warm.data_passes + (0.0 if normal is None else normal.report.data_passes)
        patience = PATIENCE if isinstance(frame.known, np.ndarray) else np.inf
        for number, own in enumerate(keys):
            for_trial, for_steps = rng.keys_of(own, 2)
            wall = steepest(self.posterior, frame, steep_places, self.data)
            wall = led_into(self.posterior, frame, steep_places, self.data, wall)
            if number == 0 and wall.curvature > STEEP:
                notes.append(_of_wall(wall, normal))
            # What is forecast is of a normal law: that of this one may be larger.
            strict = replace(
                self.wanted, tolerance=self.wanted.tolerance / 2**halvings, careful=CAREFUL
            )
            steep = max(least, wall.curvature)
            with self.timed("candidates"):
                choice = self.choice(for_steps, frame, places, steep, strict)
            if choice.best is None and ended is not None:
                notes.append(
                    "nothing is predicted to be right at half of that error: the last trial is "
                    "the nearest to it"
                )
                return ended, among
            if choice.best is None and not self.names_methods:
                kernel, told = self.careful(frame, steep)
            else:
                best = self.best(choice)
                kernel, told = choice.kernel(best), best.time

            starts = functools.partial(among.subset, count=NUM_CHAINS)
            last = trial(for_trial, self, kernel, told, starts, patience)
            spent += last.data_passes
            if not last.is_wrong:
                among = last.among(frame)
            burn_in, time = burn_in_of(told), max(told, last.time)
            of_choice = choice.candidates, normal, last.report, spent, notes, last.doubts
            ended = Ended(kernel, among, burn_in, time, *of_choice)
            is_slow = last.time > patience * told
            if last.is_outside or last.is_mistaken or not (last.is_wrong or is_slow):
                return ended, among
            # Where it went is where noise and walls are measured next.
            if not last.is_wrong:
                # Once: the posterior is much wider along some direction than the units say.
                frame, patience = last.frame_of_draws(frame), np.inf
            else:
                least, halvings = 4 * steep, halvings + 1
            if last.report is not None and not (last.is_wrong and last.is_short):
                places = steep_places = last.places(NUM_POINTS, frame.center)
        assert ended is not None
        notes.append(f"none of {MOST_TRIALS} trials was right: the last is the nearest to it")
        return ended, among

    def passes_of(self, ended: Ended) -> float:
        """Return the data passes of a chain that one effective draw takes."""
        return ended.time * ended.kernel.evaluations(self.data).on_average / num_rows(self.data)

    def or_nuts(self, key: Key, ended: Ended, frame: Frame, among: Among[Position]) -> Ended:
        """Return an end, or that of NUTS where it is right and the other not, or slower by
        gradients.
        """
        if reason := why_not(self):
            if ended.doubts:
                ended.notes.append(f"NUTS was not tried: {reason}")
            return ended
        tried, passes_per_step = by_nuts(key, self, frame, among) or (None, 0.0)
        if tried is None or tried.report is None:
            ended.notes.append("NUTS was tried, and its chains diverged")
            return ended
        spent = ended.data_passes + tried.data_passes
        before = self.passes_of(ended)
        took = passes_per_step * tried.time
        # Of two that are in doubt, or of two that are not, the quicker one.
        is_worse = bool(tried.doubts) and not ended.doubts
        if is_worse or (bool(tried.doubts) == bool(ended.doubts) and took > before):
            ended.notes.append(
                f"NUTS was tried: {took:.3g} passes an effective draw, for {before:.3g}"
            )
            return replace(ended, data_passes=spent)
        other = f", for {before:.3g} of what was best before" if np.isfinite(before) else ""
        why = f"{took:.3g} passes an effective draw{other}"
        if ended.doubts and not tried.doubts:
            why = f"its trial shows no bias, that of what was best before does: {ended.doubts[0]}"
        return replace(
            ended,
            kernel=tried.kernel,
            start=among if tried.is_wrong else tried.among(frame),
            time=tried.time,
            burn_in=burn_in_of(tried.time),
            report=tried.report,
            data_passes=spent,
            notes=[*ended.notes, f"NUTS is the better tool here: {why}"],
            doubts=tried.doubts,
        )

    def careful(self, frame: Frame, wall: float) -> tuple[Kernel, float]:
        """Return a kernel whose step is stable on a wall, for where no forecast is within
        tolerance; its memory.
        """
        n = num_rows(self.data)
        few = max(self.parts, min(FEW_ROWS, n // 2) // self.parts * self.parts)
        size = self.wanted.batch_size or few
        way = Way("BAOAB", *(("full", "all") if n <= FULL else ("control_variate", "random")))
        step_size = min(1.0, 2 * STABLE / max(wall, 1.0) ** 0.5)
        return way.kernel_of(self.posterior, step_size, 1.0, size, frame, "random"), 4 / step_size


def _named(frame: Frame, numbers: list[int]) -> str:
    """Return names of coordinates, three of them at most."""
    center = jax.tree.map(lambda x: np.asarray(x)[None, None], frame.center)
    names = flattened(named(center, "position"))[1]
    return ", ".join(names[i] for i in numbers[:3]) + (", …" if len(numbers) > 3 else "")


def _of_wall(wall: Wall, normal: Gaussian | None) -> str:
    """Return what bounds the step, in words."""
    names = [] if normal is None else [normal.report.names[k] for k in wall.coordinates]
    along = f", along {', '.join(names)}" if names else ""
    return (
        f"stiff places: the curvature reaches {wall.curvature:.3g} times the posterior's{along}, "
        "and bounds the step"
    )
