"""Batches that the caller draws: the law of loaders by all orders of the rows, and runs on them
against a loop of `kernel.step`, bit for bit.
"""

import functools
import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import batch_windows
from ewsg_jax.run.starts import keys_of
from tests.run.streams.loaders import Loader, Tensor, forever

MODEL = ewsg.models.gaussian_location(noise_scale=0.7, prior_scale=2.0)
N = 5
ROWS = np.random.default_rng(2).normal(size=(N, 2))
START = np.array([0.3, -0.2])
FEW = np.random.default_rng(3).normal(size=(19, 2)).astype(np.float32)
KEY = jax.random.key(0)


def streamed(num_data=N, unpack=None):
    return ewsg.gradients.streamed(MODEL, num_data=num_data, unpack=unpack)


def kernel_of(num_data=N, h=1e-3, **options):
    return ewsg.kernel(ewsg.dynamics.langevin(h), streamed(num_data, **options))


def estimate(rows):
    """The gradient that a step takes from a batch."""
    estimator = streamed()
    batch = estimator.viewed(jnp.asarray(rows))
    return np.asarray(estimator.propose((), (), START, batch, None)[0].gradient)  # type: ignore


def orders(batch_size, drop_last):
    """The batches of an epoch, by all orders of the rows: (orders, batches), lists of rows."""
    starts = range(0, N - (N % batch_size if drop_last else 0), batch_size)
    return [
        [list(order[k : k + batch_size]) for k in starts]
        for order in itertools.permutations(range(N))
    ]


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_batch_of_a_shuffled_epoch_is_unbiased(x64, drop_last):
    """Each place of the epoch is a uniform subset: mean and covariance, the short one's too."""
    epochs = orders(2, drop_last)
    assert len(epochs[0]) == (2 if drop_last else 3)
    known = {
        tuple(rows): estimate(ROWS[list(rows)])
        for size in (1, 2)
        for rows in itertools.permutations(range(N), size)
    }
    gradient = np.asarray(MODEL.gradient(jnp.asarray(START), ROWS))
    of_rows = np.asarray(MODEL.row_gradients(jnp.asarray(START), ROWS))
    for batches in zip(*epochs, strict=True):
        b = len(batches[0])
        estimates = np.array([known[tuple(batch)] for batch in batches])
        np.testing.assert_allclose(estimates.mean(0), gradient, rtol=1e-12)
        # N²/b S (N − b)/(N − 1), S the covariance of the ∇Vᵢ over the rows.
        expected = N**2 / b * np.cov(of_rows.T, bias=True) * (N - b) / (N - 1)
        np.testing.assert_allclose(np.cov(estimates.T, bias=True), expected, rtol=1e-9)


@pytest.mark.parametrize("drop_last", [False, True])
def test_rows_in_a_fixed_order_have_the_weights_that_are_said(x64, drop_last):
    batches = orders(2, drop_last)[0]
    mean = np.mean([estimate(ROWS[batch]) for batch in batches], axis=0)
    weights = np.zeros(N)
    for batch in batches:
        weights[batch] = N / (len(batches) * len(batch))
    of_rows = np.asarray(MODEL.row_gradients(jnp.asarray(START), ROWS))
    expected = MODEL.prior_gradient(jnp.asarray(START)) + weights @ of_rows
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    assert weights[4] == (0 if drop_last else N / 3)


def test_a_batch_of_all_rows_is_the_full_gradient(x64):
    np.testing.assert_allclose(estimate(ROWS), MODEL.gradient(jnp.asarray(START), ROWS))


def by_hand(kernel, loader, steps, chains=1):
    """The positions of a loop of `kernel.step`, with the keys of a run: (chains, steps, 2)."""
    keys = keys_of(KEY, chains, 0)
    batches = forever(loader)
    step = jax.jit(jax.vmap(kernel.step, (0, 0, None)))
    batch, states, positions = next(batches), None, []
    start = jnp.zeros((chains, 2))
    states = jax.vmap(kernel.init, (0, 0, None))(keys.steps, start, batch)
    for t in range(steps):
        now = jax.vmap(jax.random.fold_in, (0, None))(keys.steps, t)
        states, _ = step(now, states, jnp.asarray(batch))
        positions.append(np.asarray(states.position))
        batch = next(batches)
    return np.stack(positions, axis=1)


