"""From a form to a plan, and from a plan to a change: the two steps of every change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.console.asking.cluster import Cluster
from pymq.console.audit import Audit
from pymq.console.changes.kept import Kept
from pymq.console.changes.plan import Outcome, Plan, Prepare, WithMessages
from pymq.console.history.sight import runtime_of_each_cluster
from pymq.console.pages.page import Page, Redirect, Visit
from pymq.console.people.sessions import Session
from pymq.console.web.parameters import Parameters
from pymq.errors import PymqError
from pymq.operations.topic.resizing import Settling

PLAN_AGE_MAX_MS: Final = 10 * 60 * 1000
UNDO_AGE_MAX_MS: Final = 60 * 60 * 1000
CONFIRM: Final = "confirm"  # the field with the typed name
DONE: Final = "done"


class NotConfirmedError(PymqError):
    """A name that stands for a loss was not typed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change. ``form``: the page that asks for what it needs; ``prepare``: reads it. Raises BadRequest.

    ``needs_sight``: it is only for a person whom the brokers let see the cluster. Name servers may take changes of
    anybody, and members of a group that refuse would count as silent.
    """

    form: Callable[[Visit], Awaitable[Page | Redirect]]
    prepare: Callable[[Visit, Parameters], Prepare]
    needs_sight: bool = False

    def prepared(self, visit: Visit, given: Parameters) -> Prepare:
        """Return what plans the change that a form asks for. Raises BadRequest."""
        prepare = self.prepare(visit, given)
        return _with_sight(prepare) if self.needs_sight else prepare


def _with_sight(prepare: Prepare) -> Prepare:
    """Return what plans the same, for a person who may see the cluster, at the plan and at the change."""

    async def plan(admin: Admin) -> Plan:
        await runtime_of_each_cluster(admin)
        found = await prepare(admin)

        async def apply(cluster: Cluster, admin: Admin) -> Outcome:
            await runtime_of_each_cluster(admin)
            return await found.question(cluster)(admin)

        return replace(found, apply=WithMessages(apply))

    return plan


@dataclass(frozen=True, slots=True)
class Person:
    """Who changes something, and from where."""

    session: Session
    context: str
    address: str

    @property
    def about(self) -> dict[str, str]:
        """What the audit says of the person."""
        session = self.session
        return {"person": session.name, "address": self.address, "session": session.key[:12], "context": self.context}


class Changes:
    """The changes of one console. Each plan is used once, and every attempt is in the audit."""

    def __init__(self, audit: Audit, clock: Clock) -> None:
        self.audit = audit
        self.settling = Settling(lambda: clock.monotonic_ms() / 1000)
        self._plans: Kept[tuple[Plan, dict[str, str]]] = Kept(
            clock,
            PLAN_AGE_MAX_MS,
            "this plan was used, or is older than 10 minutes: nothing is changed by it; make the plan again",
        )
        self._undos: Kept[Prepare] = Kept(
            clock, UNDO_AGE_MAX_MS, "this is older than an hour, and can't be taken back by a click: nothing is changed"
        )
        self._outcomes: Kept[Page] = Kept(
            clock, PLAN_AGE_MAX_MS, "this result is older than 10 minutes: the audit says what was done"
        )

    async def plan(self, person: Person, visit: Visit, prepare: Prepare) -> str:
        """Make a plan, and return its number. Raises PymqError."""
        plan = await visit.cluster.change(prepare)
        session = person.session.key
        number = self._plans.keep(session, person.context, (plan, visit.cluster.unreached))
        person.session.on_end[self] = lambda: self._forget(session)
        return number

    async def take_back(self, person: Person, visit: Visit, number: str) -> str:
        """Plan what takes a change back, and return the plan's number. Raises NotFoundError, PymqError."""
        return await self.plan(person, visit, self._undos.find(person.session.key, person.context, number))

    def plan_page(self, person: Person, number: str, problem: str = "") -> Page:
        """Return the page of a plan. Raises NotFoundError. ``problem``: why it was not carried out."""
        plan, missing = self._plans.find(person.session.key, person.context, number)
        shown = {"plan": plan, "number": number, "sections": plan.sections, "problem": problem}
        return Page(plan.title, "plan.html", {"plan": plan.record, "problem": problem}, plan.command, shown, missing)

    async def apply(self, person: Person, visit: Visit, number: str, form: Parameters) -> str:
        """Carry out the plan with a number, once, and return the number of its outcome.

        Raises NotConfirmedError for a loss without its name typed, after which the plan still waits; NotFoundError for
        a plan that is no more; PymqError when nothing was changed.
        """
        session = person.session.key
        plan, _ = self._plans.find(session, person.context, number)
        if not plan.is_confirmed_by(form.text(CONFIRM, "")):
            raise NotConfirmedError(f"Nothing is changed: type {plan.confirm} to confirm it.")
        self._plans.take(session, person.context, number)
        try:
            outcome = await visit.cluster.change(plan.question(visit.cluster))
        except PymqError as error:
            self._note(person, plan, str(error))
            raise
        except BaseException as error:  # the time is over, or the browser has gone
            self._note(person, plan, f"what was done is not known: {type(error).__name__}")
            raise
        self._note(person, plan, _result(outcome), outcome)
        undo = "" if outcome.undo is None else self._undos.keep(session, person.context, outcome.undo)
        missing = visit.cluster.unreached | outcome.failed
        shown = {"plan": plan, "sections": outcome.sections, "undo": undo, "following": outcome.following}
        page = Page(plan.title, "outcome.html", {"outcome": outcome.record}, plan.command, shown, missing)
        return self._outcomes.keep(session, person.context, page)

    def outcome_page(self, person: Person, number: str) -> Page:
        """Return the page of what a change did. Raises NotFoundError."""
        return self._outcomes.find(person.session.key, person.context, number)

    def _forget(self, session: str) -> None:
        self._plans.forget_session(session)
        self._undos.forget_session(session)
        self._outcomes.forget_session(session)

    def _note(self, person: Person, plan: Plan, result: str, outcome: Outcome | None = None) -> None:
        after = None if outcome is None else outcome.record
        self.audit.note(
            result=result, before=plan.record, after=after, action=plan.action, subject=plan.subject, **person.about
        )


def _result(outcome: Outcome) -> str:
    """Return what the audit says of a change."""
    if not outcome.failed:
        return DONE
    return f"{DONE} in part: " + "; ".join(f"{name}: {why}" for name, why in outcome.failed.items())
