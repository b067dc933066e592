"""What one address and one user may ask of a server: attempts to prove itself, requests, bytes and connections."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pymq.clock import Clock
from pymq.config.security import SenderSettings
from pymq.errors import Refusal
from pymq.security.addresses import Address
from pymq.security.identities import Identity, UserType
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import Peer

# So many requests of one address that name a user and are not proven, within a window, block that user's name there for
# a while. More, whatever the names are, block the address, but not for users who were proven there before.
FAILED_PROOFS_MAX: Final = 50
FAILED_PROOFS_OF_ADDRESS_MAX: Final = 500
FAILED_PROOFS_WINDOW_MS: Final = 10_000
BLOCKED_MS: Final = 10_000
UNKNOWN_USER: Final = ""  # all names that no user has are one
# Addresses, and users at addresses, that are remembered, of each kind; the one that came first is forgotten. An IPv6
# network of 64 bits is one.
ADDRESSES_MAX: Final = 10_000
_IPV6_NETWORK_SHIFT: Final = 64
_BURST_S: Final = 1  # a bucket holds what may come in this time


class Failures:
    """Counts failures by key. A key with ``count_max`` failures within a window is blocked for a while."""

    def __init__(self, clock: Clock, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._failed: dict[object, tuple[int, int]] = {}  # when its window began, failures in it
        self._blocked: dict[object, int] = {}  # until when
        self._last_until_ms = 0

    @property
    def has_blocked(self) -> bool:
        """False when no key is blocked: nothing needs to be looked up."""
        if self._blocked and self._clock.monotonic_ms() >= self._last_until_ms:
            self._blocked.clear()
        return bool(self._blocked)

    def is_blocked(self, key: object) -> bool:
        """True while ``key`` is blocked."""
        until_ms = self._blocked.get(key)
        if until_ms is not None and self._clock.monotonic_ms() >= until_ms:
            del self._blocked[key]
            return False
        return until_ms is not None

    def note(self, key: object) -> None:
        """Note a failure of a key that is not blocked."""
        now_ms = self._clock.monotonic_ms()
        began_ms, count = self._failed.pop(key, (now_ms, 0))
        if now_ms - began_ms >= FAILED_PROOFS_WINDOW_MS:
            began_ms, count = now_ms, 0
        if count + 1 < self._count_max:
            _keep(self._failed, key, (began_ms, count + 1))
        else:
            self._last_until_ms = now_ms + BLOCKED_MS
            _keep(self._blocked, key, self._last_until_ms)


class FailedProofs:
    """Counts failed proofs by address and user. What is blocked gets a refusal without the work of a check.

    The users of its methods are names of users that are there, or :data:`UNKNOWN_USER`.
    """

    def __init__(self, clock: Clock) -> None:
        self._of_users = Failures(clock, FAILED_PROOFS_MAX)  # by address and user
        self._of_addresses = Failures(clock, FAILED_PROOFS_OF_ADDRESS_MAX)
        self._proven: dict[object, None] = {}  # by address and user
        self.has_blocked = False  # then nobody is: fast paths look at nothing else

    def check(self, address: Address, user: str) -> None:
        """Raise Refusal(NO_PERMISSION) for a user whose requests from ``address`` are refused now."""
        key = _key(address)
        self.has_blocked = self._of_users.has_blocked or self._of_addresses.has_blocked
        if self._of_users.is_blocked((key, user)):
            who = f"user {user}" if user else "users that are not there"
            raise _blocked(f"{FAILED_PROOFS_MAX} requests from {address} failed to prove {who}")
        if self._of_addresses.is_blocked(key) and (key, user) not in self._proven:
            raise _blocked(f"{FAILED_PROOFS_OF_ADDRESS_MAX} requests from {address} failed to prove their users")

    def note(self, address: Address, user: str) -> None:
        """Note a request that named a user and was not proven. What is blocked does not prolong that."""
        try:
            self.check(address, user)
        except Refusal:
            return
        key = _key(address)
        self._of_users.note((key, user))
        if not self._of_addresses.is_blocked(key):
            self._of_addresses.note(key)
        self.has_blocked = self._of_users.has_blocked or self._of_addresses.has_blocked

    def note_proven(self, address: Address, user: str) -> None:
        """Note that ``user`` was proven at ``address``: failures of others there don't concern it."""
        key = _key(address), user
        if key not in self._proven:
            _keep(self._proven, key, None)


class Buckets:
    """Token buckets by key: so many units a second, and at most so many at once."""

    def __init__(self, clock: Clock, key_count_max: int) -> None:
        self._clock = clock
        self._key_count_max = key_count_max
        self._found: dict[object, tuple[int, float]] = {}  # when it was looked at, and units in it then

    def take(self, key: object, units: int, rate: int) -> bool:
        """Take ``units``; False when there are none. One request may take more than a bucket holds, as a debt."""
        now_ms = self._clock.monotonic_ms()
        at_ms, left = self._found.pop(key, (now_ms, float(rate * _BURST_S)))
        left = min(left + (now_ms - at_ms) * rate / 1000, rate * _BURST_S)
        has_room = left > 0
        _keep(self._found, key, (now_ms, left - units if has_room else left), self._key_count_max)
        return has_room


