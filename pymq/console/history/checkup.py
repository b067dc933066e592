"""Checkup: the doctor's findings, shared by all who look at the overview of a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.operations.doctor.finding import Check, Finding
from pymq.operations.doctor.registry import run_checks
from pymq.operations.doctor.state import ClusterState

log = logging.getLogger(__name__)

KEPT_MS: Final = 60_000
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: (name of the check, finding), the worst first. ``at_ms``: when (monotonic ms)."""

    found: Sequence[tuple[str, Finding]]
    at_ms: int


class Checkup:
    """Examines one cluster when someone looks, at most each :data:`KEPT_MS`, with the console's own credentials."""

    def __init__(
        self, examine: Callable[[], Coroutine[Any, Any, ClusterState]], checks: Sequence[Check], clock: Clock
    ) -> None:
        """``examine``: asks the cluster for all that the checks need."""
        self.findings: Findings | None = None
        self.problem = ""  # why the last examination found nothing
        self._examine = examine
        self._checks = checks
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def newest(self) -> Findings | None:
        """Return the newest findings, which may be some minutes old; None without any.

        Begins an examination in the background when they are older than :data:`KEPT_MS`.
        """
        now_ms = self._clock.monotonic_ms()
        is_old = self.findings is None or now_ms - self.findings.at_ms >= KEPT_MS
        if is_old and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())
        return self.findings

    async def close(self) -> None:
        """End an examination that is on its way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                state = await self._examine()
        except TimeoutError:
            self.problem = f"the checks did not end within {TIMEOUT_S:g} s"
        except PymqError as error:
            self.problem = str(error)
        except Exception as error:
            log.exception("the checks of a cluster")
            self.problem = f"this is a fault of the console ({type(error).__name__}): its log says more"
        else:
            self.problem = ""
            self.findings = Findings(run_checks(self._checks, state), self._clock.monotonic_ms())
