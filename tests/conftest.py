"""Every test here runs apart from the machine's environment and default ports."""

import gc
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.machine import (  # noqa: F401 - pytest finds fixtures and hooks by name
    machine_environment,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
from tests.spark_session import asks_for_session, spark  # noqa: F401 - pytest finds fixtures by name

# A shell's background jobs ignore interrupts, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # while tests are collected: 22,000 objects that stay are looked through again and again


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Silence the log: a product with a planted bug logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files without a slow test, five of six, when only those are wanted (`scripts/test --slow`)."""
    if config.getoption("markexpr") != "slow" or collection_path.suffix != ".py":
        return None
    return True if "mark.slow" not in collection_path.read_text("utf-8") else None


def pytest_collection_finish() -> None:
    """Leave the collected tests out of the garbage collector's rounds, of which the simulation alone makes hundreds."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files to processes so that what they share starts once."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


# How long an example takes says nothing on a busy machine.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of the Spark session first in several processes."""
    if hasattr(config, "workerinput"):  # they take long, one after the other
        items.sort(key=lambda item: not asks_for_session(item.nodeid.partition("::")[0]))