Value = TypeVar("Value")


@dataclass
class _Connections:
    peers: weakref.WeakSet[Peer] = field(default_factory=weakref.WeakSet)

    def count(self) -> int:
        for peer in [peer for peer in self.peers if peer.closed]:
            self.peers.discard(peer)
        return len(self.peers)


class SenderLimits:
    """The limits of one server's senders. Servers among each other have none."""

    def __init__(self, clock: Clock, settings: SenderSettings | None = None) -> None:
        """Without ``settings`` only failed proofs are limited."""
        self.failed_proofs = FailedProofs(clock)
        self.refused_count = 0  # requests beyond a limit of their user or address
        self._settings = settings
        self._addresses = Buckets(clock, ADDRESSES_MAX)
        self._address_bytes = Buckets(clock, ADDRESSES_MAX)
        self._requests = Buckets(clock, ADDRESSES_MAX)
        self._bytes = Buckets(clock, ADDRESSES_MAX)
        self._connections: dict[str, _Connections] = {}

    @property
    def is_on(self) -> bool:
        """True when each request must be counted."""
        settings = self._settings
        return settings is not None and bool(
            settings.address_requests_per_second_max
            or settings.address_bytes_per_second_max
            or settings.user_requests_per_second_max
            or settings.user_bytes_per_second_max
            or settings.user_connection_count_max
        )

    def check_address(self, address: Address, size_bytes: int) -> None:
        """Raise Refusal(SYSTEM_BUSY) when ``address`` sends more than it may."""
        settings = self._settings
        if settings is not None and (rate := settings.address_requests_per_second_max):
            self._take(self._addresses, _key(address), 1, rate, f"address {address}", "addressRequestsPerSecondMax")
        self.check_address_bytes(address, size_bytes)

    def check_address_bytes(self, address: Address, size_bytes: int) -> None:
        """Raise Refusal(SYSTEM_BUSY) when ``address`` sends more bytes than it may."""
        settings = self._settings
        if settings is not None and (rate := settings.address_bytes_per_second_max):
            who = f"address {address}"
            self._take(self._address_bytes, _key(address), size_bytes, rate, who, "addressBytesPerSecondMax")

    def check_user(self, identity: Identity, size_bytes: int, peer: Peer | None) -> None:
        """``peer`` None: a call of gRPC, whose connections are not counted.

        Raises Refusal(SYSTEM_BUSY) when the proven sender asks for more than its user may."""
        settings, user = self._settings, identity.user
        if settings is None or user is None or user.kind is UserType.INNER:
            return
        if rate := settings.user_requests_per_second_max:
            self._take(self._requests, user.name, 1, rate, f"user {user.name}", "userRequestsPerSecondMax")
        if rate := settings.user_bytes_per_second_max:
            self._take(self._bytes, user.name, size_bytes, rate, f"user {user.name}", "userBytesPerSecondMax")
        if peer is not None and (limit := settings.user_connection_count_max):
            self._check_connections(user.name, peer, limit)

    def _take(self, buckets: Buckets, key: object, units: int, rate: int, who: str, setting: str) -> None:
        if not buckets.take(key, units, rate):
            what = "bytes" if buckets in (self._bytes, self._address_bytes) else "requests"
            self._refuse(f"{who} sent more than {rate} {what} in a second, the limit is {setting}={rate}: send less")

    def _check_connections(self, name: str, peer: Peer, limit: int) -> None:
        mine = self._connections.setdefault(name, _Connections())
        if peer not in mine.peers:
            if len(mine.peers) >= limit and (count := mine.count()) >= limit:
                self._refuse(
                    f"user {name} has {count} connections to this server, the limit is userConnectionCountMax={limit}: "
                    "close some"
                )
            mine.peers.add(peer)

    def _refuse(self, text: str) -> None:
        self.refused_count += 1
        raise Refusal(ResponseCode.SYSTEM_BUSY, text)


def _blocked(why: str) -> Refusal:
    return Refusal(
        ResponseCode.NO_PERMISSION,
        f"{why} within {FAILED_PROOFS_WINDOW_MS // 1000} s: such requests are refused for {BLOCKED_MS // 1000} s; "
        "correct the credentials of the clients there",
    )


def _key(address: Address) -> object:
    """Return what counts as one address: all of an IPv6 network of 64 bits are one machine's to choose from."""
    return int(address) if address.version == 4 else (int(address) >> _IPV6_NETWORK_SHIFT, address.version)


def _keep(table: dict[object, Value], key: object, value: Value, count_max: int = ADDRESSES_MAX) -> None:
    """Set a value as the newest of at most ``count_max``."""
    if key not in table and len(table) >= count_max:
        del table[next(iter(table))]
    table[key] = value
