"""Limits of how many topics and groups each user makes, by a request of an operator or by its first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.access import Action, Need, ResourceKind
from pymq.security.identities import Identity, UserType
from pymq.wire.codes import ResponseCode

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


class MadeByUsers:
    """Counts what each user has made since the start, and is still there. Administrators and servers have no limit."""

    def __init__(
        self, settings: MakingSettings, clock: Clock, is_there: Mapping[ResourceKind, Callable[[str], bool]]
    ) -> None:
        """``is_there``: whether a topic or a group of a name exists now."""
        self.refused_count = 0
        self._settings = settings
        self._clock = clock
        self._is_there = is_there
        self._made: dict[tuple[str, ResourceKind], dict[str, int]] = {}  # names, and when they were made

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
                if now_ms - at_ms >= MAKING_MS and not self._is_there[kind](known):
                    del made[known]
            if len(made) >= limit:
                self.refused_count += 1
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"user {user} has made {len(made)} {kind.value.lower()}s, the limit is {_SETTINGS[kind]}={limit}: "
                    "delete some, or have an administrator make it",
                )
        made[name] = now_ms
