"""Runs unit tests against the seeded bugs: ``python -m tests.hostile.mutations [TEST_FILE...]``.

One process without threads imports everything once, and forks for each bug.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

import pytest

from tests.hostile.seeded_bugs import BUGS
from tests.planting import Bug

# Options of a run inside a run: no cache, no other processes, nothing that watches files or ports. What is imported
# already keeps its plain asserts.
OPTIONS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header", "--no-summary")


def caught_by(bug: Bug) -> str | None:
    """Return the test file in which a test fails with the bug, None when all pass. Raises for a file without tests."""
    for suite in bug.suites:
        child = os.fork()
        if not child:
            os._exit(_run(bug, suite))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == pytest.ExitCode.TESTS_FAILED:
            return suite
        if code != pytest.ExitCode.OK:
            raise RuntimeError(f"{bug}: pytest {suite} ended with code {code}")
    return None


def warm_up(bugs: Sequence[Bug]) -> None:
    """Import the tests and what they test, so that each fork finds them."""
    suites = sorted({suite for bug in bugs for suite in bug.suites})
    with redirect_stdout(io.StringIO()):
        pytest.main([*suites, "--collect-only", *OPTIONS])


def _run(bug: Bug, suite: str) -> int:
    """Run a test file with the bug in place, without output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    # Imported again, a test file gets the planted functions that it imports by name.
    del sys.modules[suite.removesuffix(".py").replace("/", ".")]
    try:
        with bug.planted():
            return int(pytest.main([suite, *OPTIONS]))
    except BaseException:
        return int(pytest.ExitCode.INTERNAL_ERROR)


def main(suites: list[str]) -> int:
    """Print what caught each bug that ``suites`` must catch, by default each, and return the exit code."""
    bugs = [bug for bug in BUGS if not suites or bug.suites[0] in suites]
    warm_up(bugs)
    missed = 0
    for bug in bugs:
        found = caught_by(bug)
        missed += found is None
        print(f"{bug.name}: {found or 'NOT CAUGHT'}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} seeded bugs caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