@pytest.mark.usual_parameters("4-False-1")
@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("most", [1, 4])
def test_a_run_is_the_loop(x64, monkeypatch, most, drop_last, chains):
    """With windows of one batch and of four, and short ones between them."""
    monkeypatch.setattr(batch_windows, "MOST_STEPS_PER_BLOCK", most)
    kernel = kernel_of(19)
    make = functools.partial(Loader, FEW, 4, drop_last=drop_last)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 23, batches=make(), num_chains=chains)
    np.testing.assert_allclose(samples.draws, by_hand(kernel, make(), 23, chains), rtol=1e-9)
    # Five batches an epoch: four of four rows and one of three, unless it is left out.
    of_epochs = 23 * 4 if drop_last else 4 * 19 + 12
    assert samples.gradient_evaluations == chains * of_epochs
    assert samples.data_passes == of_epochs / 19
    assert samples.num_data == 19
    assert samples.shared_minibatch == (chains > 1)


def test_batches_may_grow(x64):
    """Several of one size before the first larger one, as of a schedule of sizes: each has its own
    step.
    """
    kernel, ends = kernel_of(19), [0, 2, 4, 7, 10, 14, 18, 19]
    batches = [FEW[start:end] for start, end in itertools.pairwise(ends)]
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 7, batches=batches)
    np.testing.assert_allclose(samples.draws, by_hand(kernel, batches, 7), rtol=1e-9)


def test_a_budget_in_passes_and_other_records(x64):
    """Burn-in, thinning, moments and a function that is kept, as in any run."""
    kernel = kernel_of(19)
    options = {"burn_in": 4, "thin": 3, "moments": ewsg.moments()}
    samples = ewsg.sample(
        KEY,
        kernel,
        jnp.zeros(2),
        batches=Loader(FEW, 4),
        data_passes=5,
        keep=lambda p: p[0],
        **options,
    )
    # 95 evaluations, four a step.
    assert samples.num_steps == 24
    plain = by_hand(kernel, Loader(FEW, 4), 24)
    np.testing.assert_allclose(samples.draws, plain[:, 6::3, 0], rtol=1e-9)
    np.testing.assert_allclose(samples.moments.mean, plain[:, 6::3].mean(1), rtol=1e-5)


@pytest.mark.usual_parameters("iterator")
@pytest.mark.parametrize("kind", ["loader", "iterator"])
def test_runs_continue(kind):
    """A loader from its beginning, an iterator from where it is."""
    kernel = kernel_of(19)
    run = functools.partial(ewsg.sample, KEY, kernel)
    whole = run(jnp.zeros(2), None, 20, batches=Loader(FEW, 4))
    first, second = Loader(FEW, 4), Loader(FEW, 4)
    if kind == "iterator":
        first = second = forever(first)
    half = run(jnp.zeros(2), None, 9, batches=first)
    rest = run(None, None, 11, state=half.state, batches=second)
    np.testing.assert_array_equal(np.concatenate([half.draws, rest.draws], 1), whole.draws)


@pytest.mark.parametrize("kind", ["loader", "iterator"])
def test_a_run_that_ended_early_resumes(tmp_path, kind):
    """Batches end after 13 steps; the checkpoint goes on with others, bit for bit."""
    kernel = kernel_of(19)
    whole = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 30, batches=Loader(FEW, 4))
    path = tmp_path / "run"
    with pytest.warns(RuntimeWarning, match="ended after 13 steps .* batches must hold one for"):
        part = ewsg.sample(
            KEY,
            kernel,
            jnp.zeros(2),
            None,
            30,
            batches=itertools.islice(forever(Loader(FEW, 4)), 13),
            checkpoint=path,
        )
    assert part.interrupted
    np.testing.assert_array_equal(part.draws, whole.draws[:, :13])
    batches = Loader(FEW, 4)
    if kind == "iterator":
        batches = itertools.islice(forever(batches), 13, None)
    rest = ewsg.resume(path, None, kernel=kernel, batches=batches)
    np.testing.assert_array_equal(rest.draws, whole.draws)


