"""What a request touches and what it does there: resources, actions, and the needs that permission is asked for.

:mod:`pymq.wire.access` finds the needs of a request, :mod:`pymq.security.policies` decides about them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from pymq.model.lite_topics import split_light_queue
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_send_forbidden

EVERY_NAME = "*"  # of a resource that stands for all of its kind; no topic, group or cluster can have this name


class ResourceKind(Enum):
    """What can be protected. The values are the names in RocketMQ's ACLs."""

    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(Enum):
    """What can be done with a resource. The values are the names in RocketMQ's ACLs."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


ALL_ACTIONS = frozenset(Action)


class Resource(NamedTuple):
    """One thing that a request touches, or with :data:`EVERY_NAME` all things of a kind."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


class Need(NamedTuple):
    """A resource, and actions of which the sender must be allowed one."""

    resource: Resource
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{' or '.join(action.value for action in self.actions)} on {self.resource}"


def group_need(group: str, *actions: Action) -> Need:
    """Return the need to do one of ``actions`` with a group."""
    return Need(Resource(ResourceKind.GROUP, group), actions)


def cluster_need(cluster: str, *actions: Action) -> Need:
    """Return the need to do one of ``actions`` with a cluster."""
    return Need(Resource(ResourceKind.CLUSTER, cluster), actions)


def topic_need(topic: str, *actions: Action) -> Need:
    """Return the need to do one of ``actions`` with a topic.

    A retry or dead-letter topic follows its group: the need is one for the group. To send there is what a member of the
    group does with a message that it could not consume, so ``PUB`` becomes ``SUB``.

    A light queue has messages of its parent topic: the need is one for that.

    The broker's own topics hold messages of all others, for example delayed ones: the need is one for all clusters.
    """
    if is_send_forbidden(topic):
        return cluster_need(EVERY_NAME, *actions)
    light = split_light_queue(topic)
    group = owning_group(topic) if light is None else None
    if light is not None:
        topic = light[0]
    if group is None:
        return Need(Resource(ResourceKind.TOPIC, topic), actions)
    return group_need(group, *_unique(Action.SUB if action is Action.PUB else action for action in actions))


def owning_group(topic: str) -> str | None:
    """Return the group that a retry or dead-letter topic belongs to; None for any other topic.

    Pop's first form ``%RETRY%group_topic`` looks like the retry topic of a group ``group_topic``, and counts as that.
    """
    if topic.startswith(RETRY_PREFIX):
        return topic.removeprefix(RETRY_PREFIX).partition("+")[0]
    if topic.startswith(DLQ_PREFIX):
        return topic.removeprefix(DLQ_PREFIX)
    return None


def _unique(actions: Iterable[Action]) -> tuple[Action, ...]:
    return tuple(dict.fromkeys(actions))
