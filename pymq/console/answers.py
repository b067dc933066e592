"""Answers: around each page its context, person and navigation; and from an error a page that says it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp

from pymq.clock import Clock
from pymq.console.asking.cluster import Cluster, Oldest, noting_age
from pymq.console.asking.clusters import BusyError, Clusters
from pymq.console.changes.flow import Changes
from pymq.console.history.checkup import Checkup
from pymq.console.history.recorder import Recorder
from pymq.console.history.sight import Permissions, Sight
from pymq.console.pages.page import PAGE_TIMEOUT_S, Download, Events, Examine, MakePage, Page, Redirect, Visit
from pymq.console.pages.rendering import make_environment
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.asgi import header_values
from pymq.console.web.bodies import parse_form
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.console.web.static_files import StaticFiles
from pymq.console.web.streams import EventAnswer, Streams, TooManyStreams
from pymq.errors import (
    ConflictError,
    NotFoundError,
    PymqError,
    RaftRefusedError,
    RefusedError,
    UnreachableError,
    UnsafeError,
    UsageError,
)
from pymq.operations.auth.proof import Proof, proof_of
from pymq.operations.doctor.state import ClusterState
from pymq.operations.message.schemas import Schemas
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
EVENT_STREAM: Final = "text/event-stream"
FORMATS: Final = ("html", "json")
Navigation = tuple[tuple[str, str, str], ...]
# Sections of the navigation: name, path below a context, and the key that goes there after "g".
NAVIGATION: Final[Navigation] = (
    ("Overview", "", "o"),
    ("Brokers", "brokers", "b"),
    ("Topics", "topics", "t"),
    ("Groups", "groups", "g"),
    ("Messages", "messages", "m"),
    ("Dead letters", "dlq", "d"),
    ("Clients", "clients", "c"),
    ("Doctor", "doctor", "x"),
    ("Raft", "raft", "r"),
    ("Users", "auth", "u"),
    ("Name servers", "namesrv", "n"),
    ("About", "about", "?"),
)


@dataclass(frozen=True)
class Shell:
    """What is around each page of one console. ``needs_log_in``: also where a cluster checks no users.

    ``shows_bodies``: whether bodies and properties of messages are shown at all. ``schemas``: what bodies of some
    topics are decoded with.
    ``changes``: None in a console that only looks: then no change has a route.
    ``recorders``: the samples of each context; none in a console that takes no samples. ``checkups``: the shared
    findings of each context. ``examine``: looks at a context's cluster as the person of a session, or as nobody.
    """

    clusters: Clusters
    sessions: Sessions
    log_ins: LogIns
    clock: Clock
    static: StaticFiles
    needs_log_in: bool = False
    changes: Changes | None = None
    shows_bodies: bool = True
    schemas: Schemas | None = None
    streams: Streams = field(default_factory=Streams)
    recorders: Mapping[str, Recorder] = field(default_factory=dict)
    checkups: Mapping[str, Checkup] = field(default_factory=dict)
    examine: Callable[[str, Session | None, int], Coroutine[Any, Any, ClusterState]] | None = None


@dataclass
class Around:
    """What is around one answer. Without parameters that can be read it is HTML."""

    context: str
    section: str
    session: Session | None
    parameters: Parameters = field(default_factory=lambda: Parameters([]))
    format: str = "html"

    def read(self, request: Request) -> Parameters:
        """Return the parameters of the address. Raises BadRequest."""
        self.parameters = parse_form(request.scope["query_string"])
        self.format = self.parameters.choice("format", "html", FORMATS)
        return self.parameters


class WrongTokenError(BadRequest):
    """A form that did not come from a page of the person's own session."""

    def __init__(self) -> None:
        super().__init__("token", "the form is of another session: load the page again")


class NotKnownError(PymqError):
    """A change whose time was over before the cluster had answered."""

    def __init__(self) -> None:
        super().__init__(f"What was done is not known: the cluster did not answer within {PAGE_TIMEOUT_S:g} s.")


