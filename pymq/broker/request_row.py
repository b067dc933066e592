"""Row: one row of the broker's table of requests: how a request is answered in each role, and who may ask."""

from __future__ import annotations

from enum import Flag
from typing import Final, NamedTuple

from pymq.wire.access import Access
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import Handler, Route
from pymq.wire.header import Header


class OnSlave(NamedTuple):
    """What a slave does with a request. ``refused_code`` None: it serves it, or leaves it to its master."""

    refused_code: int | None = None
    what: str = ""  # the slave does not do, for the remark of a refusal
    is_left_to_master: bool = False


# A slave's log and tables are its master's, so only copying may write them. A slave serves requests that read, clients'
# heartbeats and consumers' commits, which it keeps and sends to its master.
SERVES: Final = OnSlave()
# mqadmin sends these to every broker of a cluster and stops at the first refusal.
LEAVES: Final = OnSlave(is_left_to_master=True)
# Java: DefaultMessageStore.checkStoreStatus refuses sends (SERVICE_NOT_AVAILABLE), AdminBrokerProcessor.validateSlave
# and resetOffset administration (SYSTEM_ERROR).
NO_SENDS: Final = OnSlave(ResponseCode.SERVICE_NOT_AVAILABLE, "takes no messages")
NO_POPS: Final = OnSlave(ResponseCode.SERVICE_NOT_AVAILABLE, "hands out no messages")
NO_LOCKS: Final = OnSlave(ResponseCode.SERVICE_NOT_AVAILABLE, "gives no locks")
NO_TRANSACTIONS: Final = OnSlave(ResponseCode.SLAVE_NOT_AVAILABLE, "ends and checks no transactions")
NO_RECALLS: Final = OnSlave(ResponseCode.SLAVE_NOT_AVAILABLE, "recalls no messages")
NO_CHANGES: Final = OnSlave(ResponseCode.SYSTEM_ERROR, "changes no topics, groups or offsets")


class Rule(Flag):
    """What else holds for a request."""

    NONE = 0
    FENCED = 1  # a master that hands over to a slave refuses it
    CURRENT = 2  # a Raft group's leader answers it once it knows that it still leads
    # A leader answers it once the group has the offsets that it changed; a follower that serves it gives no answer.
    AWAITS_OFFSETS = 4
    LARGE_BODY = 8  # its handler checks the body's size


class Row(NamedTuple):
    """How a broker answers one request code. ``header``, ``access``: as in :class:`Route`."""

    code: int
    header: type[Header] | None
    handler: Handler
    access: Access
    on_slave: OnSlave
    rules: Rule = Rule.NONE

    def has(self, rule: Rule) -> bool:
        """Return True when ``rule`` holds for the request."""
        return rule in self.rules

    def route(self, handler: Handler) -> Route:
        """Return the row of a dispatcher that answers with ``handler``."""
        return Route(self.code, self.header, handler, self.access, self.has(Rule.LARGE_BODY))

    def short_route(self, handler: Handler, access: Access) -> Route:
        """Return the row of a dispatcher whose ``handler`` reads no header."""
        return Route(self.code, None, handler, access, self.has(Rule.LARGE_BODY))
