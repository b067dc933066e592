"""KnownPeers: the brokers whose word counts in this group: those that name servers list, or that the operator named.

A request may name any broker. Only an address that is known here is asked, believed, or followed. Known are:

- addresses that a name server lists for our broker name, or listed once (``config/knownPeers.json``): after a fail-over
  the name servers may refuse the new master as long as the old one is registered, and they may be away;
- addresses that the operator named: the new master in a request to step down, and hosts in ``haSlaveHosts``;
- slaves that joined: they were known then.

Everything else is a hint at most: the name servers are asked soon.

*Confirmed* are the known ones that had a place in this group: slaves that joined this broker, and masters that it
followed. A name server alone confirms none.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.model.hosts import host_of
from pymq.model.route import MASTER_ID
from pymq.printable import printable
from pymq.rate_limited_log import RateLimitedLog
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

if TYPE_CHECKING:
    from pymq.broker.replication.roles.group_probe import Member
    from pymq.config import BrokerConfig

log = logging.getLogger(__name__)

KNOWN_PEERS_FILE = "knownPeers.json"
# Members of one group that are remembered; the one that was listed or named longest ago is forgotten.
REMEMBERED_PEERS_MAX = 64
# The file is not written more often, however often the name servers' list changes.
SAVE_PERIOD_MS = 5_000
_ADDRESSES = "addresses"
_CONFIRMED = "confirmed"


def known_peers_table(files: Files, root: str) -> JsonTable:
    """Return the table of the broker directory ``root``."""
    return JsonTable(files, f"{root}/config/{KNOWN_PEERS_FILE}")


class KnownPeers:
    """Belongs to the event loop's thread. It outlives changes of the broker's role."""

    def __init__(self, config: BrokerConfig, clock: Clock, table: JsonTable | None = None) -> None:
        """``table`` keeps what is remembered; None keeps nothing."""
        self.on_hint: Callable[[], None] = lambda: None  # asks the name servers soon
        self.stranger_count = 0  # claims of peers that are not known
        self._config = config
        self._clock = clock
        self._table = table
        self._saved: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._saved_ms = clock.monotonic_ms() - SAVE_PERIOD_MS
        self._listed: dict[str, int] = {}  # address -> id, as name servers said last
        self._remembered: dict[str, None] = {}
        self._confirmed: dict[str, None] = {}
        self._rocketmq_hosts: frozenset[str] = frozenset()  # of listed slaves without PyMQ's requests
        self._log = RateLimitedLog(log, clock, "peers that are not known")

    # -- who is known ------------------------------------------------------------------------------------------------

    def note_listed(self, registered: Mapping[str, int]) -> None:
        """Take what the name servers list: address -> id. Nothing, when none of them answered, changes nothing."""
        if registered:
            self._listed = dict(registered)
            for address in registered:
                self.remember(address)

    def note_members(self, members: Iterable[Member]) -> None:
        """Take the answers of asked members: a listed slave that answers without a status is a RocketMQ broker."""
        self._rocketmq_hosts = frozenset(_host(member.address) for member in members if _is_rocketmq_slave(member))

    def remember(self, address: str) -> None:
        """Note a broker that the operator named, or a slave that was known when it joined ("host:port")."""
        _note(self._remembered, address)

    def confirm(self, address: str) -> None:
        """Note a slave that joined this broker, or a master that it followed ("host:port"), also on the disk."""
        _note(self._remembered, address)
        is_new = address not in self._confirmed
        _note(self._confirmed, address)
        if is_new:
            self._write()

    def is_confirmed(self, address: str) -> bool:
        """Return True when the broker at ``address`` ("host:port") had a place in this group."""
        return address in self._confirmed

    def is_known(self, address: str) -> bool:
        """Return True when the word of the broker at ``address`` ("host:port") counts."""
        return address in self._listed or address in self._remembered or self._is_named(_host(address))

    def addresses(self) -> list[str]:
        """Return where members are while no name server answers."""
        return list(dict.fromkeys([*self._listed, *self._remembered]))

    def _is_named(self, host: str) -> bool:
        return host in self._config.ha_slave_host_list

    # -- the file ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what was remembered. A file that can't be used is ignored: the name servers list the members again."""
        try:
            saved = self._table.load() if self._table is not None else {}
            for addresses, name in ((self._remembered, _ADDRESSES), (self._confirmed, _CONFIRMED)):
                for address in msgspec.convert(saved.get(name, []), list[str])[-REMEMBERED_PEERS_MAX:]:
                    _note(addresses, address)
        except (StoreError, msgspec.ValidationError) as error:
            log.warning("config/%s can't be used, it is made again: %s", KNOWN_PEERS_FILE, error)
        self._saved = self._present()

    def save(self) -> None:
        """Write what is remembered, if it changed. Call it now and then while this broker has its directory."""
        if self._present() != self._saved and self._clock.monotonic_ms() - self._saved_ms >= SAVE_PERIOD_MS:
            self._write()

    def _present(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self._remembered), frozenset(self._confirmed)

    def _write(self) -> None:
        if self._table is None:
            return
        self._saved_ms = self._clock.monotonic_ms()
        try:
            self._table.save({_ADDRESSES: list(self._remembered), _CONFIRMED: list(self._confirmed)})
            self._saved = self._present()
        except (StoreError, OSError) as error:
            log.warning("the members of the group could not be saved, it is tried again: %s", error)

    # -- slaves ------------------------------------------------------------------------------------------------------

    def why_not_slave(self, address: str) -> str:
        """Return why the broker at ``address`` may not join now; empty when it may. It may be listed in a moment."""
        if self.is_known(address):
            return ""
        self.note_stranger(address, "wants to join as a slave")
        return (
            f"the name servers do not list {printable(address)} as a broker of {self._config.broker_name} yet: the "
            "slave must register at the same name servers, or an operator names its host in haSlaveHosts of the master"
        )

    def why_not_from(self, address: str, peer_address: str) -> str:
        """Return why a request for the broker at ``address`` can't come from ``peer_address``; empty when it can."""
        host, peer_host = _host(address), _host(peer_address)
        if _is_same_host(host, peer_host) or self._is_named(peer_host):
            return ""
        return (
            f"the join request for {printable(address)} came from {peer_host}: set brokerIP1 of the slave to the "
            f"address it connects from, or add {peer_host} to haSlaveHosts of the master"
        )

    def may_follow_without_token(self, peer_address: str) -> bool:
        """Return True for RocketMQ's slaves, which get no token: a name server lists one on the host of
        ``peer_address``, or the operator named that host."""
        host = _host(peer_address)
        return self._is_named(host) or any(_is_same_host(host, other) for other in self._rocketmq_hosts)

    def may_follow_unproven(self, peer_address: str) -> bool:
        """Return True when the operator named the host of ``peer_address`` for slaves that can prove nothing."""
        return _host(peer_address) in self._config.ha_unproven_slave_host_list

    def is_known_host(self, peer_address: str) -> bool:
        """Return True when a known broker is on the host of ``peer_address``."""
        host = _host(peer_address)
        return self._is_named(host) or any(_is_same_host(host, _host(address)) for address in self.addresses())

    # -- strangers -----------------------------------------------------------------------------------------------------

    def note_stranger(self, address: str, what: str) -> str:
        """Count a claim of a broker that is not known, log it now and then, have the name servers asked; return a text
        for the operator."""
        self.stranger_count += 1
        text = (
            f"a broker at '{printable(address)}' {what} of {self._config.broker_name}; no name server lists it there "
            "and no operator named it: register it at this group's name servers, or stop it"
        )
        self._log.write("all", text)
        self.on_hint()
        return text


def _note(addresses: dict[str, None], address: str) -> None:
    """Make ``address`` the newest of at most REMEMBERED_PEERS_MAX."""
    addresses.pop(address, None)
    if len(addresses) >= REMEMBERED_PEERS_MAX:
        del addresses[next(iter(addresses))]
    addresses[address] = None


def _is_rocketmq_slave(member: Member) -> bool:
    tells = member.answered and not member.is_unclear
    return member.registered_id > MASTER_ID and member.status is None and tells


def _host(address: str) -> str:
    """Return the host of "host:port" in one spelling: IPv6 without brackets, a mapped IPv4 address as IPv4."""
    text = host_of(address).strip("[]")
    try:
        host = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    return str(mapped or host)


def _is_same_host(first: str, second: str) -> bool:
    if first == second:
        return True
    try:
        return ipaddress.ip_address(first).is_loopback and ipaddress.ip_address(second).is_loopback
    except ValueError:
        return False
