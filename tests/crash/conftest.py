"""The crash suites report at the end of a run what they did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_KEY = "crash suite"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[object], None]:
    """Return ``tell(text)``, which adds a line to the run's summary, also from another process."""
    return lambda text: record_property(_KEY, str(text))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {text}"
        for report in terminalreporter.getreports("passed")
        for key, text in report.user_properties
        if key == _KEY
    ]
    if lines:
        terminalreporter.section("crash suites")
        for line in lines:
            terminalreporter.line(line)
