"""MemberRows: how many members all groups have, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymq.broker.report.row_pages import Names, Sight, after, page_of, seen
from pymq.wire.admin_text import encode_table_in_steps
from pymq.wire.bodies_rows import GroupMembers
from pymq.wire.headers.admin import ConsumerConnectionsHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.clients import ClientManager
    from pymq.broker.work.sliced_work import Steps

MEMBERS_AT_ONCE: Final = 1000  # that are looked at before the next rest


class MemberRows:
    """Answers GET_CONSUMER_CONNECTION_LIST (203) for the rows of all groups."""

    def __init__(self, clients: ClientManager) -> None:
        self._clients = clients

    def members(self, sight: Sight, header: ConsumerConnectionsHeader) -> Steps[Reply]:
        """Return a page of the connected groups that the sender may see.

        Raises Refusal(NO_PERMISSION) for a sender who may see none.
        """
        connected = [group.name for group in self._clients.consumer_groups()]
        visible = yield from seen(connected, sight.members)
        sight.check(visible, "Group")
        page = yield from page_of(visible, after(header.pymq_after))
        names = Names(are_wanted=bool(header.pymq_names))
        rows: dict[str, GroupMembers] = {}
        for name in page.names:
            row = yield from self._row(name, names)
            if row is not None:
                rows[name] = row
            yield
        table: dict[str, Any] = {"pymqMembers": rows, "pymqNext": page.next, "pymqWithheld": sight.withheld}
        return Reply(body=(yield from encode_table_in_steps(table)))

    def _row(self, name: str, names: Names) -> Steps[GroupMembers | None]:
        group = self._clients.consumer_group(name)
        if group is None:
            return None  # its last member left meanwhile
        client_ids: set[str] = set()
        for number, client in enumerate(list(group.members.values()), 1):
            client_ids.add(client.client_id)
            if number % MEMBERS_AT_ONCE == 0:
                yield
        return GroupMembers(
            members=len(client_ids),
            model=group.message_model,
            differ=group.by_member.differ,
            names=names.fit(client_ids),
        )
