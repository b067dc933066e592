"""WorkerPool and its processes: their answers, and the replacement of those that hang, die or use too much memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pymq.filterserver.work import FAILED, MATCH, NO_MATCH
from pymq.filterserver.workers import COMPILE_TIME_MAX_S, Filter, WorkerFailedError, WorkerPool
from tests.filterserver.records import record, records

HOSTILE = (sys.executable, "-m", "tests.filterserver.hostile_worker")
TASK_TIME_MAX_S = 3.0


def run(
    scenario: Callable[[WorkerPool], Awaitable[None]], count: int = 1, compile_time_max_s: float = COMPILE_TIME_MAX_S
) -> None:
    async def work() -> None:
        pool = WorkerPool(
            count, command=HOSTILE, compile_time_max_s=compile_time_max_s, task_time_max_s=TASK_TIME_MAX_S
        )
        try:
            await scenario(pool)
        finally:
            await pool.stop()

    asyncio.run(work())


def test_outcomes_come_for_each_record_with_the_first_error() -> None:
    async def scenario(pool: WorkerPool) -> None:
        orders = Filter("hostile", "obey")
        answer = await pool.filter_records(orders, "b", records([b"yes", b"no", b"null", b"bad", b"print"]))
        assert answer.outcomes == bytes([MATCH, NO_MATCH, NO_MATCH, FAILED, MATCH])
        assert "this one is bad" in answer.error and answer.time_us > 0
        answer = await pool.filter_records(orders, "b", records([b"memory"]))
        assert answer.outcomes == bytes([FAILED]) and "MemoryError" in answer.error
        tags = Filter("tag", "red || blue")
        answer = await pool.filter_records(tags, "b", record(0, tags="red") + record(1, tags="green"))
        assert answer.outcomes == bytes([MATCH, NO_MATCH])
        assert pool.restart_count == 0

    run(scenario)


@pytest.mark.parametrize(
    ("name", "expression", "text"),
    [
        ("unknown", "x", "no filter 'unknown'"),
        ("sql92", "a >", "column"),
        ("hostile", "raise", "no such luck"),
    ],
)
def test_an_unusable_expression_names_the_reason(name: str, expression: str, text: str) -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert text in await pool.compile(Filter(name, expression))
        assert await pool.compile(Filter("tag", "a")) == ""

    run(scenario)


def test_an_endless_compilation_costs_its_worker() -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert "while it compiled" in await pool.compile(Filter("hostile", "hang"))
        assert pool.restart_count == 1

    run(scenario, compile_time_max_s=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("order", [b"hang", b"die"])
def test_a_worker_that_hangs_or_dies_is_replaced(order: bytes) -> None:
    async def scenario(pool: WorkerPool) -> None:
        orders = Filter("hostile", "obey")
        with pytest.raises(WorkerFailedError):
            await pool.filter_records(orders, "b", records([b"yes", order]))
        assert pool.restart_count == 1
        answer = await pool.filter_records(orders, "b", records([b"yes", b"no"]))
        assert answer.outcomes == bytes([MATCH, NO_MATCH])

    run(scenario)


def test_an_abandoned_task_leaves_no_answer_for_the_next() -> None:
    async def scenario(pool: WorkerPool) -> None:
        orders = Filter("hostile", "obey")
        await pool.compile(orders)
        given_up = asyncio.ensure_future(pool.filter_records(orders, "b", records([b"hang"])))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert (await pool.filter_records(orders, "b", records([b"no", b"no"]))).outcomes == bytes([NO_MATCH, NO_MATCH])

    run(scenario)


async def process_ids(pool: WorkerPool, wanted: Filter) -> set[str]:
    """Return the workers that answer three concurrent batches."""
    asked = [pool.filter_records(wanted, "b", records([b"pid"])) for _ in range(3)]
    return {answer.error for answer in await asyncio.gather(*asked)}


def test_batches_go_to_all_workers_unless_the_filter_keeps_state() -> None:
    async def scenario(pool: WorkerPool) -> None:
        assert len(await process_ids(pool, Filter("hostile", "obey"))) == 2
        stateful = Filter("stateful", "obey")
        assert await pool.compile(stateful) == ""
        assert len(await process_ids(pool, stateful)) == 1

    run(scenario, count=2)


def test_an_evicted_filter_is_compiled_again_when_needed() -> None:
    async def scenario(pool: WorkerPool) -> None:
        orders = Filter("hostile", "obey")
        assert await pool.compile(orders) == ""
        await pool.forget(orders)
        await pool.forget(orders)
        assert (await pool.filter_records(orders, "b", records([b"yes"]))).outcomes == bytes([MATCH])

    run(scenario)


def test_the_deduplication_filter_declares_its_state() -> None:
    async def scenario(pool: WorkerPool) -> None:
        repetitions = Filter("dedup", "by body")
        assert await pool.compile(repetitions) == ""
        assert repetitions.keeps_state
        answer = await pool.filter_records(repetitions, "b", records([b"a", b"b", b"a"]))
        assert answer.outcomes == bytes([MATCH, MATCH, NO_MATCH])

    pytest.importorskip("pymq_filter_dedup")
    run(scenario)


def test_a_module_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resource.py").write_text("open('executed', 'w').close()\n")
    (tmp_path / "pymq.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)

    async def work() -> None:
        pool = WorkerPool(1)
        try:
            assert await pool.compile(Filter("tag", "red")) == ""
        finally:
            await pool.stop()

    asyncio.run(work())
    assert not (tmp_path / "executed").exists()
