"""Frames of acknowledgements from templates are those of the plain encoding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pymq.client.ack_frames import AckFrames
from pymq.wire.codes import RequestCode
from pymq.wire.command import encode_command, request
from pymq.wire.headers.pop import AckMessageHeader

NAMES = st.text("abz09-_%|+", min_size=1, max_size=12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(NAMES, NAMES, TEXTS, st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1))
def test_frames_from_templates_equal_encoded_commands(
    group: str, topic: str, receipt: str, queue_id: int, offset: int, opaque: int
) -> None:
    header = AckMessageHeader(consumer_group=group, topic=topic, queue_id=queue_id, extra_info=receipt, offset=offset)
    command = request(RequestCode.ACK_MESSAGE, header)
    command.opaque, command.language, command.version = opaque, "PYTHON", 479
    frames = AckFrames("PYTHON", 479)
    for _ in range(2):
        assert frames.frame(group, topic, queue_id, receipt, offset, opaque) == encode_command(command)
