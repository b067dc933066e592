"""Every test here runs apart from the machine's environment and default ports."""

from hypothesis import settings

from tests.machine import (  # noqa: F401 - pytest finds fixtures and hooks by name
    machine_environment,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)

# A tracer makes an example several times slower: scripts/coverage runs with this profile.
settings.register_profile("coverage", deadline=None)
