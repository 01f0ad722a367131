"""What several processes agree on, with the exchange between them replaced: none is begun."""

import numpy as np
from jax.experimental import multihost_utils

from ewsg_jax.run.host import SharedClock, on_host


def test_the_time_is_that_of_the_first(monkeypatch):
    first = 123456.789012345

    def told(mine):
        assert mine.dtype == np.uint32
        return np.array([first]).view(np.uint32)

    monkeypatch.setattr(multihost_utils, "broadcast_one_to_all", told)
    assert SharedClock(True).now() == first
    assert SharedClock().now() != first


def test_one_interrupt_is_that_of_all(monkeypatch):
    monkeypatch.setattr(
        multihost_utils, "process_allgather", lambda mine: np.array([bool(mine), True])
    )
    assert SharedClock(True).any_process(False)
    assert not SharedClock().any_process(False)


def test_arrays_come_to_the_host():
    assert isinstance(on_host({"a": np.float32(1.0)})["a"], np.ndarray)
