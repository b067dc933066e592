"""Seeds of the simulation of what clients hold, and bugs that it must find."""

from __future__ import annotations

import pytest

pytest.importorskip("google.protobuf")

from pymq.proxy import receipts
from pymq.proxy.receipts import Held, HeldMessages
from tests.proxy import simulation


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_seeds(first: int) -> None:
    for seed in range(first, first + 10):
        simulation.run(seed)


def _fails(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object) -> bool:
    monkeypatch.setattr(owner, name, value)
    try:
        for seed in range(40):
            simulation.run(seed)
    except AssertionError:
        return True
    return False


def test_a_proxy_that_renews_too_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _fails(monkeypatch, receipts, "RENEW_AHEAD_MS", -1)


def test_a_proxy_that_keeps_the_first_handle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: HeldMessages, held: Held, handle: object) -> bool:
        held.is_renewing = False
        return True

    assert _fails(monkeypatch, HeldMessages, "renewed", forget)


def test_a_proxy_that_gives_nothing_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _fails(monkeypatch, HeldMessages, "release", lambda *_: None)
