"""A lease that keeps other writers from a place in an object store, which has no locks.

A writer puts a claim, an object of its own, and then lists all claims. Listings show what was put before, so of two
writers at least the later one sees the other. A claim that isn't renewed for :data:`LEASE_S` is of a killed writer:
a new one watches it for so long, by its own clock, and removes it. A writer that could not renew for half of that
commits no more.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
import time
from contextlib import suppress
from typing import Final

from pymq.errors import PymqError
from pymq.spark.places.object_paths import ObjectPath

LEASE_S: Final = 30.0
RENEWALS: Final = 6
_LOOK_S: Final = 1.0
_WAITING: Final = "waiting"
_HOLDING: Final = "holding"


class ObjectLease:
    """The claim of this writer, renewed by a thread until it is closed."""

    def __init__(self, folder: ObjectPath, busy: PymqError) -> None:
        """Return when no other writer has a claim. Raises ``busy`` when one renews its."""
        self._folder = folder
        self._busy = busy
        self._lease_s = LEASE_S
        self._claim = folder / f"{secrets.token_hex(8)}.json"
        self._renewed_s = time.monotonic()
        self._state = _WAITING
        self._ended = threading.Event()
        self._renew()
        try:
            self._await_others()
        except BaseException:
            self._remove(self._claim)
            raise
        self._state = _HOLDING
        self._renew()
        self._thread = threading.Thread(target=self._keep, name="pymq-object-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise ``busy`` when the claim is so old that another writer may soon take it for a killed one's."""
        if self._is_late():
            raise self._busy

    def close(self) -> None:
        """Remove the claim."""
        self._ended.set()
        self._thread.join()
        self._remove(self._claim)

    def _keep(self) -> None:
        # A claim that was late once stays so: another writer may have removed it meanwhile.
        while not self._ended.wait(self._lease_s / RENEWALS) and not self._is_late():
            with suppress(PymqError):  # the next one may reach the store
                self._renew()

    def _is_late(self) -> bool:
        return time.monotonic() - self._renewed_s > self._lease_s / 2

    def _renew(self) -> None:
        begun_s = time.monotonic()
        content = {
            "state": self._state,
            "host": platform.node(),
            "pid": os.getpid(),
            "renewal": secrets.token_hex(8),
        }
        self._claim.write_text(json.dumps(content))
        self._renewed_s = begun_s

    def _await_others(self) -> None:
        """Watch the claims of others until they are gone, or have not changed for the time of a lease.

        Of writers that wait for each other, the one whose claim's name is the first goes on.
        """
        seen: dict[ObjectPath, tuple[str, float]] = {}
        while others := self._others():
            for path, content in others.items():
                before, since_s = seen.setdefault(path, (content, time.monotonic()))
                if content != before and (json.loads(content)["state"] == _HOLDING or path < self._claim):
                    raise self._busy
                if content != before:
                    seen[path] = content, time.monotonic()
                elif time.monotonic() - since_s >= self._lease_s:
                    self._remove(path)
            self._ended.wait(min(_LOOK_S, self._lease_s / RENEWALS))
            self._renew()

    def _others(self) -> dict[ObjectPath, str]:
        found: dict[ObjectPath, str] = {}
        for path in self._folder.glob("*.json"):
            if path != self._claim:
                with suppress(FileNotFoundError):  # its writer has just ended
                    found[path] = path.read_text()
        return found

    def _remove(self, claim: ObjectPath) -> None:
        with suppress(PymqError):
            claim.unlink(missing_ok=True)
