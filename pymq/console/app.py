"""The console as an ASGI application: its addresses, and log-in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from pymq.console.answers import NAVIGATION, Answers, Around, Shell, WrongTokenError
from pymq.console.change_routes import ChangeRoutes
from pymq.console.messages.dead_letters import dead_letter_groups, dead_letters, dead_letters_file
from pymq.console.messages.message import message, message_body
from pymq.console.messages.progress import search_events
from pymq.console.messages.search import messages, messages_file
from pymq.console.messages.tail import tail, tail_events
from pymq.console.messages.trace import trace
from pymq.console.pages.audit import AuditPage
from pymq.console.pages.broker import broker
from pymq.console.pages.brokers import brokers
from pymq.console.pages.clients import clients
from pymq.console.pages.differences import differences
from pymq.console.pages.doctor import doctor
from pymq.console.pages.group import group
from pymq.console.pages.groups import groups
from pymq.console.pages.member import member
from pymq.console.pages.name_servers import name_servers
from pymq.console.pages.overview import overview
from pymq.console.pages.page import MakePage, Page
from pymq.console.pages.raft import raft
from pymq.console.pages.topic import topic
from pymq.console.pages.topics import topics
from pymq.console.pages.user import user_page
from pymq.console.pages.users import users_page
from pymq.console.people.log_in import NAME_LENGTH_MAX, SECRET_LENGTH_MAX
from pymq.console.web.asgi import App, Receive, Scope, Send, answer_text
from pymq.console.web.bodies import read_form
from pymq.console.web.headers import Headers
from pymq.console.web.lengths import OneLength
from pymq.console.web.origins import OriginCheck, Origins
from pymq.console.web.parameters import BadRequest
from pymq.console.web.static_files import KEPT
from pymq.errors import NotFoundError, PymqError

log = logging.getLogger(__name__)

PAGES: Final[Mapping[str, MakePage]] = {
    "": overview,
    "brokers": brokers,
    "brokers/differences": differences,
    "brokers/{broker}/{id}": broker,
    "topics": topics,
    "topics/{topic}": topic,
    "topics/{topic}/tail": tail,
    "topics/{topic}/tail/events": tail_events,
    "messages": messages,
    "messages/events": search_events,
    "messages/export": messages_file,
    "messages/{topic}/{id}": message,
    "messages/{topic}/{id}/body": message_body,
    "messages/{topic}/{id}/trace": trace,
    "dlq": dead_letter_groups,
    "dlq/{group}": dead_letters,
    "dlq/{group}/export": dead_letters_file,
    "groups": groups,
    "groups/{group}": group,
    "groups/{group}/members/{client}": member,
    "clients": clients,
    "raft": raft,
    "auth": users_page,
    "auth/{user}": user_page,
    "namesrv": name_servers,
    "doctor": doctor,
}


class Console:
    """Answers requests with pages."""

    def __init__(self, shell: Shell, pages: Mapping[str, MakePage] = PAGES) -> None:
        """``pages``: by their path below a context."""
        navigation = NAVIGATION
        if shell.changes is not None:
            audit = shell.changes.audit
            pages = {**pages, "audit": AuditPage(audit.newest, lambda: audit.problem).page}
            navigation = (*NAVIGATION[:-1], ("Audit", "audit", "l"), NAVIGATION[-1])
        self._shell = shell
        self._answers = Answers(shell, navigation)
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
            *(ChangeRoutes(self._answers, shell.changes).all() if shell.changes is not None else ()),
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

    async def _page(self, section: str, make: MakePage, request: Request) -> ASGIApp:
        return await self._answers.made(request, self._answers.around(request, section), make)

    async def _log_in_page(self, request: Request) -> Response:
        around = self._answers.around(request, "login")
        try:
            parameters = around.read(request)
            page = _log_in_page(around, parameters.text("next", ""))
        except BadRequest as error:
            return self._answers.problem(around, error)
        return self._answers.answer(200, around, page)

    async def _log_in(self, request: Request) -> Response:
        around = self._answers.around(request, "login")
        try:
            form = await read_form(request.scope, request.receive)
            name = form.text("name", length_max=NAME_LENGTH_MAX)
            secret = form.text("secret", length_max=SECRET_LENGTH_MAX)
            following = form.text("next", "")
        except BadRequest as error:
            return self._answers.problem(around, error)
        address = request.client.host if request.client else ""
        try:
            if request.path_params["context"] != around.context:
                raise NotFoundError("this console has no such context")
            _, cookie = await self._shell.log_ins.log_in(around.context, name, secret, address)
        except PymqError as error:
            return self._answers.answer(403, around, _log_in_page(around, following, name, str(error)))
        if around.session is not None:
            self._shell.sessions.end(around.session)
        headers = {"set-cookie": self._shell.sessions.set_cookie(around.context, cookie)}
        return RedirectResponse(_own_path(following, around.context), 303, headers)

    async def _log_out(self, request: Request) -> Response:
        around = self._answers.around(request, "login")
        try:
            form = await read_form(request.scope, request.receive)
            token = form.text("token")
        except BadRequest as error:
            return self._answers.problem(around, error)
        if around.session is None or not around.session.has_token(token):
            return self._answers.problem(around, WrongTokenError())
        self._shell.sessions.end(around.session)
        headers = {"set-cookie": self._shell.sessions.clear_cookie(around.context)}
        return RedirectResponse(f"/at/{quote(around.context)}/login", 303, headers)


def _log_in_page(around: Around, following: str, name: str = "", problem: str = "") -> Page:
    shown = {"next": following, "name": name, "problem": problem}
    return Page(f"Log in to {around.context}", "login.html", {"error": problem}, ("auth", "check"), shown)


def _own_path(path: str, context: str) -> str:
    """Return where to go after the log-in: a path of this context, however it was given."""
    base = f"/at/{quote(context)}/"
    is_own = path.startswith(base) and path.isascii() and path.isprintable() and "\\" not in path
    return path if is_own and not path.startswith(f"{base}login") else base


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
    return Headers(OneLength(OriginCheck(console, origins)), is_encrypted=is_encrypted)
