"""The first task of a worker takes what is imported out of the garbage collector's sight, once."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pymq.spark.tasks import workers


@pytest.fixture(autouse=True)
def unsettled() -> Iterator[None]:
    workers.settle.cache_clear()
    gc.unfreeze()
    yield
    workers.settle.cache_clear()
    gc.unfreeze()


@pytest.mark.slow
def test_the_first_task_settles_its_worker() -> None:
    with workers.task():
        assert gc.get_freeze_count() == 0
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    kept = [[n] for n in range(100)]
    with workers.task():
        pass
    assert gc.get_freeze_count() <= frozen
    assert len(kept) == 100


def test_a_task_that_fails_leaves_it_to_the_next_one() -> None:
    with pytest.raises(ValueError, match="no"), workers.task():
        raise ValueError("no")
    assert gc.get_freeze_count() == 0