@pytest.mark.full
def test_samples_of_a_file_know_their_state_by_one_batch(tmp_path):
    kernel = kernel_of(19)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 9, batches=Loader(FEW, 4))
    samples.save(tmp_path / "run.npz")
    loaded = ewsg.load(tmp_path / "run.npz", kernel=kernel, data=FEW[:4])
    np.testing.assert_array_equal(loaded.state.position, samples.state.position)
    rest = ewsg.sample(KEY, kernel, None, None, 3, state=loaded.state, batches=Loader(FEW, 4))
    whole = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 12, batches=Loader(FEW, 4))
    np.testing.assert_array_equal(rest.draws, whole.draws[:, 9:])


def test_no_batch_is_read_beyond_the_last_step():
    batches = forever(Loader(FEW, 4))
    ewsg.sample(KEY, kernel_of(19), jnp.zeros(2), None, 7, batches=batches)
    expected = list(itertools.islice(forever(Loader(FEW, 4)), 8))[-1]
    np.testing.assert_array_equal(next(batches), expected)


def test_unpacked_tensors_and_memory_that_is_filled_again():
    """Pairs of tensors as PyTorch's, whose memory the next batch overwrites."""
    x, y = FEW, FEW[:, 0]
    model = ewsg.models.linear_regression()
    room = np.empty((4, 2), np.float32), np.empty(4, np.float32)

    def pairs():
        for rows in Loader((x, y), 4, drop_last=True):
            for place, of_batch in zip(room, rows, strict=True):
                place[...] = of_batch
            yield [Tensor(room[0]), Tensor(room[1])]

    def unpack(batch):
        return {"x": batch[0], "y": batch[1]}

    estimator = ewsg.gradients.streamed(model, num_data=19, unpack=unpack)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 4, batches=pairs())
    plain = ewsg.kernel(ewsg.dynamics.langevin(1e-3), ewsg.gradients.streamed(model, num_data=19))
    rows = Loader({"x": x, "y": y}, 4, drop_last=True)
    expected = ewsg.sample(KEY, plain, jnp.zeros(2), None, 4, batches=rows)
    np.testing.assert_array_equal(samples.draws, expected.draws)
    # A step that is not compiled takes what a loader yields.
    state = kernel.init(KEY, jnp.zeros(2), next(pairs()))
    state, info = kernel.step(jax.random.key(1), state, next(pairs()))
    assert int(info.gradient_evaluations) == 4


def test_chains_that_diverge_are_frozen_at_their_step():
    """Batches cannot be had again: the state before each call is kept."""
    kernel = kernel_of(19, h=1.0)
    with pytest.warns(RuntimeWarning, match="1 of 1 chains diverged"):
        samples = ewsg.sample(KEY, kernel, jnp.full(2, 1e20), None, 40, batches=Loader(FEW, 4))
    expected = by_hand_until_lost(kernel, Loader(FEW, 4))
    assert samples.diverged_at[0] == expected
    assert np.isfinite(samples.draws).all()


def by_hand_until_lost(kernel, loader):
    batches, key = forever(loader), keys_of(KEY, 1, 0).steps[0]
    batch = next(batches)
    state = kernel.init(key, jnp.full(2, 1e20), batch)
    step = jax.jit(kernel.step)
    for t in range(40):
        state, info = step(jax.random.fold_in(key, t), state, jnp.asarray(batch))
        if not info.is_finite:
            return t + 1
        batch = next(batches)
    raise AssertionError


