"""``pymq raft secret`` and ``pymq raft term``: files of a member, on its machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pymq.broker.raft.node_directory import RAFT_STATE_FILE
from pymq.broker.raft.secret_file import FORMER, NEXT, decode_secrets
from pymq.broker.raft.state_files import decode, encode
from pymq.cli import main as cli
from pymq.raft.core import TERM_MAX
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, RaftState, Replica
from pymq.store.disk.fs import RealFiles
from tests.cli.schemas import assert_documented

N0, N1 = Replica("n0", "00aa"), Replica("n1", "11bb")
STATE = RaftState(
    N0, TERM_MAX, N1, (), 400, (Epoch(1, 0), Epoch(7, 300)), (MembershipEntry(0, Membership(((N0, Kind.VOTER),))),)
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["raft", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_secret_is_made_and_replaced_and_never_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "raft.secret"
    told = [run(capsys, "secret", str(path))]
    first = decode_secrets(path.read_bytes(), "f").first
    assert told[0][0] == 0 and path.stat().st_mode & 0o777 == 0o600
    assert run(capsys, "secret", str(path))[0] != 0, "it replaces none by accident"
    kinds = []
    for _ in range(3):
        told.append(run(capsys, "secret", str(path), "--next"))
        kinds.append(decode_secrets(path.read_bytes(), "f").kind)
    assert kinds == [NEXT, FORMER, ""]
    last = decode_secrets(path.read_bytes(), "f").first
    assert last != first
    for secret in (first, last):
        assert all(secret.hex()[:8] not in text for _, *texts in told for text in texts)


@pytest.fixture
def member(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / RAFT_STATE_FILE).write_bytes(encode(STATE))
    return tmp_path


def state_of(member: Path) -> RaftState:
    return decode((member / "config" / RAFT_STATE_FILE).read_bytes())


def test_a_stored_term_is_shown_and_set(member: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(run(capsys, "term", str(member), "-o", "json")[1])
    assert shown == {"node": "n0", "disk_id": "00aa", "term": TERM_MAX, "term_min": 7, "voted_for": "n1"}
    assert_documented("raft term", shown)
    code, _, error = run(capsys, "term", str(member), "--set", "9", "--dry-run")
    assert code == 0 and "9 would be set" in error
    assert run(capsys, "term", str(member), "--set", "9")[0] != 0, "it asks first"
    assert state_of(member) == STATE
    assert run(capsys, "term", str(member), "--set", "9", "--yes")[0] == 0
    after = state_of(member)
    assert (after.term, after.vote) == (9, None)
    assert (after.epochs, after.memberships, after.confirm_offset) == (STATE.epochs, STATE.memberships, 400)


def test_no_term_below_the_newest_bytes_is_set(member: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "term", str(member), "--set", "6", "--yes")
    assert code != 0 and "the newest bytes are of term 7" in error
    assert run(capsys, "term", str(member), "--set", "7", "--yes")[0] == 0


def test_a_running_member_and_another_directory_are_refused(member: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = RealFiles().lock(f"{member}/lock")
    try:
        assert run(capsys, "term", str(member), "--set", "9", "--yes")[0] != 0
    finally:
        lock.release()
    assert state_of(member) == STATE
    code, _, error = run(capsys, "term", str(member / "config"))
    assert code != 0 and "no data directory of a member" in error
