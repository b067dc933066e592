"""Log proofs: which piece is asked for, and which answers prove that another broker has our log."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from xxhash import xxh3_64_hexdigest

from pymq.broker.replication.history.log_end import TAIL_BYTES_MAX
from pymq.broker.replication.history.log_proof import PROOF_BYTES_MIN, OwnLog, Piece, ask_for_proof, piece_before
from pymq.errors import NotFoundError
from pymq.wire.bodies_replication import LogDigests, LogDigestsRequest
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

SEGMENT_BYTES = 200_000
DATA = bytes(number * 7 % 251 for number in range(1000))
THEIRS = "10.0.0.2:10911"


def digest(end: int, size: int) -> str:
    return xxh3_64_hexdigest(DATA[end - size : end])


def log(end: int = len(DATA), start: int = 0) -> OwnLog:
    return OwnLog(start, end, SEGMENT_BYTES, digest)


@pytest.mark.parametrize(
    ("start", "end", "common_end", "their_start", "piece"),
    [
        (0, 1000, 1000, 0, Piece(0, 1000)),
        (0, 1000, 5000, 0, Piece(0, 1000)),  # beyond our end nothing is ours
        (0, 1000, 300, 0, Piece(0, 300)),
        (0, 1000, 300, 200, Piece(200, 300)),
        (0, 1000, PROOF_BYTES_MIN, 0, Piece(0, PROOF_BYTES_MIN)),
        (0, 1000, PROOF_BYTES_MIN - 1, 0, None),
        (0, 1000, 1000, 1000 - PROOF_BYTES_MIN + 1, None),
        (0, 1000, 0, 0, None),
        (0, 1000, -5, 0, None),
        (0, 500_000, 500_000, 0, Piece(500_000 - TAIL_BYTES_MAX, 500_000)),
        (0, 500_000, 400_001, 0, Piece(400_000 - TAIL_BYTES_MAX, 400_000)),  # few bytes in the last segment
        (0, 500_000, 400_001, 399_999, None),
    ],
)
def test_the_piece_before_the_common_end(
    start: int, end: int, common_end: int, their_start: int, piece: Piece | None
) -> None:
    assert piece_before(log(end, start), common_end, their_start) == piece


class Network:
    """Gives one answer to every request."""

    def __init__(self, answer: Command | str) -> None:
        self.answer = answer
        self.asked: list[LogDigestsRequest] = []

    def connect(self, address: str, handler: StreamHandler) -> None:
        raise AssertionError("nothing is streamed")

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        assert address == THEIRS
        self.asked.append(msgspec.json.decode(command.body, type=LogDigestsRequest))
        on_answer(self.answer)


def digests(*found: str) -> Command:
    answer = LogDigests(
        broker_name="b", cluster="c", segment_size_bytes=SEGMENT_BYTES, log_start=0, log_end=1000, start=300,
        digests=list(found),
    )  # fmt: skip
    return Command(0, body=msgspec.json.encode(answer))


def outcome(answer: Command | str, own: OwnLog | None = None) -> tuple[str, bool]:
    network, found = Network(answer), list[tuple[str, bool]]()
    ask_for_proof(network, THEIRS, own or log(), Piece(300, 1000), lambda why, is_final: found.append((why, is_final)))
    assert [(asked.start, asked.end, asked.count_max) for asked in network.asked] == [(300, 1000, 1)]
    assert network.asked[0].chunk_bytes >= 700
    (result,) = found
    return result


def test_the_right_digest_proves_it() -> None:
    assert outcome(digests(digest(1000, 700))) == ("", True)


@pytest.mark.parametrize(
    ("answer", "is_final"),
    [
        (digests("0" * 16), True),
        (digests(""), True),
        (digests(), True),
        (Command(0, body=b"{"), True),
        (Command(29, remark="start 300 is outside this log"), True),
        (Command(3, remark="not supported"), True),
        (Command(14, remark="it is becoming the master"), False),
        ("no connection", False),
    ],
)
def test_nothing_else_does(answer: Command | str, is_final: bool) -> None:
    why, final = outcome(answer)
    assert THEIRS in why and final is is_final


def test_a_log_that_can_not_be_read_proves_nothing() -> None:
    def unreadable(end: int, size: int) -> str:
        raise NotFoundError("the log ends before")

    assert "the log ends before" in outcome(digests("x"), OwnLog(0, 1000, SEGMENT_BYTES, unreadable))[0]
