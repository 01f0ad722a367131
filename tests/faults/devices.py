"""Planted faults of runs over several devices and processes."""

from tests.faults.mutant import Mutant

DEVICES = "tests/sampling/test_devices.py::"
FOUR = DEVICES + "test_runs_over_four_devices"
MUTANTS = [
    Mutant(
        "devices: what parts of the rows give is not summed",
        "ewsg_jax/rows/shards.py",
        "    return (summed(_tree.combine(*((1, part) for part in parts)), data),)",
        "    return parts",
        "tests/test_lowered.py::test_what_devices_exchange_in_a_step[sgld-numbers0-cuda]",
    ),
    Mutant(
        "devices: each tree is summed over the parts by itself",
        "ewsg_jax/rows/shards.py",
        "    return (summed(_tree.combine(*((1, part) for part in parts)), data),)",
        "    return tuple(summed(part, data) for part in parts)",
        "tests/test_lowered.py::test_what_devices_exchange_in_a_step[saga_hmc-numbers2-cuda]",
    ),
    Mutant(
        "devices: kernels that need all rows are let in",
        "ewsg_jax/sampling/devices.py",
        "    if not kernel.takes_shards:",
        "    if False:",
        DEVICES + "test_what_needs_all_rows_in_one_place_is_refused",
    ),
    Mutant(
        "devices: a batch that its parts do not divide is let in",
        "ewsg_jax/sampling/devices.py",
        "    if size is not None and size % devices.parts:",
        "    if False:",
        DEVICES + "test_what_needs_all_rows_in_one_place_is_refused",
    ),
    Mutant(
        "devices: rows of a forecast by their place in a part",
        "ewsg_jax/rows/spread.py",
        "            place = numbers - first[jax.lax.axis_index(DATA)]",
        "            place = numbers - first[jax.lax.axis_index(DATA)] - 1",
        FOUR,
        sweep=True,
    ),
    Mutant(
        "devices: copies of rows are among those that are chosen",
        "ewsg_jax/rows/spread.py",
        "        counts = np.where(places < sizes[:, None], sizes[:, None], 0).astype(np.int32)",
        "        counts = np.full((len(sizes), len(places)), len(places), np.int32)",
        FOUR,
        sweep=True,
    ),
    Mutant(
        "devices: labels of all rows are asked of a part",
        "ewsg_jax/forecasting/_forecast.py",
        "    if kernel.dynamics.sees_data or isinstance(estimator, Stratified):",
        "    if False:",
        "tests/wrong_calls/test_wrong_calls.py",
    ),
    Mutant(
        "devices: a plan's batch that its parts do not divide is let in",
        "ewsg_jax/planning/_plan.py",
        "        if batch_size % parts:",
        "        if False:",
        "tests/wrong_calls/test_wrong_calls.py::test_a_wrong_call_is_answered[plan: a batch of one for two parts]",
    ),
    Mutant(
        "devices: copies of rows make a wall",
        "ewsg_jax/planning/walls.py",
        "    return products.matmul(inputs.T, only_counted(weights[:, None] * inputs, given))",
        "    return products.matmul(inputs.T, weights[:, None] * inputs)",
        DEVICES + "test_every_check_over_four_devices",
        sweep=True,
    ),
    Mutant(
        "devices: rows of all parts by one key",
        "ewsg_jax/rows/shards.py",
        "    return jax.random.fold_in(key, number)",
        "    return key",
        FOUR,
        sweep=True,
    ),
    Mutant(
        "devices: a part draws rows that do not count",
        "ewsg_jax/rows/spread.py",
        "    counts = np.where(np.arange(most) < sizes[:, None], sizes[:, None], 0).astype(np.int32)",
        "    counts = np.full((parts, most), most, np.int32)",
        FOUR,
        sweep=True,
    ),
    Mutant(
        "devices: chains that were added are cut from the front",
        "ewsg_jax/sampling/over_devices.py",
        "jax.lax.slice_in_dim(x, 0, count, axis=axis)",
        "jax.lax.slice_in_dim(x, x.shape[axis] - count, x.shape[axis], axis=axis)",
        FOUR,
        sweep=True,
    ),
    Mutant(
        "processes: what they were given is not compared",
        "ewsg_jax/sampling/alike.py",
        "    if others.any():",
        "    if False:",
        "tests/sampling/test_processes.py::test_processes_are_one[2]",
        sweep=True,
    ),
    Mutant(
        "processes: each decides by its own time",
        "ewsg_jax/sampling/clock.py",
        "        return float(np.asarray(words).view(np.float64)[0])",
        "        return mine",
        "tests/sampling/test_clock.py::test_the_time_is_that_of_the_first",
    ),
]
