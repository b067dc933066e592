"""The requests of RocketMQ's controller, which brokers and name servers refuse: PyMQ has no controller."""

from __future__ import annotations

from typing import Final

from pymq.wire.codes import RequestCode as Code

NO_CONTROLLER: Final = (
    "there is no controller: pymq broker status shows the members, pymq broker promote changes the master"
)
# Java's controller may run inside a name server, so tools ask either address.
CONTROLLER_REFUSALS: Final[dict[int, str]] = dict.fromkeys(
    (
        Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER,
        Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO,
        Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.UPDATE_CONTROLLER_CONFIG,
        Code.GET_CONTROLLER_CONFIG,
        Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID,
        Code.CONTROLLER_APPLY_BROKER_ID,
    ),
    NO_CONTROLLER,
)
