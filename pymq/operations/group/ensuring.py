"""The group of a tail: a name with a typing error is refused, because a pull would create the group."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, UnreachableError
from pymq.model.tables import SubscriptionGroupConfig


async def ensure_group(admin: Admin, group: str, *, create: bool) -> None:
    """Return if a broker has the group, or after creating it on all masters if ``create``.

    Raises NotFoundError with the nearest name for an unknown group, UnreachableError if no broker answers.
    """
    masters = await admin.cluster.masters()
    answers = await asyncio.gather(*(admin.groups.configs(one.address) for one in masters), return_exceptions=True)
    known: set[str] = set()
    silent: list[str] = []
    for master, answer in zip(masters, answers, strict=True):
        if isinstance(answer, UnreachableError):
            silent.append(master.name)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            known |= set(answer)
    if group in known:
        return
    if silent and len(silent) == len(masters):
        raise UnreachableError(f"no broker answers that could know group {group!r}: {', '.join(silent)}")
    if create:
        for master in masters:
            if master.name not in silent:
                await admin.groups.put(master.address, SubscriptionGroupConfig(group_name=group))
        return
    near = get_close_matches(group, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "pymq group list shows all groups;"
    unasked = f" ({', '.join(silent)} did not answer)" if silent else ""
    raise NotFoundError(f"no group {group!r}{unasked}: {hint} --create-group makes it")
