"""LogIns: a person shows an access key and its secret, and the cluster says whether they are right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pymq.clock import Clock
from pymq.console.people.sessions import Session, Sessions
from pymq.console.people.waits import Waits
from pymq.errors import PymqError, UsageError
from pymq.operations.auth.proof import Proof
from pymq.security.credentials import Credentials

NAME_LENGTH_MAX: Final = 128
SECRET_LENGTH_MAX: Final = 1024
FAILURE_MS: Final = 1000  # of each failure, so that its time tells nothing
FREE_FAILURES: Final = 5  # a minute, of an access key at an address
FREE_FAILURES_OF_ADDRESS: Final = 50
_FAILED: Final = "This access key and secret are not right, or the cluster does not let them in from here."
_UNCHECKED: Final = "This cluster checks no users, so there is nothing to log in to."

Prove = Callable[[str, Credentials], Awaitable[Proof]]


class LogInError(PymqError):
    """Nobody was logged in."""


class LogIns:
    """Proves persons, and begins their sessions. Failures are counted by address and access key."""

    def __init__(
        self,
        sessions: Sessions,
        prove: Prove,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``prove`` asks the cluster of a context; it raises PymqError when that can't be found out."""
        self._sessions = sessions
        self._prove = prove
        self._clock = clock
        self._sleep = sleep
        self._of_persons = Waits(clock, FREE_FAILURES)
        self._of_addresses = Waits(clock, FREE_FAILURES_OF_ADDRESS)
        self.failure_count = 0

    async def log_in(self, context: str, name: str, secret: str, address: str) -> tuple[Session, str]:
        """Return a new session and the value of its cookie.

        Raises LogInError with the same text after the same time for each wrong access key or secret, and for each try
        while an address or an access key is locked; LogInError, FullError and errors of the cluster else.
        """
        begun_ms = self._clock.monotonic_ms()
        credentials = self._credentials(name, secret, address)
        proof = Proof.unproven if credentials is None else await self._prove(context, credentials)
        if credentials is None or proof is Proof.unproven:
            self.failure_count += 1
            self._of_persons.fail((address, name))
            self._of_addresses.fail(address)
            spent_ms = self._clock.monotonic_ms() - begun_ms
            await self._sleep(max(0, FAILURE_MS - spent_ms) / 1000)
            raise LogInError(_FAILED)
        if proof is Proof.unchecked:
            raise LogInError(_UNCHECKED)
        self._of_persons.succeed((address, name))
        return self._sessions.open(name, credentials, address, context)

    def _credentials(self, name: str, secret: str, address: str) -> Credentials | None:
        """Return what the cluster is asked with; None for a try that must wait, and for what can't be an access key."""
        if self._of_persons.must_wait((address, name)) or self._of_addresses.must_wait(address):
            return None
        try:
            return Credentials(name, secret)
        except UsageError:
            return None
