"""Requests of real clients: their signatures are right, and the dispatch tables find what they need."""

from __future__ import annotations

import pytest

from pymq.security.signature import ACCESS_KEY, SIGNATURE, Secret, is_signed_with, signed_fields
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import decode_command
from pymq.wire.header import decode_header
from tests.golden.frames import load_frames
from tests.security.rows import CLUSTER, NAME_SERVER, ROLES

SECRETS = {"rocketmq2": Secret("12345678"), "ak": Secret("sk")}
# What a broker sends to clients has no row.
TO_CLIENTS = {
    Code.CHECK_TRANSACTION_STATE,
    Code.NOTIFY_CONSUMER_IDS_CHANGED,
    Code.RESET_CONSUMER_CLIENT_OFFSET,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT,
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
}
REQUESTS = [frame for frame in load_frames() if frame.kind != "response" and frame.code not in TO_CLIENTS]
ROWS = {role: {row.code: row for row in rows()} for role, rows in ROLES.items()}
# Rows whose requests may name nothing: producers and clients without a group, and places in the log.
MAY_NAME_NOTHING = {Code.CHECK_CLIENT_CONFIG, Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.END_TRANSACTION}
MAY_NAME_NOTHING |= {Code.VIEW_MESSAGE_BY_ID}


def test_all_signatures_of_real_clients_are_right() -> None:
    signed = [
        (frame, command)
        for frame in REQUESTS
        if (command := decode_command(frame.payload)).ext.get(ACCESS_KEY) in SECRETS
    ]
    assert {frame.peer for frame, _ in signed} == {"mqadmin", "node"}
    assert len(signed) == 13
    for frame, command in signed:
        secret = SECRETS[command.ext[ACCESS_KEY]]
        assert is_signed_with(secret, command.ext, command.body, command.version), frame
        again = signed_fields(command.ext[ACCESS_KEY], secret, command.ext, command.body)
        assert again[SIGNATURE] == command.ext[SIGNATURE]


@pytest.mark.parametrize("client", sorted({frame.peer for frame in REQUESTS}))
def test_requests_of_a_real_client_have_needs(client: str) -> None:
    for frame in REQUESTS:
        if frame.peer != client:
            continue
        command = decode_command(frame.payload)
        row = ROWS[NAME_SERVER if frame.to == "namesrv" else "broker"][command.code]
        header = decode_header(row.header, command.ext) if row.header is not None else None
        found = row.access.needs(command, header, CLUSTER)
        assert found or row.access.peers_only or command.code in MAY_NAME_NOTHING, frame
        assert all(need.resource.name and need.actions for need in found), frame
