"""Every test here runs apart from the machine's environment and default ports."""

import gc
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.machine import (  # noqa: F401 - pytest finds fixtures and hooks by name
    machine_environment,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)

# A shell's background jobs ignore interrupts, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # while tests are collected: 22,000 objects that stay are looked through again and again


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Silence the log: a product with a planted bug logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def pytest_collection_finish() -> None:
    """Leave the collected tests out of the garbage collector's rounds, of which the simulation alone makes hundreds."""
    gc.freeze()
    gc.enable()


# These share a Spark session: in several processes each would start a JVM of its own.
SPARK_SESSION_FILES = (
    "tests/spark/export/test_export.py",
    "tests/spark/test_real_broker.py",
    "tests/spark/test_data_source.py",
    "tests/spark/source/test_stream.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the files of a Spark session to one process, and other files each to any."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return SPARK_SESSION_FILES[0] if file in SPARK_SESSION_FILES else file

    return Scheduling(config, log)


# A tracer makes an example several times slower: scripts/coverage runs with this profile.
settings.register_profile("coverage", deadline=None)
