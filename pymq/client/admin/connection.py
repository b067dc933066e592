"""Sends admin requests: to any of the name servers, to each of them, or to one broker by its address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pymq.client.not_name_server import is_strange, not_name_server_error
from pymq.client.tls import Tls, tls_context
from pymq.clock import Clock
from pymq.errors import ClosedError, PartialError, PymqError, RefusedError, UnreachableError
from pymq.model.route import BrokerData
from pymq.net.client import RemotingClient
from pymq.net.name_server_list import NameServerList
from pymq.wire.bodies_admin import encode_admin_body
from pymq.wire.codes import request_name
from pymq.wire.command import FRAME_SIZE_MAX_BYTES, Command, request
from pymq.wire.header import Header

if TYPE_CHECKING:
    from pymq.security.credentials import Credentials

DEFAULT_TIMEOUT_S = 5.0


# What a value, and an object or a list around values, take in memory once they are parsed.
_VALUE_BYTES = 60
_CONTAINER_BYTES = 250


def parsed_size_bytes(body: bytes) -> int:
    """Return about how much memory JSON takes once it is parsed; 0 for other bodies, such as messages."""
    if body[:1] not in (b"{", b"["):
        return 0
    return len(body) + body.count(b",") * _VALUE_BYTES + (body.count(b"{") + body.count(b"[")) * _CONTAINER_BYTES


def too_large(address: str, code: int, needed_bytes: int, limit_bytes: int) -> UnreachableError:
    """Return the error of a server whose answers take too much memory."""
    return UnreachableError(
        f"what {address} answers to {request_name(code)} takes about {needed_bytes:,} bytes of memory: at most "
        f"{limit_bytes:,} are taken here"
    )


@dataclass(slots=True)
class Parsed:
    """The size of the answers that were parsed, as :func:`parsed_size_bytes` guesses."""

    size_bytes: int = 0


_parsed: ContextVar[Parsed | None] = ContextVar("parsed", default=None)


@contextmanager
def counting_parsed() -> Iterator[Parsed]:
    """Count the answers that limited connections give during the ``with`` block."""
    parsed = Parsed()
    token = _parsed.set(parsed)
    try:
        yield parsed
    finally:
        _parsed.reset(token)


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How large an answer may be; a server that answers with more counts as not to be reached.

    ``frame_bytes_max``: the connection to the server closes. ``parsed_bytes_max``: JSON that takes more memory, as
    :func:`parsed_size_bytes` guesses, is not parsed; None for any.
    """

    frame_bytes_max: int = FRAME_SIZE_MAX_BYTES
    parsed_bytes_max: int | None = None


