"""RepeatedReports: recognizes a report that says what the table holds already, without decoding it.

Brokers report all their topics every 30 s, and nearly every report repeats the one before. Decoding 10,000 topics takes
some 40 ms, in which no client gets a route. A repeated body takes the time of its hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymq.model.tables import DataVersion
from pymq.namesrv.registration import BrokerIdentity
from pymq.namesrv.table import RouteTable
from pymq.wire.bodies_registration import Registered
from pymq.wire.command import Command

BODY_BYTES_MIN = 16_384  # a smaller body is decoded in well under a millisecond


@dataclass(slots=True, frozen=True)
class _Taken:
    """What was taken from a body: the table holds its topics as long as ``removal_count`` topics were removed."""

    fingerprint: tuple[int, int, int, bool]
    data_version: DataVersion
    filter_servers: list[str]
    removal_count: int


class RepeatedReports:
    """The bodies that masters reported last, as hashes.

    Holds the rule of the plain way: an unchanged version adds topics that are missing and replaces none.
    """

    def __init__(self, table: RouteTable) -> None:
        self._table = table
        self._taken: dict[str, _Taken] = {}

    def known(self, identity: BrokerIdentity, command: Command, *, compressed: bool) -> Registered | None:
        """Return the content of a repeated body, without its topics, which the table has; None for any other body."""
        taken = self._taken.get(identity.address)
        if taken is None or len(command.body) < BODY_BYTES_MIN:
            return None
        brokers = self._table.brokers
        live = brokers.live(identity.address)
        if (
            live is None
            or live.identity != identity
            or not brokers.is_listed(live)
            or live.data_version != taken.data_version
            or self._table.topics.removal_count != taken.removal_count
            or _fingerprint(command, compressed=compressed) != taken.fingerprint
        ):
            return None
        return Registered({}, taken.data_version, taken.filter_servers)

    def note(self, identity: BrokerIdentity, command: Command, body: Registered, *, compressed: bool) -> None:
        """Remember a decoded body that the table took."""
        if not identity.is_master or len(command.body) < BODY_BYTES_MIN:
            self._taken.pop(identity.address, None)
            return
        if len(self._taken) > 2 * len(self._table.brokers):
            live = self._table.brokers.live
            self._taken = {address: taken for address, taken in self._taken.items() if live(address) is not None}
        fingerprint, count = _fingerprint(command, compressed=compressed), self._table.topics.removal_count
        self._taken[identity.address] = _Taken(fingerprint, body.data_version, body.filter_servers, count)


def _fingerprint(command: Command, *, compressed: bool) -> tuple[int, int, int, bool]:
    """Return what tells bodies apart. A broker that finds two with one hash deceives only about itself."""
    return hash(bytes(command.body)), len(command.body), command.version, compressed
