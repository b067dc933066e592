"""The console as an ASGI application: from an address to a page, and from an error to a page that says it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from pymq.clock import Clock
from pymq.console.asking.cluster import Cluster
from pymq.console.asking.clusters import BusyError, Clusters
from pymq.console.changes import groups as group_changes
from pymq.console.changes import offsets, settings
from pymq.console.changes import topics as topic_changes
from pymq.console.changes.flow import Change, Changes, NotConfirmedError, Person
from pymq.console.history.checkup import Checkup
from pymq.console.history.recorder import Recorder
from pymq.console.history.sight import Permissions, Sight
from pymq.console.messages.dead_letters import dead_letter_groups, dead_letters
from pymq.console.messages.message import message, message_body
from pymq.console.messages.search import messages
from pymq.console.messages.tail import tail, tail_events
from pymq.console.messages.trace import trace
from pymq.console.pages.audit import AuditPage
from pymq.console.pages.broker import broker
from pymq.console.pages.brokers import brokers
from pymq.console.pages.clients import clients
from pymq.console.pages.doctor import doctor
from pymq.console.pages.group import group
from pymq.console.pages.groups import groups
from pymq.console.pages.member import member
from pymq.console.pages.name_servers import name_servers
from pymq.console.pages.overview import overview
from pymq.console.pages.page import PAGE_TIMEOUT_S, Download, Events, Examine, MakePage, Page, Redirect, Visit
from pymq.console.pages.raft import raft
from pymq.console.pages.rendering import make_environment
from pymq.console.pages.topic import topic
from pymq.console.pages.topics import topics
from pymq.console.pages.users import users_page
from pymq.console.people.log_in import NAME_LENGTH_MAX, SECRET_LENGTH_MAX, LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.asgi import App, Receive, Scope, Send, answer_text, header_values
from pymq.console.web.bodies import parse_form, read_form
from pymq.console.web.headers import Headers
from pymq.console.web.origins import OriginCheck, Origins
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.console.web.static_files import KEPT, StaticFiles
from pymq.console.web.streams import EventAnswer, Streams, TooManyStreams
from pymq.errors import ConflictError, NotFoundError, PymqError, RefusedError, UnreachableError, UsageError
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
# Sections of the navigation: name, path below a context, and the key that goes there after "g".
NAVIGATION: Final[tuple[tuple[str, str, str], ...]] = (
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
PAGES: Final[Mapping[str, MakePage]] = {
    "": overview,
    "brokers": brokers,
    "brokers/{broker}/{id:int}": broker,
    "topics": topics,
    "topics/{topic}": topic,
    "topics/{topic}/tail": tail,
    "topics/{topic}/tail/events": tail_events,
    "messages": messages,
    "messages/{topic}/{id}": message,
    "messages/{topic}/{id}/body": message_body,
    "messages/{topic}/{id}/trace": trace,
    "dlq": dead_letter_groups,
    "dlq/{group}": dead_letters,
    "groups": groups,
    "groups/{group}": group,
    "groups/{group}/members/{client}": member,
    "clients": clients,
    "raft": raft,
    "auth": users_page,
    "namesrv": name_servers,
    "doctor": doctor,
}


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


CHANGES: Final[Mapping[str, Change]] = {
    "brokers/{broker}/{id:int}/settings": Change(settings.form, settings.prepare),
    "groups/{group}/delete": Change(group_changes.delete_form, group_changes.delete),
    "groups/{group}/reset": Change(offsets.form, offsets.prepare),
    "groups/{group}/update": Change(group_changes.update_form, group_changes.update),
    "new/group": Change(group_changes.create_form, group_changes.create),
    "new/topic": Change(topic_changes.create_form, topic_changes.create),
    "topics/{topic}/delete": Change(topic_changes.delete_form, topic_changes.delete),
    "topics/{topic}/update": Change(topic_changes.update_form, topic_changes.update),
}


class Console:
    """Answers requests with pages."""

    def __init__(self, shell: Shell, pages: Mapping[str, MakePage] = PAGES) -> None:
        """``pages``: by their path below a context."""
        self._shell = shell
        self._navigation = NAVIGATION
        if shell.changes is not None:
            audit = shell.changes.audit
            pages = {**pages, "audit": AuditPage(audit.newest, lambda: audit.problem).page}
            self._navigation = (*NAVIGATION[:-1], ("Audit", "audit", "l"), NAVIGATION[-1])
        self._templates = make_environment()
        self._permissions = Permissions(shell.clock)
        routes = [
            Route("/", self._begin),
            Route("/static/{name}", self._static),
            Route("/at/{context}/login", self._log_in_page, methods=["GET"]),
            Route("/at/{context}/login", self._log_in, methods=["POST"]),
            Route("/at/{context}/logout", self._log_out, methods=["POST"]),
            *(
                Route(f"/at/{{context}}/{path}", partial(self._page, path.partition("/")[0], make))
                for path, make in pages.items()
            ),
            *(self._change_routes(shell.changes) if shell.changes is not None else ()),
        ]
        self._router = Router(routes, redirect_slashes=False, default=self._not_found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _has_bad_text(scope["raw_path"]):
            await answer_text(send, 400, "The address is not UTF-8.")
            return
        await self._router(scope, receive, send)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_text(send, 404, "There is no such page.")

    async def _begin(self, request: Request) -> Response:
        return RedirectResponse(f"/at/{next(iter(self._shell.clusters.contexts))}/", 303)

    async def _static(self, request: Request) -> Response:
        file = self._shell.static.find(request.path_params["name"])
        if file is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        headers = {"cache-control": KEPT.decode()}
        return Response(file.content, headers=headers, media_type=file.kind.decode())

    def _change_routes(self, changes: Changes) -> Iterator[Route]:
        for path, change in CHANGES.items():
            at = f"/at/{{context}}/{path}"
            yield Route(at, partial(self._change_form, path.partition("/")[0], change), methods=["GET"])
            yield Route(at, partial(self._post, partial(_planned, changes, change)), methods=["POST"])
        for path, show, do in (
            ("plans", changes.plan_page, partial(_applied, changes)),
            ("outcomes", changes.outcome_page, None),
            ("undo", None, partial(_taken_back, changes)),
        ):
            at = f"/at/{{context}}/{path}/{{number}}"
            if show is not None:
                yield Route(at, partial(self._shown, show), methods=["GET"])
            if do is not None:
                yield Route(at, partial(self._post, do), methods=["POST"])

    async def _shown(self, show: Callable[[Person, str], Page], request: Request) -> ASGIApp:
        """Answer with what waits for this person."""
        around = self._around(request, "")
        if around.session is None:
            return self._to_log_in(request, around) if self._shell.needs_log_in else self._problem(around, _GONE)
        person = Person(around.session, around.context, "")

        async def make(visit: Visit) -> Page:
            return show(person, visit.path["number"])

        return await self._made(request, around, make)

    async def _change_form(self, section: str, change: Change, request: Request) -> ASGIApp:
        """Return the form of a change. A person without a session gets one, because a form needs its token."""
        around = self._around(request, section)
        cookie = ""
        if around.session is None and not self._shell.needs_log_in:
            address = request.client.host if request.client else ""
            try:
                around.session, cookie = self._shell.sessions.open("", None, address, around.context)
            except PymqError as error:
                return self._problem(around, error)
        answer = await self._made(request, around, change.form)
        if cookie and isinstance(answer, Response):
            answer.headers["set-cookie"] = self._shell.sessions.set_cookie(around.context, cookie)
        return answer

    async def _post(self, work: Callable[[Person, Visit, Parameters], Awaitable[str]], request: Request) -> ASGIApp:
        """Do what a form of the person's own session asks for, and lead to the page that shows it."""
        around = self._around(request, "")
        try:
            form = await read_form(request.scope, request.receive)
            token = form.text("token")
        except BadRequest as error:
            return self._problem(around, error)
        session = around.session
        if session is None or not session.has_token(token):
            return self._problem(around, BadRequest("token", "the form is of another session: load the page again"))
        person = Person(session, around.context, request.client.host if request.client else "")

        async def make(visit: Visit) -> Page | Redirect:
            try:
                return Redirect(await work(person, visit, form))
            except NotConfirmedError as error:
                assert self._shell.changes is not None
                return self._shell.changes.plan_page(person, visit.path["number"], str(error))

        return await self._made(request, around, make)

    async def _page(self, section: str, make: MakePage, request: Request) -> ASGIApp:
        return await self._made(request, self._around(request, section), make)

    async def _made(self, request: Request, around: Around, make: MakePage) -> ASGIApp:
        """Return the answer with a page, or with why there is none."""
        try:
            parameters = around.read(request)
            if around.session is None and self._shell.needs_log_in:
                return self._to_log_in(request, around)
            cluster = self._shell.clusters.get(request.path_params["context"], around.session)
            visit = Visit(
                cluster,
                parameters,
                request.path_params,
                self._shell.clock,
                shows_bodies=self._shell.shows_bodies,
                allows_changes=self._shell.changes is not None,
                schemas=self._shell.schemas,
                sight=self._sight(around, cluster),
                checkup=self._shell.checkups.get(around.context),
                examine=self._examine_as(around),
            )
            async with asyncio.timeout(PAGE_TIMEOUT_S):
                page = await make(visit)
        except RefusedError as error:
            proof = proof_of(error)
            if around.session is not None and proof is Proof.unproven:  # the user is gone, or has another secret
                self._shell.sessions.end(around.session)
            if proof is Proof.unproven and around.format == "html":
                return self._to_log_in(request, around)
            return self._problem(around, error)
        except (PymqError, BadRequest, TimeoutError) as error:
            return self._problem(around, error)
        except Exception as error:
            log.exception("the page %s", around.section)
            return self._problem(around, error)
        if isinstance(page, Events):
            return self._stream(request, around, page)
        if isinstance(page, Redirect):
            return RedirectResponse(f"/at/{quote(around.context)}/{page.path}", 303)
        if isinstance(page, Download):
            headers = {"content-disposition": f'attachment; filename="{page.name}"'}
            return Response(page.content, headers=headers, media_type=BYTES)
        try:
            return self._answer(200, around, page)
        except Exception as error:  # a template that does not fit its page
            log.exception("the page %s", around.section)
            return self._problem(around, error)

    def _stream(self, request: Request, around: Around, page: Events) -> ASGIApp:
        """Return the answer that streams events until the session, the browser, the server or a limit ends it."""
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        session, streams = around.session, self._shell.streams
        address = request.client.host if request.client else ""
        try:
            stream = streams.open(session.key if session is not None else f"address {address}")
        except TooManyStreams as error:
            return self._problem(around, BusyError(str(error)))

        def end() -> None:
            stream.end("you are logged out")

        def close() -> None:
            streams.close(stream)
            if session is not None:
                session.on_end.discard(end)

        if session is not None:
            session.on_end.add(end)
        return EventAnswer(stream, page.events, close)

    def _examine_as(self, around: Around) -> Examine | None:
        examine = self._shell.examine
        return None if examine is None else partial(examine, around.context, around.session)

    def _sight(self, around: Around, cluster: Cluster) -> Sight | None:
        recorder = self._shell.recorders.get(around.context)
        if recorder is None:
            return None
        person = around.session.key if around.session is not None else ""
        clock = self._shell.clock
        return Sight(recorder, self._permissions, cluster, clock, person=person, context=around.context)

    def _around(self, request: Request, section: str) -> Around:
        """Return what is around the answer to a request, whether it can be read or not."""
        contexts = self._shell.clusters.contexts
        named = request.path_params["context"]
        context = named if named in contexts else next(iter(contexts))
        cookies = header_values(request.scope, b"cookie")
        return Around(context, section, self._shell.sessions.find(cookies, context))

    def _to_log_in(self, request: Request, around: Around) -> Response:
        query = request.scope["query_string"].decode("ascii", "replace")
        here = request.scope["raw_path"].decode("ascii", "replace") + (f"?{query}" if query else "")
        return RedirectResponse(f"/at/{quote(around.context)}/login?{urlencode({'next': here})}", 303)

    async def _log_in_page(self, request: Request) -> Response:
        around = self._around(request, "login")
        try:
            parameters = around.read(request)
            page = _log_in_page(around, parameters.text("next", ""))
        except BadRequest as error:
            return self._problem(around, error)
        return self._answer(200, around, page)

    async def _log_in(self, request: Request) -> Response:
        around = self._around(request, "login")
        try:
            form = await read_form(request.scope, request.receive)
            name = form.text("name", length_max=NAME_LENGTH_MAX)
            secret = form.text("secret", length_max=SECRET_LENGTH_MAX)
            following = form.text("next", "")
        except BadRequest as error:
            return self._problem(around, error)
        address = request.client.host if request.client else ""
        try:
            if request.path_params["context"] != around.context:
                raise NotFoundError("this console has no such context")
            _, cookie = await self._shell.log_ins.log_in(around.context, name, secret, address)
        except PymqError as error:
            return self._answer(403, around, _log_in_page(around, following, name, str(error)))
        if around.session is not None:
            self._shell.sessions.end(around.session)
        headers = {"set-cookie": self._shell.sessions.set_cookie(around.context, cookie)}
        return RedirectResponse(_own_path(following, around.context), 303, headers)

    async def _log_out(self, request: Request) -> Response:
        around = self._around(request, "login")
        try:
            form = await read_form(request.scope, request.receive)
            token = form.text("token")
        except BadRequest as error:
            return self._problem(around, error)
        if around.session is None or not around.session.has_token(token):
            return self._problem(around, BadRequest("token", "the form is of another session: load the page again"))
        self._shell.sessions.end(around.session)
        headers = {"set-cookie": self._shell.sessions.clear_cookie(around.context)}
        return RedirectResponse(f"/at/{quote(around.context)}/login", 303, headers)

    def _problem(self, around: Around, error: Exception) -> Response:
        status, text, advice = problem_of(error)
        page = Page(
            _TITLES.get(status, "This did not work"),
            "problem.html",
            {"error": text, "status": status},
            ("cluster", "list"),
            {"problem": text, "advice": advice},
        )
        return self._answer(status, around, page)

    def _answer(self, status: int, around: Around, page: Page) -> Response:
        now_ms = self._shell.clock.now_ms()
        if around.format == "json":
            body = {**page.data, "asOfMs": now_ms, "missing": page.missing}
            # Names may hold lone surrogates, which only an escape can carry.
            return Response(json.dumps(body, ensure_ascii=True) + "\n", status, media_type=JSON)
        base = f"/at/{quote(around.context)}"
        surroundings: dict[str, Any] = {
            "page": page,
            "context": around.context,
            "contexts": list(self._shell.clusters.contexts),
            "context_path": lambda name: f"/at/{quote(name)}/",
            "session": around.session,
            "section": around.section,
            "navigation": self._navigation,
            "now_ms": now_ms,
            "allow_changes": self._shell.changes is not None,
            "static": lambda name: f"/static/{self._shell.static.name_of(name)}",
            "at": lambda path: f"{base}/{path}",
            "query": lambda **changes: urlencode(around.parameters.with_changes(changes)),
        }
        html = self._templates.get_template(page.template).render(**page.shown, **surroundings)
        return Response(html.encode("utf-8", "backslashreplace"), status, media_type=HTML)


