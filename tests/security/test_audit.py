"""The audit log: a line for each change and refusal, without secrets, within its limits, whatever the disk does."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.clock import ManualClock
from pymq.security.audit import FIELDS_MAX, LINES_MAX, MASK, PERIOD_MS, REFUSAL, TEXT_LENGTH_MAX, Audit, shown_fields
from pymq.security.audit_file import FILE_NAME, AuditFile
from pymq.security.gatekeeper import Gatekeeper
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Route
from pymq.wire.reply import Reply
from tests.broker.assembly.test_security import credentials, guard
from tests.broker.world import FakePeer, World
from tests.security.rows import NAME_SERVER, ROLES

SIZE_MAX_BYTES = 64 * 1024


def lines(directory: Path) -> list[dict[str, Any]]:
    """Return all lines, the oldest first."""
    files = sorted(
        directory.glob(f"{FILE_NAME}*"), key=lambda path: 1 if path.suffix == ".log" else -int(path.suffix[1:])
    )
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


class Audited:
    """A secured broker's table of requests with an audit log in ``directory``."""

    def __init__(self, directory: Path, size_max_bytes: int = SIZE_MAX_BYTES, count_max: int = 3) -> None:
        self.clock = ManualClock()
        self.directory = directory
        self.audit = Audit(AuditFile(str(directory), size_max_bytes, count_max), self.clock, "broker-a-0", "C")
        self.dispatcher = broker_dispatcher(World().parts, Gatekeeper(guard()), self.audit)

    def ask(self, user: str | None, code: int, **ext: str) -> Reply:
        command = Command(code, ext=ext)
        if user is not None:
            credentials(user).sign(command)
        peer = FakePeer()
        reply = self.dispatcher.dispatch(peer, command)
        return reply if reply is not None else peer.answers[0]

    def create(self, user: str | None, topic: str = "T", **ext: str) -> Reply:
        fields = {"topic": topic, "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "defaultTopic": "TBW102"}
        return self.ask(user, Code.UPDATE_AND_CREATE_TOPIC, **fields, **ext)

    def lines(self) -> list[dict[str, Any]]:
        return lines(self.directory)


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    return Audited(tmp_path / "audit")


def test_a_change_is_one_line_that_says_who_where_what_and_how_it_ended(audited: Audited) -> None:
    assert audited.create("administrator", topic="orders").code == 0
    (line,) = audited.lines()
    assert line["what"] == "change" and (line["code"], line["name"]) == (17, "UPDATE_AND_CREATE_TOPIC")
    assert (line["user"], line["proven"], line["from"]) == ("administrator", True, FakePeer().address)
    assert line["resources"] == ["Topic:orders"] and line["fields"]["writeQueueNums"] == "1"
    assert (line["result"], line["remark"], line["server"]) == (0, "", "broker-a-0") and line["time"].endswith("Z")


@pytest.mark.parametrize(
    ("user", "proven", "remark"),
    [
        (None, False, "username cannot be null."),
        ("stranger", True, "User:stranger has no permission to access Topic"),
    ],
)
def test_a_refusal_is_one_line_with_the_name_that_was_claimed(
    audited: Audited, user: str | None, proven: bool, remark: str
) -> None:
    assert audited.create(user).code == 16
    (line,) = audited.lines()
    assert (line["what"], line["result"], line["user"], line["proven"]) == ("refusal", 16, user or "", proven)
    assert line["remark"].startswith(remark)


def test_what_clients_do_all_day_is_no_line(audited: Audited) -> None:
    audited.create("administrator")
    audited.ask("consumer", Code.GET_MAX_OFFSET, topic="T", queueId="0")
    audited.ask("consumer", Code.UPDATE_CONSUMER_OFFSET, topic="T", consumerGroup="G", queueId="0", commitOffset="0")
    audited.ask("administrator", Code.GET_BROKER_CONFIG)
    assert [line["name"] for line in audited.lines()] == ["UPDATE_AND_CREATE_TOPIC"]


@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_row_that_only_operators_may_use_to_change_something_is_audited(role: str) -> None:
    rows = {row.code: Route(row.code, row.header, row.handler, row.access) for row in ROLES[role]()}
    changes = {code for code, route in rows.items() if route.access.is_change}
    assert Dispatcher(rows.values(), role)._changes == changes
    known = {
        "broker": {17, 18, 25, 200, 207, 215, 222, 225, 306, 309, 314, 316, 323, 329, 353, 9104, 9130},
        NAME_SERVER: {100, 102, 205, 216, 318, 327},
    }
    assert changes >= known.get(role, set())
    assert not changes & {10, 11, 12, 14, 15, 26, 28, 34, 35, 36, 37, 310, 320, 401, 103, 9101, 9103}


def test_secrets_and_signatures_are_not_in_a_line(audited: Audited) -> None:
    audited.create("administrator", secretKey="s3cret-1", userPassword="s3cret-2", SecurityToken="s3cret-3")
    audited.create(None, AccessKey="administrator", Signature="s3cret-4", newToken="s3cret-5")
    raw = (audited.directory / FILE_NAME).read_text()
    assert "s3cret" not in raw and MASK in raw and "Signature" not in raw


def test_a_line_shows_so_many_fields_of_such_a_length() -> None:
    shown = shown_fields({f"f{n}": "x" * 10_000 for n in range(1000)})
    assert len(shown) == FIELDS_MAX and set(map(len, shown.values())) == {TEXT_LENGTH_MAX}


def test_a_flood_of_refusals_is_counted_and_leaves_other_kinds_alone(audited: Audited) -> None:
    for _ in range(LINES_MAX[REFUSAL] + 1000):
        audited.create(None)
    audited.create("administrator")
    audited.ask(None, Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert [line["what"] for line in audited.lines()] == ["refusal"] * LINES_MAX[REFUSAL] + ["change", "refusal"]
    audited.clock.advance(PERIOD_MS)
    audited.audit.tick()
    (omitted,) = [line for line in audited.lines() if line["what"] == "omitted"]
    assert (omitted["of"], omitted["code"], omitted["lines"]) == ("refusal", 17, 1000) == (
        "refusal", 17, audited.audit.omitted_count,
    )  # fmt: skip
    audited.create(None)
    assert audited.lines()[-1]["what"] == "refusal"


def test_the_last_minute_is_told_at_the_stop(audited: Audited) -> None:
    for _ in range(LINES_MAX[REFUSAL] + 5):
        audited.create(None)
    audited.audit.close()
    assert audited.lines()[-1]["lines"] == 5


def test_codes_that_are_not_served_are_one_kind(audited: Audited) -> None:
    for code in range(70_000, 70_000 + LINES_MAX[REFUSAL] + 50):
        audited.ask(None, code)
    assert len(audited.lines()) == LINES_MAX[REFUSAL]


def test_files_move_on_and_the_oldest_goes(tmp_path: Path) -> None:
    audited = Audited(tmp_path / "audit", size_max_bytes=4096, count_max=3)
    for number in range(60):
        audited.create("administrator", topic=f"T{number}")
    sizes = {path.name: path.stat().st_size for path in audited.directory.iterdir()}
    assert set(sizes) == {FILE_NAME, f"{FILE_NAME}.1", f"{FILE_NAME}.2"} and max(sizes.values()) <= 4096
    kept = [line["fields"]["topic"] for line in audited.lines()]
    assert kept == [f"T{number}" for number in range(60 - len(kept), 60)] and len(kept) > 10


def test_one_file_alone_begins_again(tmp_path: Path) -> None:
    audited = Audited(tmp_path / "audit", size_max_bytes=4096, count_max=1)
    for number in range(30):
        audited.create("administrator", topic=f"T{number}")
    assert [path.name for path in audited.directory.iterdir()] == [FILE_NAME]
    assert audited.lines()[-1]["fields"]["topic"] == "T29"


def test_only_the_owner_can_use_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    audited = Audited(directory)
    audited.create("administrator")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (directory, directory / FILE_NAME)]
    assert modes == [0o700, 0o600]
    audited.audit.close()
    (directory / FILE_NAME).chmod(0o644)
    audited.create("administrator")
    assert stat.S_IMODE((directory / FILE_NAME).stat().st_mode) == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "other").write_text("other")
    (tmp_path / "audit" / FILE_NAME).symlink_to(tmp_path / "other")
    audited = Audited(tmp_path / "audit")
    assert audited.create("administrator").code == 0
    assert (tmp_path / "other").read_text() == "other" and audited.audit.failed_count == 1


def test_a_torn_line_of_a_crash_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / FILE_NAME).write_text('{"what":"cha')
    audited = Audited(tmp_path / "audit")
    audited.create("administrator")
    torn, whole = (tmp_path / "audit" / FILE_NAME).read_text().splitlines()
    assert torn == '{"what":"cha' and json.loads(whole)["what"] == "change"


def test_a_failing_disk_stops_nothing_and_is_logged_once(tmp_path: Path) -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("pymq.security.audit").addHandler(handler)
    (tmp_path / "audit").write_text("a file where the directory should be")
    audited = Audited(tmp_path / "audit")
    for number in range(5):
        assert audited.create("administrator", topic=f"T{number}").code == 0
    logging.getLogger("pymq.security.audit").removeHandler(handler)
    assert audited.audit.failed_count == 5 and ["can't be written" in text for text in said] == [True]
    (tmp_path / "audit").unlink()
    audited.create("administrator", topic="T9")
    assert [line["fields"]["topic"] for line in audited.lines()] == ["T9"]
