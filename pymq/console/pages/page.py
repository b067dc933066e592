"""A page: its parts, and the request that asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pymq.clock import Clock
from pymq.console.asking.cluster import Cluster
from pymq.console.history.checkup import Checkup
from pymq.console.history.sight import Sight
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.operations.doctor.state import ClusterState
from pymq.operations.message.schemas import Schemas
from pymq.operations.topic.resizing import Settling

PAGE_TIMEOUT_S: Final = 10.0

# Asks a cluster for all that the doctor's checks need, and watches groups that are behind for so many milliseconds.
Examine = Callable[[int], Coroutine[Any, Any, ClusterState]]


class NotShown(BadRequest):
    """A page that this console does not show."""

    status = 403


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page. ``path``: the parts of the address that the page's route names.

    ``shows_bodies``: whether bodies and properties of messages are shown at all. ``schemas``: what bodies of some
    topics are decoded with.
    ``sight``: what this person sees of the last hour, None in a console that takes no samples. ``checkup``: the shared
    findings, made with the console's own credentials. ``examine``: looks at the cluster as this person.
    ``settling``: since when topics that shrink are quiet, None in a console that only looks.
    """

    cluster: Cluster
    parameters: Parameters
    path: Mapping[str, str]
    clock: Clock
    shows_bodies: bool = True
    allows_changes: bool = False
    schemas: Schemas | None = None
    sight: Sight | None = None
    checkup: Checkup | None = None
    examine: Examine | None = None
    settling: Settling | None = None


class Pipe(str):
    """The sign between two commands, which no shell takes for a word."""

    __slots__ = ()


PIPE: Final = Pipe("|")


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    ``data``: what ``?format=json`` gives, with the names of ``-o json``. ``shown``: what the template alone needs.
    ``command``: the command line that says the same. ``missing``: what is not on the page, each with the reason.
    """

    title: str
    template: str
    data: dict[str, Any]
    command: tuple[str, ...]
    shown: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Download:
    """Bytes that a browser saves, and never shows: they are what others sent. ``name``: of the file, fixed and safe."""

    content: bytes
    name: str


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of server-sent events, each without its end. It ends when the iterator does, or at a limit."""

    events: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another page, by its path below the context."""

    path: str


MakePage = Callable[[Visit], Awaitable[Page | Download | Events | Redirect]]
