"""Which rows an answer about all topics or groups has: one page of the rows that the sender may see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from pymq.errors import Refusal
from pymq.model.access import Action, Need, cluster_need, group_need, topic_need
from pymq.wire.codes import ResponseCode
from pymq.wire.command import ProvenSender

if TYPE_CHECKING:
    from pymq.broker.work.sliced_work import Steps

ROWS_A_PAGE: Final = 10_000
NAMES_BYTES_MAX: Final = 1024 * 1024  # of the names that the rows of a page count, together
NAMES_AT_ONCE: Final = 500  # that are looked at before the next rest
_NAME_EXTRA_BYTES = 3  # of a name in JSON
_AFTER = "\0"  # the first name after another one: no name has this character


class Page(NamedTuple):
    """Names of rows in their order, and where the next page begins; None for the last one."""

    names: list[str]
    next: str | None


class Sight:
    """What the sender of a request may see. Everyone sees all on a broker that checks nothing."""

    def __init__(self, sender: ProvenSender | None, cluster: str) -> None:
        """``cluster``: the broker's."""
        self._sender = sender
        self._cluster = cluster
        self.withheld = False  # True once something was asked for that the sender may not see

    def topic(self, name: str) -> bool:
        """Return whether the sender may see the topic's ends, as GET_TOPIC_STATS_INFO gives them."""
        return self._may(topic_need(name, Action.GET))

    def members(self, group: str) -> bool:
        """Return whether the sender may see the group's members, as GET_CONSUMER_CONNECTION_LIST gives them."""
        return self._may(group_need(group, Action.GET))

    def lag(self, group: str) -> bool:
        """Return whether the sender may see the group's lag, as GET_CONSUME_STATS gives it for a group, and
        GET_BROKER_CONSUME_STATS for all of the cluster."""
        sender = self._sender
        return sender is None or sender.may(cluster_need(self._cluster, Action.GET)) or self.members(group)

    def _may(self, need: Need) -> bool:
        if self._sender is None or self._sender.may(need):
            return True
        self.withheld = True
        return False

    def check(self, found: Collection[str], what: str) -> None:
        """Raise Refusal(NO_PERMISSION) when ``found`` is empty because the sender may see nothing of it."""
        if self._sender is not None and self.withheld and not found:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"User:{self._sender.name} has no permission to access any {what}: it needs Get on one of them.",
            )


def seen(names: Iterable[str], may_see: Callable[[str], bool]) -> Steps[set[str]]:
    """Return the names that the sender may see. Yields now and then."""
    found: set[str] = set()
    for number, name in enumerate(names, 1):
        if may_see(name):
            found.add(name)
        if number % NAMES_AT_ONCE == 0:
            yield
    return found


def page_of(names: Iterable[str], start: str, count_max: int = ROWS_A_PAGE) -> Steps[Page]:
    """Return the first ``count_max`` names in their order that are not below ``start``. Yields now and then."""
    found: list[str] = []
    for number, name in enumerate(names, 1):
        if name >= start:
            found.append(name)
        if len(found) > 2 * count_max:
            found = sorted(found)[: count_max + 1]
        if number % NAMES_AT_ONCE == 0:
            yield
    found.sort()
    return Page(found[:count_max], found[count_max - 1] if len(found) > count_max else None)


def after(name: str | None) -> str:
    """Return the least text above ``name``: where the page after it begins."""
    return name + _AFTER if name else ""


class Names:
    """The room that a page has for names beside its figures."""

    def __init__(self, *, are_wanted: bool) -> None:
        self._are_wanted = are_wanted
        self._left = NAMES_BYTES_MAX

    def fit(self, names: Collection[str]) -> list[str] | None:
        """Return the names, sorted, when they are wanted and there is room for them; else None."""
        if not self._are_wanted:
            return None
        size = sum(map(len, names)) + _NAME_EXTRA_BYTES * len(names)
        if size > self._left:
            return None
        self._left -= size
        return sorted(names)