class Answers:
    """Makes answers of pages and of errors."""

    def __init__(self, shell: Shell, navigation: Navigation = NAVIGATION) -> None:
        """``navigation``: the sections that each page leads to."""
        self.shell = shell
        self._navigation = navigation
        self._templates = make_environment()
        self._permissions = Permissions(shell.clock)

    async def made(self, request: Request, around: Around, make: MakePage, *, late: Exception | None = None) -> ASGIApp:
        """Return the answer with a page, or with why there is none. ``late``: what to say when the time is over."""
        try:
            parameters = around.read(request)
            if around.session is None and self.shell.needs_log_in:
                return self.to_log_in(request, around)
            cluster = self.shell.clusters.get(request.path_params["context"], around.session)
            changes = self.shell.changes
            visit = Visit(
                cluster,
                parameters,
                request.path_params,
                self.shell.clock,
                shows_bodies=self.shell.shows_bodies,
                allows_changes=changes is not None,
                schemas=self.shell.schemas,
                sight=self._sight(around, cluster),
                checkup=self.shell.checkups.get(around.context),
                examine=self._examine_as(around),
                settling=changes.settling if changes is not None else None,
            )
            with noting_age() as oldest:
                async with asyncio.timeout(PAGE_TIMEOUT_S):
                    page = await make(visit)
        except RefusedError as error:
            proof = proof_of(error)
            if around.session is not None and proof is Proof.unproven:  # the user is gone, or has another secret
                self.shell.sessions.end(around.session)
            if proof is Proof.unproven and around.format == "html":
                return self.to_log_in(request, around)
            return self.problem(around, error)
        except TimeoutError as error:
            return self.problem(around, late or error)
        except (PymqError, BadRequest) as error:
            return self.problem(around, error)
        except Exception as error:
            log.exception("the page %s", around.section)
            return self.problem(around, error)
        if isinstance(page, Events):
            return self._stream(request, around, page)
        if isinstance(page, Redirect):
            return RedirectResponse(f"/at/{quote(around.context)}/{page.path}", 303)
        if isinstance(page, Download):
            headers = {"content-disposition": f'attachment; filename="{page.name}"'}
            return Response(page.content, headers=headers, media_type=BYTES)
        try:
            return self.answer(200, around, page, oldest)
        except Exception as error:  # a template that does not fit its page
            log.exception("the page %s", around.section)
            return self.problem(around, error)

    def _stream(self, request: Request, around: Around, page: Events) -> ASGIApp:
        """Return the answer that streams events until the session, the browser, the server or a limit ends it."""
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        session, streams = around.session, self.shell.streams
        address = request.client.host if request.client else ""
        try:
            stream = streams.open(session.key if session is not None else f"address {address}")
        except TooManyStreams as error:
            return self.problem(around, BusyError(str(error)))

        def end() -> None:
            stream.end("you are logged out")

        def close() -> None:
            streams.close(stream)
            if session is not None:
                session.on_end.pop(stream, None)

        if session is not None:
            session.on_end[stream] = end
        return EventAnswer(stream, page.events, close)

    def _examine_as(self, around: Around) -> Examine | None:
        examine = self.shell.examine
        return None if examine is None else partial(examine, around.context, around.session)

    def _sight(self, around: Around, cluster: Cluster) -> Sight | None:
        recorder = self.shell.recorders.get(around.context)
        if recorder is None:
            return None
        person = around.session.key if around.session is not None else ""
        clock = self.shell.clock
        return Sight(recorder, self._permissions, cluster, clock, person=person, context=around.context)

    def around(self, request: Request, section: str) -> Around:
        """Return what is around the answer to a request, whether it can be read or not."""
        contexts = self.shell.clusters.contexts
        named = request.path_params["context"]
        context = named if named in contexts else next(iter(contexts))
        cookies = header_values(request.scope, b"cookie")
        return Around(context, section, self.shell.sessions.find(cookies, context))

    def to_log_in(self, request: Request, around: Around) -> Response:
        query = request.scope["query_string"].decode("ascii", "replace")
        here = request.scope["raw_path"].decode("ascii", "replace") + (f"?{query}" if query else "")
        return RedirectResponse(f"/at/{quote(around.context)}/login?{urlencode({'next': here})}", 303)

    def problem(self, around: Around, error: Exception) -> Response:
        status, text, advice = problem_of(error)
        is_refused = status == 502 and isinstance(error, RefusedError)
        page = Page(
            "The cluster refused this" if is_refused else _TITLES.get(status, "This did not work"),
            "problem.html",
            {"error": text, "status": status},
            ("cluster", "list"),
            {"problem": text, "advice": advice},
        )
        return self.answer(status, around, page)

    def answer(self, status: int, around: Around, page: Page, oldest: Oldest | None = None) -> Response:
        """Return the answer with a page. ``oldest``: the oldest answer of the cluster that it is made of."""
        oldest = oldest or Oldest()
        now_ms = self.shell.clock.now_ms()
        as_of_ms = now_ms - oldest.age_ms
        if around.format == "json":
            body = {**page.data, "asOfMs": as_of_ms, "missing": page.missing}
            # Names may hold lone surrogates, which only an escape can carry.
            return Response(json.dumps(body, ensure_ascii=True) + "\n", status, media_type=JSON)
        base = f"/at/{quote(around.context)}"
        surroundings: dict[str, Any] = {
            "page": page,
            "context": around.context,
            "contexts": list(self.shell.clusters.contexts),
            "context_path": lambda name: f"/at/{quote(name)}/",
            "session": around.session,
            "section": around.section,
            "navigation": self._navigation,
            "now_ms": now_ms,
            "as_of_ms": as_of_ms,
            "is_renewed": oldest.is_renewed,
            "allow_changes": self.shell.changes is not None,
            "static": lambda name: f"/static/{self.shell.static.name_of(name)}",
            "at": lambda path: f"{base}/{path}",
            "query": lambda **changes: urlencode(around.parameters.with_changes(changes)),
            "kept": around.parameters.without_list,
        }
        html = self._templates.get_template(page.template).render(**page.shown, **surroundings)
        return Response(html.encode("utf-8", "backslashreplace"), status, media_type=HTML)


