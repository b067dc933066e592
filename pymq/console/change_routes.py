"""The addresses of changes: forms, plans, outcomes and the way back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pymq.console.answers import Answers, NotKnownError, WrongTokenError
from pymq.console.changes import (
    dead_letters,
    drain,
    handling,
    offsets,
    promotion,
    raft,
    rules,
    sending,
    settings,
    shrink,
    values,
)
from pymq.console.changes import groups as group_changes
from pymq.console.changes import topics as topic_changes
from pymq.console.changes import users as user_changes
from pymq.console.changes.flow import Change, Changes, NotConfirmedError, Person
from pymq.console.pages.page import Page, Redirect, Visit
from pymq.console.web.bodies import read_form
from pymq.console.web.origins import came_from_another_site
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import NotFoundError, PymqError

log = logging.getLogger(__name__)

CHANGES: Final[Mapping[str, Change]] = {
    "auth/{user}/delete": Change(user_changes.delete_form, user_changes.delete),
    "auth/{user}/rule": Change(rules.put_form, rules.put),
    "auth/{user}/rule/delete": Change(rules.delete_form, rules.delete),
    "auth/{user}/update": Change(user_changes.update_form, user_changes.update),
    "brokers/{broker}/{id}/drain": Change(drain.drain_form, drain.drain, needs_sight=True),
    "brokers/{broker}/{id}/promote": Change(promotion.form, promotion.prepare, needs_sight=True),
    "brokers/{broker}/{id}/settings": Change(settings.form, settings.prepare),
    "brokers/{broker}/{id}/undrain": Change(drain.undrain_form, drain.undrain, needs_sight=True),
    "dlq/{group}/purge": Change(dead_letters.purge_form, dead_letters.purge),
    "dlq/{group}/resend": Change(dead_letters.form, dead_letters.prepare),
    "groups/{group}/delete": Change(group_changes.delete_form, group_changes.delete),
    "groups/{group}/reset": Change(offsets.form, offsets.prepare),
    "groups/{group}/update": Change(group_changes.update_form, group_changes.update),
    "messages/{topic}/{id}/consume": Change(handling.form, handling.prepare),
    "messages/{topic}/{id}/send": Change(sending.again_form, sending.again),
    "namesrv/settings": Change(settings.form, settings.prepare, needs_sight=True),
    "namesrv/values": Change(values.form, values.prepare, needs_sight=True),
    "new/group": Change(group_changes.create_form, group_changes.create),
    "new/topic": Change(topic_changes.create_form, topic_changes.create),
    "new/user": Change(user_changes.create_form, user_changes.create),
    "raft/{broker}/members": Change(raft.members_form, raft.members),
    "raft/{broker}/transfer": Change(raft.transfer_form, raft.transfer),
    "topics/{topic}/delete": Change(topic_changes.delete_form, topic_changes.delete),
    "topics/{topic}/send": Change(sending.form, sending.prepare),
    "topics/{topic}/shrink": Change(shrink.form, shrink.prepare),
    "topics/{topic}/update": Change(topic_changes.update_form, topic_changes.update),
}


_GONE: Final = NotFoundError("this is of another session, or no more: make the plan again")


class FromAnotherSiteError(BadRequest):
    """A form that another site opened: each would begin a session, and the sessions of people would make room."""

    status = 403

    def __init__(self) -> None:
        super().__init__("address", "a page of another site led here: load the form again from this console")


class ChangeRoutes:
    """Answers forms of changes."""

    def __init__(self, answers: Answers, changes: Changes) -> None:
        self._answers = answers
        self._changes = changes

    def all(self) -> Iterator[Route]:
        """Yield the routes."""
        changes = self._changes
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
                late = NotKnownError() if path == "plans" else None
                yield Route(at, partial(self._post, do, late=late), methods=["POST"])

    async def _shown(self, show: Callable[[Person, str], Page], request: Request) -> ASGIApp:
        """Answer with what waits for this person."""
        around = self._answers.around(request, "plans")
        if around.session is None:
            if self._answers.shell.needs_log_in:
                return self._answers.to_log_in(request, around)
            return self._answers.problem(around, _GONE)
        person = Person(around.session, around.context, "")

        async def make(visit: Visit) -> Page:
            return show(person, visit.path["number"])

        return await self._answers.made(request, around, make)

    async def _change_form(self, section: str, change: Change, request: Request) -> ASGIApp:
        """Return the form of a change. A person without a session gets one, because a form needs its token."""
        around = self._answers.around(request, section)
        cookie = ""
        if around.session is None and came_from_another_site(request.scope):
            return self._answers.problem(around, FromAnotherSiteError())
        if around.session is None and not self._answers.shell.needs_log_in:
            address = request.client.host if request.client else ""
            try:
                around.session, cookie = self._answers.shell.sessions.open("", None, address, around.context)
            except PymqError as error:
                return self._answers.problem(around, error)
        answer = await self._answers.made(request, around, change.form)
        if cookie and isinstance(answer, Response):
            answer.headers["set-cookie"] = self._answers.shell.sessions.set_cookie(around.context, cookie)
        return answer

    async def _post(
        self,
        work: Callable[[Person, Visit, Parameters], Awaitable[str]],
        request: Request,
        *,
        late: Exception | None = None,
    ) -> ASGIApp:
        """Do what a form of the person's own session asks for, and lead to the page that shows it."""
        around = self._answers.around(request, "plans")
        try:
            form = await read_form(request.scope, request.receive)
            token = form.text("token")
        except BadRequest as error:
            return self._answers.problem(around, error)
        session = around.session
        if session is None or not session.has_token(token):
            return self._answers.problem(around, WrongTokenError())
        person = Person(session, around.context, request.client.host if request.client else "")

        async def make(visit: Visit) -> Page | Redirect:
            try:
                return Redirect(await work(person, visit, form))
            except NotConfirmedError as error:
                return self._changes.plan_page(person, visit.path["number"], str(error))

        return await self._answers.made(request, around, make, late=late)


async def _planned(changes: Changes, change: Change, person: Person, visit: Visit, form: Parameters) -> str:
    return f"plans/{await changes.plan(person, visit, change.prepared(visit, form))}"


async def _applied(changes: Changes, person: Person, visit: Visit, form: Parameters) -> str:
    return f"outcomes/{await changes.apply(person, visit, visit.path['number'], form)}"


async def _taken_back(changes: Changes, person: Person, visit: Visit, form: Parameters) -> str:
    return f"plans/{await changes.take_back(person, visit, visit.path['number'])}"
