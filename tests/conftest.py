"""Every test here runs apart from the machine's environment and default ports."""

import gc

from hypothesis import settings

from tests.machine import (  # noqa: F401 - pytest finds fixtures and hooks by name
    machine_environment,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)


def pytest_collection_finish() -> None:
    """Leave the collected tests out of the garbage collector's rounds, of which the simulation alone makes hundreds."""
    gc.collect()
    gc.freeze()


# A tracer makes an example several times slower: scripts/coverage runs with this profile.
settings.register_profile("coverage", deadline=None)
