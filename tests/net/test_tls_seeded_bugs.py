"""Mutation tests of TLS: its tests catch every seeded bug."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.net import listener, tls
from pymq.net.tls import Identity, WatchedContext
from tests.certificates import certificates
from tests.net import test_listener, test_tls
from tests.net.test_listener import trusting
from tests.planting import Bug, Seam, Text, does_nothing, follow, is_caught

run = test_listener.runner_on(asyncio.new_event_loop)


def clock() -> ManualClock:
    return ManualClock(certificates().made_at_ms)


# How to call a test; it gets a directory and the log.
TESTS: dict[str, Callable[[Path, pytest.LogCaptureFixture], None]] = {
    "both kinds": lambda *_: test_listener.test_one_port_takes_tls_and_plain_connections(run),
    "enforcing": lambda *_: test_listener.test_an_enforcing_port_closes_plain_connections(run),
    "clients": lambda *_: test_listener.test_a_server_refuses_clients_without_its_authoritys_certificate(run),
    "servers": lambda *_: test_listener.test_a_client_refuses_a_server_of_another_authority(
        run, lambda: trusting(certificates().stranger_ca_path), "certificate refused"
    ),
    "contexts": lambda *_: test_tls.test_the_host_name_counts_only_with_the_systems_authorities(clock()),
    "contexts of servers": lambda *_: test_tls.test_a_server_takes_tls_1_2_and_later(clock()),
    "expired": lambda *_: test_tls.test_an_expired_certificate_is_refused(clock()),
    "future": lambda *_: test_tls.test_a_certificate_of_the_future_is_refused(),
    "keys": lambda path, _: test_tls.test_a_key_that_everyone_can_read_is_refused(clock(), path),
    "changes": lambda path, log: test_tls.test_a_context_follows_its_files(clock(), path, log),
}

BUGS = [
    Bug("the first byte leaves the socket", Text(listener._Gate._look, "socket.MSG_PEEK", "0"), ("both kinds",)),
    Bug("an enforcing port is not", Text(listener._Gate._look, "self._tls.is_required", "False"), ("enforcing",)),
    Bug(
        "a refusal is not counted",
        Text(listener._Gate._refuse, "self._on_refused(", "(lambda *_: None)("),
        ("enforcing",),
    ),
    Bug("a required certificate is optional", Text(tls.server_context, "CERT_REQUIRED", "CERT_OPTIONAL"), ("clients",)),
    Bug("a client's authority is not asked for", Text(tls.server_context, "if trust_path:", "if False:"), ("clients",)),
    Bug("old versions are taken", Text(tls.bare_server_context, "TLSv1_2", "TLSv1"), ("contexts of servers",)),
    Bug("a client takes any server", Text(tls.client_context, "if not is_checked", "if True"), ("servers",)),
    Bug("host names never count", Text(tls.client_context, "is_checked and not trust_path", "False"), ("contexts",)),
    Bug("dates don't count", Seam(tls._check_dates, does_nothing), ("expired",)),
    Bug("the future counts", Text(tls._check_dates, "each.not_valid_before_utc > now", "False"), ("future",)),
    Bug("anyone may read a key", Text(Identity.load_into, "_check_private(self.key_path)", "pass"), ("keys",)),
    Bug(
        "renewed files do not count",
        Text(WatchedContext.current, "self._make(self._clock.now_ms())", "self._context"),
        ("changes",),
    ),
    Bug("files are read each time", Text(WatchedContext.current, "< LOOK_PERIOD_MS", "< 0"), ("changes",)),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def run_suite(suite: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for module in (test_listener, test_tls):
                follow(module, patch)
            TESTS[suite](tmp_path, caplog)

    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        assert is_caught(bug, run_suite), f"{bug} passed {bug.suites}"
        gc.collect()  # what a failing test left open


@pytest.mark.parametrize("name", TESTS)
def test_without_a_bug_the_tests_pass(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    TESTS[name](tmp_path, caplog)