_TITLES: Final = {
    400: "This address can't be read",
    403: "This was refused",
    404: "This is not there",
    409: "Someone else has changed this",
    422: "This can't be done now",
    502: "The cluster does not answer",
    504: "The cluster did not answer in time",
}


def problem_of(error: Exception) -> tuple[int, str, str]:
    """Return the status of an error's page, what it says, and what to do next."""
    if isinstance(error, BadRequest):
        return error.status, str(error), "Go back, and change it."
    if isinstance(error, TimeoutError):
        return 504, f"The cluster did not answer within {PAGE_TIMEOUT_S:g} s.", "Load the page again in a moment."
    if isinstance(error, NotKnownError):
        return 504, str(error), "Look at what was to change, and at the audit, before you try again."
    if isinstance(error, BusyError):
        return 503, str(error), ""
    if isinstance(error, ConflictError):
        return 409, str(error), "Make the plan again: it says what holds now."
    if isinstance(error, UnsafeError | RaftRefusedError):
        return 422, str(error), "Nothing is changed."
    if isinstance(error, NotFoundError):
        return 404, str(error), ""
    if isinstance(error, RefusedError):
        is_right = error.code == ResponseCode.NO_PERMISSION
        return 403 if is_right else 502, str(error), "pymq auth check shows which rule decides." if is_right else ""
    if isinstance(error, UnreachableError):
        return 502, str(error), "pymq doctor finds out why."
    if isinstance(error, UsageError):
        return 400, str(error), "Go back, and change it."
    if isinstance(error, PymqError):
        return 502, str(error), ""
    return 500, f"This is a fault of the console ({type(error).__name__}): its log says more.", ""
