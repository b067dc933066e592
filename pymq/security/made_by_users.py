"""Limits of how many topics and groups each user makes, by a request of an operator or by its first use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from pymq.clock import Clock
from pymq.errors import Refusal, StoreError
from pymq.model.access import Action, Need, ResourceKind
from pymq.security.identities import Identity, UserType
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

MADE_FILE, MADE_MEMBER = "madeByUsers.json", "made"
# A name counts for so long before it is there: a topic takes effect once it is saved.
MAKING_MS: Final = 10_000
# A need for nothing but these makes a missing one; with others beside them it only looks.
_MAKING: Final[Mapping[ResourceKind, frozenset[Action]]] = {
    ResourceKind.TOPIC: frozenset({Action.PUB, Action.CREATE}),
    ResourceKind.GROUP: frozenset({Action.SUB, Action.UPDATE, Action.CREATE}),
}
_SETTINGS: Final = {ResourceKind.TOPIC: "userTopicCountMax", ResourceKind.GROUP: "userGroupCountMax"}


class MakingSettings(Protocol):
    """How many a user may make; 0 is no limit."""

    @property
    def user_topic_count_max(self) -> int: ...

    @property
    def user_group_count_max(self) -> int: ...


class Saver(Protocol):
    """Keeps a table in a file (:class:`~pymq.broker.metadata.made_by_users_table.MadeByUsersTable`)."""

    @property
    def is_busy(self) -> bool: ...

    def load(self) -> dict[str, Any]: ...

    def save(self, value: dict[str, Any]) -> None: ...

    def save_soon(
        self, make: Callable[[], dict[str, Any]], saved: Callable[[StoreError | OSError | None], None]
    ) -> None: ...


class MadeByUsers:
    """Counts what each user has made and is still there. Administrators and servers have no limit.

    A crash loses what was made since the last :meth:`tick`.
    """

    def __init__(
        self,
        settings: MakingSettings,
        clock: Clock,
        is_there: Mapping[ResourceKind, Callable[[str], bool]],
        saver: Saver,
    ) -> None:
        """``is_there``: whether a topic or a group of a name exists now."""
        self.refused_count = 0
        self._saver = saver
        self._is_dirty = False
        self._settings = settings
        self._clock = clock
        self._is_there = is_there
        self._made: dict[tuple[str, ResourceKind], dict[str, int]] = {}  # names, and when they were made

    def load(self) -> None:
        """Take up what an earlier run has saved. A file that can't be used is logged, and the counts begin again."""
        made_ms = self._clock.monotonic_ms() - MAKING_MS
        try:
            for user, kinds in self._saver.load().get(MADE_MEMBER, {}).items():
                for kind, names in kinds.items():
                    self._made[user, ResourceKind(kind)] = dict.fromkeys(map(str, names), made_ms)
        except (StoreError, AttributeError, TypeError, ValueError) as error:
            self._made.clear()
            log.warning("%s can't be used, so what users have made is counted from now on: %s", MADE_FILE, error)

    def forget_others(self, users: Collection[str]) -> None:
        """Forget what users made that are gone: one that is made again begins at 0."""
        for key in [key for key in self._made if key[0] not in users]:
            del self._made[key]
            self._is_dirty = True

    def tick(self) -> None:
        """Save what has changed, in a thread. Call it about every second."""
        if self._is_dirty and not self._saver.is_busy:
            self._is_dirty = False
            table = self._as_table()
            self._saver.save_soon(lambda: table, self._saved)

    def save(self) -> None:
        """Save what has changed now. A failure is logged."""
        if self._is_dirty or self._saver.is_busy:
            self._is_dirty = False
            try:
                self._saver.save(self._as_table())
            except (StoreError, OSError) as error:
                self._saved(error)

    def _saved(self, error: StoreError | OSError | None) -> None:
        if error is not None:
            self._is_dirty = True
            log.warning("what users have made is not saved: %s", error)

    def _as_table(self) -> dict[str, Any]:
        made: dict[str, dict[str, list[str]]] = {}
        for (user, kind), names in self._made.items():
            if kept := [name for name, at_ms in names.items() if self._counts(kind, name, at_ms)]:
                made.setdefault(user, {})[kind.value] = kept
        return {MADE_MEMBER: made}

    def _counts(self, kind: ResourceKind, name: str, at_ms: int) -> bool:
        return self._clock.monotonic_ms() - at_ms < MAKING_MS or self._is_there[kind](name)

    def check(self, identity: Identity, needs: Iterable[Need]) -> None:
        """Note what a request that is allowed will make. Raises Refusal(NO_PERMISSION) beyond its user's limit."""
        user = identity.user
        if user is None or user.kind is not UserType.NORMAL:
            return
        limits = {
            ResourceKind.TOPIC: self._settings.user_topic_count_max,
            ResourceKind.GROUP: self._settings.user_group_count_max,
        }
        for need in needs:
            kind = need.resource.kind
            if limits.get(kind) and _MAKING[kind].issuperset(need.actions):
                self._note(user.name, kind, need.resource.name, limits[kind])

    def _note(self, user: str, kind: ResourceKind, name: str, limit: int) -> None:
        if self._is_there[kind](name):
            return
        made = self._made.setdefault((user, kind), {})
        now_ms = self._clock.monotonic_ms()
        if name not in made and len(made) >= limit:
            for known, at_ms in list(made.items()):
                if not self._counts(kind, known, at_ms):
                    del made[known]
            if len(made) >= limit:
                self.refused_count += 1
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"user {user} has made {len(made)} {kind.value.lower()}s, the limit is {_SETTINGS[kind]}={limit}: "
                    "delete some, or have an administrator make it",
                )
        made[name] = now_ms
        self._is_dirty = True
