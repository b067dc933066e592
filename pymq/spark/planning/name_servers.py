"""AddressServers: which name servers address servers name, for views of a cluster that live for one look at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymq.clock import Clock, SystemClock
from pymq.errors import UnreachableError
from pymq.model.hosts import is_address_server
from pymq.net.address_server import named_by
from pymq.net.name_server_list import REFRESH_MS, RETRY_MS


class AddressServers:
    """The last answer of each address server. It is asked again every two minutes; while it is away, that stays."""

    def __init__(self, clock: Clock, fetch: Callable[[str], list[str]] = named_by) -> None:
        self._clock = clock
        self._fetch = fetch
        self._found: dict[str, list[str]] = {}  # by URL
        self._due_ms: dict[str, int] = {}

    def addresses(self, places: Sequence[str]) -> list[str]:
        """Return the addresses among ``places`` and of its URLs. Raises UnreachableError for none."""
        found = [place for place in places if not is_address_server(place)]
        problem = UnreachableError("no name server is known")
        for url in filter(is_address_server, places):
            try:
                found += self._named_by(url)
            except UnreachableError as error:
                problem = error
        if not found:
            raise problem
        return list(dict.fromkeys(found))

    def _named_by(self, url: str) -> list[str]:
        if url in self._found and self._clock.monotonic_ms() < self._due_ms[url]:
            return self._found[url]
        try:
            self._found[url] = self._fetch(url)
        except UnreachableError:
            if url not in self._found:
                raise
            self._due_ms[url] = self._clock.monotonic_ms() + RETRY_MS
        else:
            self._due_ms[url] = self._clock.monotonic_ms() + REFRESH_MS
        return self._found[url]


# A stream makes a view for each batch: all of a process share the answers.
ADDRESS_SERVERS = AddressServers(SystemClock())
