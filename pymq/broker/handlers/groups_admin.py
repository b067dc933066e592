"""Operators' requests about consumer groups' configurations (200, 225, 207, 5003, 201, 352, 353)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.handlers.name_lists import checked_list
from pymq.broker.metadata.late import answer_when_saved, version_ext
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.admin_text import encode_table_in_steps
from pymq.wire.bodies_admin import (
    GroupConfigList,
    GroupForbidden,
    ListedGroups,
    decode_admin_body,
    encode_admin_body,
)
from pymq.wire.bodies_client import PYMQ_LANGUAGE
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import DeleteGroupHeader, GroupForbiddenHeader, GroupHeader, PutGroupHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.pop.revive_log import ReviveLog
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.work.sliced_work import Steps


class GroupAdminHandlers:
    """Makes, changes and deletes consumer groups. A change is answered when it is saved."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        revive_log: ReviveLog,
        stats: StatsManager,
    ) -> None:
        self._sliced_work = runtime.sliced_work
        self._groups = metadata.groups
        self._topics = metadata.topics
        self._cursors = metadata.cursors
        self._request_modes = metadata.request_modes
        self._order_infos = metadata.order_infos
        self._revive_log = revive_log
        self._leaser = metadata.leaser
        self._stats = stats

    def create(self, request: Command, header: PutGroupHeader, peer: Peer) -> None:
        """Make or change a group."""
        wanted = decode_admin_body(SubscriptionGroupConfig, request.body)
        expected = header.pymq_expected_version

        def finish() -> Reply:
            return Reply(ext=version_ext(self._groups.data_version) if expected is not None else None)

        self._groups.put([wanted], answer_when_saved(request, peer, finish), expected)

    def create_list(self, request: Command, header: None, peer: Peer) -> None:
        """Make or change several groups, all or none."""
        wanted = decode_admin_body(GroupConfigList, request.body).group_config_list
        self._groups.put(wanted, answer_when_saved(request, peer, Reply))

    def delete(self, request: Command, header: DeleteGroupHeader, peer: Peer) -> None:
        """Delete a group with leases and hand-outs, and its offsets when asked to. An unknown one counts as deleted."""
        self._delete([header.group_name], header.clean_offset or header.remove_offset, request, peer)

    def delete_list(self, request: Command, header: None, peer: Peer) -> None:
        """Delete several groups, all or none, as :meth:`delete` does one."""
        listed = decode_admin_body(ListedGroups, request.body)
        groups = checked_list("group", listed.group_name_list)
        for group in groups:
            self._groups.refuse_illegal(group)
        self._delete(groups, listed.clean_offset, request, peer)

    def _delete(self, groups: list[str], with_offsets: bool, request: Command, peer: Peer) -> None:
        gone = frozenset(groups)

        def finish() -> Reply:
            self._leaser.forget_group(*groups)
            self._request_modes.forget(groups=gone)
            self._order_infos.forget_all(groups=gone)
            self._revive_log.forget(groups=gone)
            self._stats.forget_group(*groups)
            if with_offsets:
                self._cursors.forget_group(*groups)
            return Reply()

        self._groups.delete(*groups, done=answer_when_saved(request, peer, finish))

    def all_configs(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Return the whole table, for operators and slaves."""
        is_pymq = request.language == PYMQ_LANGUAGE
        return self._sliced_work.answer(request, peer, self._all_configs(with_version=is_pymq))

    def _all_configs(self, *, with_version: bool) -> Steps[Reply]:
        ext = version_ext(self._groups.data_version) if with_version else None
        table = {
            "dataVersion": self._groups.data_version,
            "forbiddenTable": self._groups.forbidden_table(),
            "subscriptionGroupTable": self._groups.all(),
        }
        return Reply(ext=ext, body=(yield from encode_table_in_steps(table)))

    def config_of(self, request: Command, header: GroupHeader, peer: Peer) -> Reply:
        """Return one group's configuration."""
        return Reply(body=encode_admin_body(self._groups.require(header.group)))

    def forbid(self, request: Command, header: GroupForbiddenHeader, peer: Peer) -> Reply | None:
        """Allow or forbid a group to read a topic; without ``readable`` return the present state."""
        self._groups.require(header.group)
        self._topics.require(header.topic)

        def present() -> Reply:
            readable = not self._groups.is_forbidden(header.group, header.topic)
            state = GroupForbidden(group=header.group, topic=header.topic, readable=readable)
            return Reply(body=encode_admin_body(state))

        if header.readable is None:
            return present()
        done = answer_when_saved(request, peer, present)
        self._groups.set_readable(header.group, header.topic, header.readable, done)
        return None