async def _planned(changes: Changes, change: Change, person: Person, visit: Visit, form: Parameters) -> str:
    return f"plans/{await changes.plan(person, visit, change.prepare(visit, form))}"


async def _applied(changes: Changes, person: Person, visit: Visit, form: Parameters) -> str:
    return f"outcomes/{await changes.apply(person, visit, visit.path['number'], form)}"


async def _taken_back(changes: Changes, person: Person, visit: Visit, form: Parameters) -> str:
    return f"plans/{await changes.take_back(person, visit, visit.path['number'])}"


def _log_in_page(around: Around, following: str, name: str = "", problem: str = "") -> Page:
    shown = {"next": following, "name": name, "problem": problem}
    return Page(f"Log in to {around.context}", "login.html", {"error": problem}, ("auth", "check"), shown)


def _own_path(path: str, context: str) -> str:
    """Return where to go after the log-in: a path of this context, however it was given."""
    base = f"/at/{quote(context)}/"
    is_own = path.startswith(base) and path.isascii() and path.isprintable() and "\\" not in path
    return path if is_own and not path.startswith(f"{base}login") else base


_TITLES: Final = {
    400: "This address can't be read",
    403: "This was refused",
    404: "This is not there",
    409: "Someone else has changed this",
    502: "The cluster does not answer",
    504: "The cluster did not answer in time",
}


_GONE: Final = NotFoundError("this is of another session, or no more: make the plan again")


def problem_of(error: Exception) -> tuple[int, str, str]:
    """Return the status of an error's page, what it says, and what to do next."""
    if isinstance(error, BadRequest):
        return error.status, str(error), "Go back, and change it."
    if isinstance(error, TimeoutError):
        return 504, f"The cluster did not answer within {PAGE_TIMEOUT_S:g} s.", "Load the page again in a moment."
    if isinstance(error, BusyError):
        return 503, str(error), ""
    if isinstance(error, ConflictError):
        return 409, str(error), "Make the plan again: it says what holds now."
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


def _has_bad_text(raw_path: bytes) -> bool:
    """Return whether a path holds bytes that are no UTF-8, or a NUL."""
    path = unquote_to_bytes(raw_path)
    try:
        path.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in path


def make_app(console: Console, origins: Origins, *, is_encrypted: bool = False) -> App:
    """Return the whole application: the console behind the checks of every request."""
    return Headers(OriginCheck(console, origins), is_encrypted=is_encrypted)
