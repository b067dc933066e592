"""Asks for times, lag and disks, and judges each part by the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError
from pymq.model.names import is_system_group
from pymq.operations.broker.writes import disk_refusal, permission_step, permission_text, refusal
from pymq.operations.check.line import Figure, Level, Limits, Part, Result, worst
from pymq.operations.replica_view import BrokerView, brokers, registered
from pymq.units import format_count, format_duration_ms
from pymq.wire.bodies_admin import TopicLag, add_lag


class Asked(NamedTuple):
    """A broker's runtime table and how long the answer took; ``error`` says why there is none."""

    view: BrokerView
    label: str
    table: dict[str, str]
    took_ms: int
    error: str = ""


async def check_brokers(admin: Admin, name: str | None, *, limits_ms: Limits, count_min: int, clock: Clock) -> Result:
    """Critical: a broker does not answer, a master takes no messages, a name has no master, or fewer brokers than
    ``count_min`` are registered. Warning: clients may not write or read.
    """
    asked = await _ask(admin, name, clock, may_be_empty=True)
    result = Result("broker", format_count(len(asked), "broker") + " answering")
    if len(asked) < max(count_min, 1):
        text = f"{len(asked)} brokers are registered instead of {max(count_min, 1)}: pymq cluster list shows which"
        result.parts.append(Part("cluster", Level.CRITICAL, text))
    for one in asked:
        figure = Figure(one.label, None if one.error else one.took_ms, "ms", limits_ms)
        result.figures.append(figure)
        if one.error:
            result.parts.append(Part(one.label, Level.CRITICAL, one.error))
        else:
            text = f"answers after {one.took_ms} ms"
            result.parts += [Part(one.label, figure.level, text), *_refused(one)]
    masters = {one.view.name for one in asked if one.view.is_master}
    for leaderless in sorted({one.view.name for one in asked} - masters):
        text = f"no master is registered: start it, or pymq broker promote {leaderless}"
        result.parts.append(Part(leaderless, Level.CRITICAL, text))
    silent = sum(bool(one.error) for one in asked)
    result.figures = [Figure("registered", len(asked)), Figure("silent", silent), *result.figures]
    return result


def _refused(one: Asked) -> list[Part]:
    """Return a part for each reason that a broker takes no messages, or gives none. A slave takes none by its role."""
    parts = []
    why = refusal(one.table) if one.view.is_master else ""
    if why:
        parts.append(Part(one.label, Level.CRITICAL, f"takes no messages: {why}"))
    permission = one.table.get("pymqPermission", "")
    if permission.isdecimal() and (text := permission_text(int(permission))):
        parts.append(Part(one.label, Level.WARNING, f"{text}: {permission_step(one.label)}"))
    return parts


def add_missing(result: Result, missing: Mapping[str, str], name: str | None) -> Result:
    """Add a critical part for each missing broker; only for the one of that name, if there is one."""
    result.parts += [
        Part(broker, Level.CRITICAL, reason) for broker, reason in missing.items() if name in (None, broker)
    ]
    return result


async def check_disks(admin: Admin, name: str | None, *, limits_percent: Limits, clock: Clock) -> Result:
    """Compare what share of its disk each broker has in use; a broker that doesn't report it is unknown.

    Critical, too: a broker takes no messages because its disk is full or fails.
    """
    asked = await _ask(admin, name, clock)
    result = Result("disk", format_count(len(asked), "disk") + " with room")
    for one in asked:
        used = _percent(one.table.get("commitLogDiskRatio"))
        figure = Figure(one.label, used, "%", limits_percent, 100)
        result.figures.append(figure)
        if used is None:
            why = one.error or "it does not report commitLogDiskRatio"
            result.parts.append(Part(one.label, Level.UNKNOWN, f"how full its disk is is not known: {why}"))
        else:
            result.parts.append(Part(one.label, figure.level, f"{used:.1f} % of its disk are in use"))
        if why := disk_refusal(one.table):
            result.parts.append(Part(one.label, Level.CRITICAL, f"takes no messages: {why}"))
    return result