def test_a_grid_of_step_sizes_runs_on_one_loader():
    kernels = [kernel_of(19, h=h) for h in (1e-3, 2e-3)]
    samples = ewsg.sample(KEY, ewsg.stack(kernels), jnp.zeros(2), None, 9, batches=Loader(FEW, 4))
    for kernel, of_one in zip(kernels, samples, strict=True):
        alone = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 9, batches=Loader(FEW, 4))
        np.testing.assert_allclose(of_one.draws, alone.draws, rtol=1e-6)


@pytest.mark.usual_parameters("at another point")
@pytest.mark.parametrize(
    "dynamics",
    [
        ewsg.dynamics.splitting(0.01, friction=1.0),
        ewsg.dynamics.splitting_scheme("BAOAB", 0.01, friction=1.0),
    ],
    ids=["one gradient", "at another point"],
)
def test_other_dynamics_take_batches(dynamics):
    kernel = ewsg.kernel(dynamics, streamed(19))
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 12, batches=Loader(FEW, 4))
    plain = by_hand(kernel, Loader(FEW, 4), 12)
    np.testing.assert_allclose(samples.draws, plain, rtol=1e-5)


# Bad input: one sentence each, and what was sampled before is returned.


def after(count, *more):
    """Some good batches, then others."""
    good = itertools.islice(forever(Loader(FEW, 4)), count)
    return itertools.chain(good, more)


def broken():
    yield FEW[:4]
    raise OSError("the disk is full")


NAN_ROW = np.where(np.arange(4)[:, None] == 2, np.nan, FEW[:4]).astype(np.float32)
LATE = {
    "they ended after 3": (3, lambda: after(3)),
    r"the batch of step 4 has batch: \(4, 1\) float32": (3, lambda: after(3, FEW[:4, :1])),
    r"step 4 has batch: \(4, 2\) float64, and the first": (
        3,
        lambda: after(3, FEW[:4].astype(float)),
    ),
    "at least those of a batch, 38; got 19": (3, lambda: after(3, np.tile(FEW, (2, 1)))),
    "the batch of step 4: data must be": (3, lambda: after(3, FEW[:0])),
    "row 2 of the batch of step 4 holds nan": (3, lambda: after(3, NAN_ROW, FEW[:4])),
    "the batch of step 2 could not be read: OSError: the disk is full": (1, broken),
}


@pytest.mark.usual_parameters("they ended after 3", "row 2*", "the batch of step 2*")
@pytest.mark.parametrize("text", LATE)
def test_a_batch_that_is_wrong_ends_the_run(x64, text):
    count, batches = LATE[text]
    with pytest.warns(RuntimeWarning, match=f"ended after {count} steps .*{text}"):
        samples = ewsg.sample(KEY, kernel_of(19), jnp.zeros(2), None, 30, batches=batches())
    assert samples.interrupted
    assert samples.draws.shape == (1, count, 2)
    whole = by_hand(kernel_of(19), list(after(count)), count)
    if count == 3:
        np.testing.assert_allclose(samples.draws, whole, rtol=1e-9)


