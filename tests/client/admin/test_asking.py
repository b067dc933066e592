"""Several brokers are asked at once; a partial Admin leaves out those that can't be reached."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client.admin.asking import Asking, BrokerTarget, by_key, change_each, for_each
from pymq.errors import ClosedError, PartialError, Refusal, RefusedError, UnreachableError

A, B = BrokerTarget("a", "c", "a:1"), BrokerTarget("b", "c", "b:1")


class Brokers:
    """Brokers that answer with their address, or raise what ``errors`` has for it."""

    def __init__(self, **errors: Exception) -> None:
        self.errors = {f"{name}:1": error for name, error in errors.items()}
        self.asked: list[str] = []

    async def ask(self, address: str) -> str:
        self.asked.append(address)
        if address in self.errors:
            raise self.errors[address]
        return address

    def each(self, asking: Asking) -> list[tuple[BrokerTarget, str]]:
        return asyncio.run(asking.each([A, B], self.ask))


def test_all_answers_come_in_order() -> None:
    assert Brokers().each(Asking()) == [(A, "a:1"), (B, "b:1")]


def test_an_unreachable_broker_is_left_out_and_not_asked_twice() -> None:
    asking, brokers = Asking(is_partial=True), Brokers(b=UnreachableError("b is down"))
    assert brokers.each(asking) == brokers.each(asking) == [(A, "a:1")]
    assert asking.unreached == {"b": "b is down"}
    assert brokers.asked == ["a:1", "b:1", "a:1"]


def test_a_broker_whose_answer_can_not_be_read_is_left_out() -> None:
    asking, broken = Asking(is_partial=True), Refusal(1, "the body is not usable")
    assert Brokers(b=broken).each(asking) == [(A, "a:1")]
    assert asking.unreached == {"b": "what b:1 answers can't be read: the body is not usable"}
    with pytest.raises(Refusal):
        Brokers(b=broken).each(Asking())


def test_a_whole_admin_raises() -> None:
    asking = Asking()
    with pytest.raises(UnreachableError, match="b is down"):
        Brokers(b=UnreachableError("b is down")).each(asking)
    assert asking.unreached == {}


def test_no_answer_at_all_is_no_part() -> None:
    asking = Asking(is_partial=True)
    brokers = Brokers(a=UnreachableError("a is down"), b=UnreachableError("b is down"))
    for _ in range(2):  # the second time nothing is asked
        with pytest.raises(UnreachableError, match="a is down"):
            brokers.each(asking)
    assert len(brokers.asked) == 2


@pytest.mark.parametrize("error", [RefusedError(1, "no"), ClosedError("the client is stopped")])
def test_other_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        Brokers(b=error).each(Asking(is_partial=True))


def test_brokers_without_a_master_are_noted() -> None:
    asking = Asking()
    assert asking.reachable([A, BrokerTarget("b", "c", "")]) == [A]
    assert "no master" in asking.unreached["b"]


def test_a_change_that_some_brokers_made_is_partial() -> None:
    def change(**errors: Exception) -> list[str]:
        brokers = Brokers(**errors)
        return asyncio.run(change_each([A, B], lambda target: brokers.ask(target.address)))

    assert change() == ["a:1", "b:1"]
    with pytest.raises(PartialError, match="done at b, but not at a"):
        change(a=RefusedError(1, "no"))
    with pytest.raises(RefusedError, match="no"):
        change(a=RefusedError(1, "no"), b=UnreachableError("b is down"))


def test_a_bounded_number_of_questions_runs_at_once() -> None:
    running, most = 0, 0

    async def ask(key: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return key * 2

    assert asyncio.run(by_key(range(40), ask)) == {key: key * 2 for key in range(40)}
    assert most == 16


def test_so_many_run_at_a_time_and_answers_keep_their_order() -> None:
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert asyncio.run(for_each(range(7), work, 3)) == [0, 2, 4, 6, 8, 10, 12]
    assert most == 3