class AdminConnection:
    """Sends the requests of one Admin. ``namesrv_addresses``: one or more "host:port", or URLs of address servers.
    ``timeout_s``: per request; ``tls`` None: the environment's.
    """

    def __init__(
        self,
        namesrv_addresses: list[str],
        *,
        clock: Clock,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        limits: AnswerLimits | None = None,
    ) -> None:
        assert namesrv_addresses
        self.limits = limits or AnswerLimits()
        self._name_servers = NameServerList(namesrv_addresses, clock)
        self.clock = clock
        self.timeout_s = timeout_s
        sign = credentials.sign if credentials is not None else None
        self._client = RemotingClient(
            clock=clock,
            sign=sign,
            tls=tls_context(tls, clock),
            frame_size_max_bytes=self.limits.frame_bytes_max,
        )
        self._preferred = ""

    @property
    def namesrv_addresses(self) -> list[str]:
        """The addresses in use; empty as long as only an address server is known, and nothing was asked of it."""
        return self._name_servers.addresses

    async def find_name_servers(self) -> list[str]:
        """Return the addresses, after asking an address server if it is time. Raises UnreachableError."""
        return await self._name_servers.ready()

    @property
    def inherited(self) -> bool:
        """True in a forked child if the parent used this client."""
        return self._client.inherited

    async def ask_namesrv(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        missing_codes: frozenset[int] = frozenset(),
    ) -> Command:
        """Return the answer of the first name server that can be reached; the next call starts with the same one.

        One that refuses with one of ``missing_codes`` lacks what is asked for: the others may have it, since name
        servers have different views for a while. Raises UnreachableError when none can be reached, RefusedError when
        one answers with another code than 0.
        """
        addresses = await self.find_name_servers()
        if self._preferred not in addresses:
            self._preferred = addresses[0]
        others = [address for address in addresses if address != self._preferred]
        failures: list[PymqError] = []
        missing: RefusedError | None = None
        for address in [self._preferred, *others]:
            try:
                answer = await self._invoke_ok(address, request(code, header, body))
            except ClosedError:
                raise
            except UnreachableError as error:
                failures.append(error)
                continue
            except RefusedError as error:
                if is_strange(code, error.code):
                    raise await self._not_name_server(address) from error
                if error.code not in missing_codes:
                    raise
                missing = missing or error
                continue
            self._preferred = address
            return answer
        if missing is not None:
            raise missing
        if len(failures) == 1:
            raise failures[0]
        raise UnreachableError(f"none of the {len(failures)} name servers can be reached: {failures[0]}") from failures[
            0
        ]

    async def ask_each_namesrv(self, code: int, header: Header | None = None, body: bytes = b"") -> list[Command]:
        """Send a request to all name servers and return the answers.

        One that fails doesn't keep it from the others: raises PartialError when some did it, else the first's error.
        """
        found = await self.try_each_namesrv(code, header, body)
        failed = {address: answer for address, answer in found.items() if isinstance(answer, PymqError)}
        done = {address: answer for address, answer in found.items() if not isinstance(answer, PymqError)}
        if failed and not done:
            raise next(iter(failed.values()))
        if failed:
            raise PartialError(list(done), failed)
        return list(done.values())

    async def try_each_namesrv(
        self, code: int, header: Header | None = None, body: bytes = b""
    ) -> dict[str, Command | PymqError]:
        """Send a request to all name servers; return each one's answer, or why there is none, by its address."""

        async def ask(address: str) -> Command | PymqError:
            try:
                return await self.ask_broker(address, code, header, body)
            except ClosedError:
                raise
            except UnreachableError as error:
                return error
            except RefusedError as error:
                return await self._not_name_server(address) if is_strange(code, error.code) else error

        addresses = await self.find_name_servers()
        return dict(zip(addresses, await asyncio.gather(*map(ask, addresses)), strict=True))

    async def _not_name_server(self, address: str) -> PymqError:
        return await not_name_server_error(address, lambda command: self._invoke_ok(address, command))

    def note_brokers(self, brokers: Iterable[BrokerData]) -> None:
        """Remember whose addresses these are, for errors."""
        self._client.note_brokers(brokers)

    async def ask_broker(
        self, address: str, code: int, header: Header | None = None, body: bytes | msgspec.Struct = b""
    ) -> Command:
        """Return the answer of the server at ``address``.

        Raises UnreachableError, or RefusedError for a code other than 0.
        """
        raw = body if isinstance(body, bytes) else encode_admin_body(body)
        return await self._invoke_ok(address, request(code, header, raw))

    async def _invoke_ok(self, address: str, command: Command) -> Command:
        answer = await self._client.invoke_ok(address, command, self.timeout_s)
        limit_bytes = self.limits.parsed_bytes_max
        if limit_bytes is None:
            return answer
        needed_bytes = parsed_size_bytes(answer.body)
        if needed_bytes > limit_bytes:
            answer.body = b""  # an error keeps what its frame knows
            raise too_large(address, command.code, needed_bytes, limit_bytes)
        if (parsed := _parsed.get()) is not None:
            parsed.size_bytes += needed_bytes
        return answer

    async def ask_or_none(
        self, address: str, code: int, header: Header | None, empty_codes: frozenset[int], body: bytes = b""
    ) -> Command | None:
        """Do what :meth:`ask_broker` does, but returns None for the response codes that mean "not found"."""
        try:
            return await self.ask_broker(address, code, header, body)
        except RefusedError as error:
            if error.code in empty_codes:
                return None
            raise

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()