class Attached(Tensor):
    """A tensor that is part of a computation."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on a tensor that requires grad")


def test_tensors_that_no_array_is_made_of_are_said():
    with pytest.raises(ValueError, match=r"unpack may make .* got Attached: .* requires grad"):
        ewsg.sample(KEY, kernel_of(19), jnp.zeros(2), None, 3, batches=[Attached(FEW[:4])])


def test_labels_out_of_range_end_the_run():
    model = ewsg.models.softmax_regression()
    estimator = ewsg.gradients.streamed(model, num_data=19)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-3), estimator)
    rows = {"x": FEW, "y": np.arange(19) % 3}
    wrong = {"x": FEW[:4], "y": np.array([0, 1, 2, 3])}

    def batches():
        yield from itertools.islice(forever(Loader(rows, 4)), 6)
        yield wrong
        yield from forever(Loader(rows, 4))

    with pytest.warns(RuntimeWarning, match="6 steps .* row 3 of the batch of step 7: .* whole"):
        samples = ewsg.sample(KEY, kernel, jnp.zeros((2, 3)), None, 30, batches=batches())
    assert samples.num_steps == 6
    # Also within the first window, whose batches are read before the model is asked.
    good = {"x": FEW[:4], "y": np.arange(4) % 3}
    with pytest.warns(RuntimeWarning, match="2 steps .* row 3 of the batch of step 3: .* whole"):
        samples = ewsg.sample(
            KEY, kernel, jnp.zeros((2, 3)), None, 30, batches=iter([good, good, wrong, good])
        )
    assert samples.num_steps == 2
    first = itertools.chain([wrong], forever(Loader(rows, 4)))
    with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
        ewsg.sample(KEY, kernel, jnp.zeros((2, 3)), None, 30, batches=first)


WARNED = {
    "num_data must be the rows .* got 30, and an epoch of batches with 19": (
        30,
        lambda: Loader.of_unknown_length(FEW, 4),
    ),
    "batches must come in a new order in each epoch": (
        19,
        lambda: Loader(FEW, 4, shuffle=False),
    ),
    "got the same 4 rows 5 times": (19, lambda: itertools.repeat(FEW[:4])),
}


@pytest.mark.parametrize("text", WARNED)
def test_what_a_loader_does_that_changes_the_target_is_said_once(text):
    num_data, batches = WARNED[text]
    with pytest.warns(RuntimeWarning, match=text) as caught:
        ewsg.sample(KEY, kernel_of(num_data), jnp.zeros(2), None, 16, batches=batches())
    assert sum("must" in str(one.message) for one in caught) == 1


def test_shuffled_loaders_and_full_batches_are_taken_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batches, num_data in ((Loader(FEW, 4), 19), ([FEW], 19)):
            ewsg.sample(KEY, kernel_of(num_data), jnp.zeros(2), None, 16, batches=batches)


# Loaders of other libraries, if they are installed.


def test_a_loader_of_pytorch():
    torch = pytest.importorskip("torch")
    data_set = torch.utils.data.TensorDataset(torch.tensor(FEW))
    loader = torch.utils.data.DataLoader(data_set, batch_size=4, shuffle=True)
    kernel = kernel_of(19, unpack=lambda batch: batch[0])
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 12, batches=loader)
    assert samples.num_steps == 12
    attached = torch.utils.data.DataLoader([torch.tensor(x, requires_grad=True) for x in FEW])
    with pytest.raises(ValueError, match=r"unpack may make of others; got Tensor: .* grad"):
        ewsg.sample(KEY, kernel_of(19), jnp.zeros(2), None, 3, batches=attached)


def test_a_data_set_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    data_set = datasets.Dataset.from_dict({"x": FEW.tolist()})
    kernel = kernel_of(19, unpack=lambda batch: np.asarray(batch["x"], np.float32))
    for form in ("numpy", "jax"):
        shuffled = (data_set.with_format(form).shuffle(seed) for seed in itertools.count())
        batches = itertools.chain.from_iterable(epoch.iter(batch_size=4) for epoch in shuffled)
        samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 12, batches=batches)
        assert samples.num_steps == 12


def test_a_loader_of_grain():
    grain = pytest.importorskip("grain.python")
    data_set = grain.MapDataset.source(list(FEW)).shuffle(seed=0).repeat().batch(4)
    samples = ewsg.sample(
        KEY, kernel_of(19), jnp.zeros(2), None, 12, batches=iter(data_set.to_iter_dataset())
    )
    assert samples.num_steps == 12
    sampler = grain.IndexSampler(19, shuffle=True, seed=0, num_epochs=None)
    loader = grain.DataLoader(
        data_source=list(FEW), sampler=sampler, operations=[grain.Batch(4)], worker_count=0
    )
    samples = ewsg.sample(KEY, kernel_of(19), jnp.zeros(2), None, 12, batches=loader)
    assert samples.num_steps == 12


def test_a_data_set_of_tensorflow():
    tf = pytest.importorskip("tensorflow")
    data_set = tf.data.Dataset.from_tensor_slices(FEW).shuffle(19).batch(4)
    kernel = kernel_of(19)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), None, 12, batches=data_set)
    assert samples.num_steps == 12
