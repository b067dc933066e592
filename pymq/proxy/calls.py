"""Call: what a handler knows of the call beside its request, and how statuses and errors become answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymq.errors import PymqError
from pymq.proxy.protocol.messages import Status
from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import code_of, text_of
from pymq.security.gatekeeper import ProvenCall

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
VERSION = "x-mq-client-version"


def _ignore(size_bytes: int) -> None:
    """Where no budget counts."""


@dataclass(slots=True)
class Call:
    """One call. ``left_ms``: the time until its deadline, None for none. ``peer``: the client's "host:port".

    ``user`` is proven; empty where nobody checks users.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    left_ms: float | None = None
    peer: str = ""
    user: str = ""
    proven: ProvenCall | None = None  # None where nobody checks users
    keep: Callable[[int], None] = _ignore  # counts bytes that are kept until the call's end

    @property
    def client_id(self) -> str:
        return self.metadata.get(CLIENT_ID, "")

    @property
    def language(self) -> str:
        return self.metadata.get(LANGUAGE, "")

    @property
    def version(self) -> str | None:
        return self.metadata.get(VERSION)


def status_ok() -> Any:
    """Return the status of a call that succeeded."""
    return Status(code=Code.OK, message="OK")


def status_of(error: PymqError) -> Any:
    """Return the status of a call that failed."""
    return Status(code=code_of(error), message=text_of(error))


def common_status(statuses: Sequence[Any]) -> Any:
    """Return the status of a call whose parts have these: theirs when they have one code."""
    if len({each.code for each in statuses}) == 1:
        return statuses[0]
    return Status(code=Code.MULTIPLE_RESULTS, message="the results differ")