async def check_lag(
    admin: Admin, group: str | None, topic: str | None, *, limits: Limits, limits_ms: Limits, clock: Clock
) -> Result:
    """Compare how many messages groups are behind, and for how long.

    The time is the age of the last consumed message, in queues that have further ones. Raises NotFoundError for a group
    that has no place, in the topic if one is named; a master that does not answer makes the result unknown.
    """
    is_timed = limits_ms != Limits()
    lags, errors = await _lags(admin, group, with_times=is_timed)
    names = sorted(name for name in lags if not is_system_group(name)) if group is None else [group]
    result = Result("lag", format_count(len(names), "group") + " within the limits")
    result.parts += [Part(name, Level.UNKNOWN, f"does not answer: {error}") for name, error in errors]
    now_ms = clock.now_ms()
    for name in names:
        places = [lag for of, lag in lags.get(name, {}).items() if topic in (None, of)]
        if group is not None and not places and not errors:
            where = f" in topic {topic!r}" if topic else ""
            raise NotFoundError(f"group {group!r} has no place{where}: pymq group list shows all groups")
        lag, age_ms = sum(place.lag for place in places), _age_ms(places, now_ms)
        figures = [Figure(name, lag, "", limits), Figure(f"{name} time", age_ms / 1000, "s", _in_seconds(limits_ms))]
        level = worst([limits.level(lag), limits_ms.level(age_ms)])
        text = f"{format_count(lag, 'message')} behind" + (
            f", the last one consumed is {format_duration_ms(age_ms)} old" if lag and is_timed else ""
        )
        unknown = sum(place.unknown_queues for place in places)
        if unknown:
            text += (
                f"; in {format_count(unknown, 'queue')} with messages it has committed nothing: no lag is known there"
            )
        if unknown and group and not any(place.lag or place.committed for place in places):
            level = worst([level, Level.UNKNOWN])
        result.parts.append(Part(name, level, text))
        result.figures += figures if is_timed else figures[:1]
    result.parts.sort(key=lambda part: part.subject)
    return result


async def _lags(
    admin: Admin, group: str | None, *, with_times: bool
) -> tuple[dict[str, dict[str, TopicLag]], list[tuple[str, str]]]:
    """Return group -> topic -> lag on the masters that answer, and (name, error) of those that don't."""

    async def ask(address: str) -> dict[str, dict[str, TopicLag]]:
        if group is None:
            return await admin.groups.all_topic_lags_at(address, with_times=with_times)
        return {group: await admin.groups.topic_lags_at(address, group, with_times=with_times)}

    masters = await admin.cluster.masters()
    answers = await asyncio.gather(*(ask(target.address) for target in masters), return_exceptions=True)
    found: dict[str, dict[str, TopicLag]] = {}
    errors = []
    for target, answer in zip(masters, answers, strict=True):
        if isinstance(answer, PymqError):
            errors.append((target.name, str(answer)))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            for name, lags in answer.items():
                for topic, lag in lags.items():
                    add_lag(found.setdefault(name, {}), topic, lag)
    return found, errors


def _age_ms(places: Iterable[TopicLag], now_ms: int) -> int:
    """Return the age of the last consumed message where there are further ones, 0 where there are none."""
    return max((now_ms - place.consumed_ms for place in places if place.consumed_ms), default=0)


async def _ask(admin: Admin, name: str | None, clock: Clock, *, may_be_empty: bool = False) -> list[Asked]:
    is_any = may_be_empty and name is None
    views = await brokers(admin) if is_any else await registered(admin, name)
    return list(await asyncio.gather(*(_ask_one(admin, view, views, clock) for view in views)))


async def _ask_one(admin: Admin, view: BrokerView, views: Sequence[BrokerView], clock: Clock) -> Asked:
    alone = sum(other.name == view.name for other in views) == 1
    label = view.name if alone else f"{view.name}:{view.broker_id}"
    asked_ms = clock.monotonic_ms()
    try:
        table = await admin.brokers.runtime_info(view.address)
    except PymqError as error:
        return Asked(view, label, {}, 0, str(error))
    return Asked(view, label, table, clock.monotonic_ms() - asked_ms)


def _percent(text: str | None) -> float | None:
    try:
        ratio = float(text or "")
    except ValueError:
        return None
    return round(ratio * 100, 2) if ratio >= 0 else None


def _in_seconds(limits: Limits) -> Limits:
    return Limits(*(None if one is None else one / 1000 for one in (limits.warning, limits.critical)))
