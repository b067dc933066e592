"""``pymq store``: the output, JSON and exit codes of each command, and the refusal to touch a running broker."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.store.work import parse_selection
from pymq.clock import ManualClock
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE, UsageError
from pymq.offline.dump import OFFSET_LAST, DumpSelection
from pymq.store.disk.fs import RealFiles
from pymq.store.replica.divergent_tail import truncate_log
from tests.golden_stores import unpack
from tests.offline.support import flip, log_place, records, small_store, snapshot
from tests.store.test_golden_stores import SETTINGS


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return unpack("store-clean", tmp_path)[0]


@pytest.fixture
def damaged(golden: Path) -> Path:
    path, position = log_place(golden, records(golden)[5].offset)
    flip(path, position + 90)
    return golden


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.run(["store", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_verify_of_a_sound_directory(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(golden)
    code, out, err = run(capsys, "verify", golden)
    assert (code, err) == (EXIT_OK, "")
    assert "records        577" in out
    assert "queue units    577 in 22 queues" in out
    assert out.endswith("\nsound\n")
    code, out, _ = run(capsys, "verify", golden, "-o", "json")
    assert code == EXIT_OK
    assert json.loads(out)["sound"] is True
    assert snapshot(golden) == before


def test_verify_names_the_first_bad_byte(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "verify", damaged)
    assert code == EXIT_FAILED
    segment = damaged / "commitlog" / f"{0:020d}"
    offset = records(damaged)[4].offset + records(damaged)[4].size + 88
    assert f"first bad byte: {segment} at {offset} (commit log offset {offset})" in out
    assert "1 message can't be read" in out
    code, out, _ = run(capsys, "verify", damaged, "-o", "json")
    assert code == EXIT_FAILED
    first = json.loads(out)["first_bad"]
    assert (first["file"], first["position"], first["physical_offset"]) == (str(segment), offset, offset)


def test_inspect(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(golden)
    code, out, _ = run(capsys, "inspect", golden)
    assert code == EXIT_OK
    assert "last written by  RocketMQ" in out
    assert "00000000000000196608" in out
    code, out, _ = run(capsys, "inspect", golden, "--topic", "TopicPlain", "-o", "json")
    assert {row["topic"] for row in json.loads(out)["queues"]} == {"TopicPlain"}
    assert snapshot(golden) == before


def test_inspect_of_one_record(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = records(golden)[3]
    code, out, _ = run(capsys, "inspect", golden, "--offset", record.offset, "-o", "json")
    assert code == EXIT_OK
    shown = json.loads(out)
    assert (shown["topic"], shown["offset"], shown["store_size"]) == (record.topic, record.queue_offset, record.size)
    for message_id in (shown["offset_message_id"], shown["message_id"]):
        code, out, _ = run(capsys, "inspect", golden, "--id", message_id)
        assert code == EXIT_OK
        assert f"commit log offset  {record.offset}\n" in out
        assert "properties\n  CLUSTER=DefaultCluster\n" in out
    assert run(capsys, "inspect", golden, "--id", "nope")[0] == EXIT_NOT_FOUND
    code, _, err = run(capsys, "inspect", golden, "--offset", record.offset + 1)
    assert code == EXIT_FAILED
    assert err.startswith(f"pymq: no good record starts at {record.offset + 1}: ")
    assert run(capsys, "inspect", golden, "--id", "x", "--offset", "1")[0] == EXIT_USAGE


def test_dump_to_stdout_and_to_a_file(golden: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.run(["store", "dump", str(golden)]) == EXIT_OK
    lines = capfdbinary.readouterr().out.splitlines()
    assert len(lines) == 577
    assert list(json.loads(lines[0]))[:3] == ["topic", "queueId", "queueOffset"]
    target = tmp_path / "out.jsonl"
    assert cli.run(["store", "dump", str(golden), "--out", str(target), "-t", "TopicTx", "-t", "TopicBatch"]) == EXIT_OK
    rows = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert {row["topic"] for row in rows} == {"TopicTx", "TopicBatch"}
    assert b"66 messages in" in capfdbinary.readouterr().err
    assert not target.with_name("out.jsonl.part").exists()


def test_dump_of_a_truncated_log_tail(golden: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    place = records(golden)[570].offset
    tail = truncate_log(RealFiles(), str(golden), SETTINGS, place, ManualClock(1_800_000_000_000))
    assert cli.run(["store", "dump", tail.path]) == EXIT_OK
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert len(rows) == 7
    assert rows[0]["commitLogOffset"] == place
    assert cli.run(["store", "dump", str(golden)]) == EXIT_OK
    assert len(capfdbinary.readouterr().out.splitlines()) == 570
    assert cli.run(["store", "dump", tail.path.removesuffix(".log") + ".json"]) == EXIT_NOT_FOUND


def test_dump_to_parquet(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    assert run(capsys, "dump", golden, "-o", "parquet", "--out", tmp_path / "m.parquet")[0] == EXIT_OK
    assert pq.read_metadata(tmp_path / "m.parquet").num_rows == 577
    assert run(capsys, "dump", golden, "-o", "parquet")[0] == EXIT_USAGE
    assert run(capsys, "dump", golden, "-o", "csv")[0] == EXIT_USAGE


def test_dump_reports_damage_on_stderr_and_by_exit_code(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "dump", damaged, "--out", tmp_path / "out")
    assert code == EXIT_FAILED
    assert "the body's CRC" in err
    assert len((tmp_path / "out").read_bytes().splitlines()) == 576


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (None, None, DumpSelection()),
        ("1000", "2000", DumpSelection(from_offset=1000, to_offset=2000)),
        ("999999999999", None, DumpSelection(from_offset=999_999_999_999)),
        ("1000000000000", None, DumpSelection(from_ms=1_000_000_000_000)),
        ("-1h", "now", DumpSelection(from_ms=6_400_000, to_ms=10_000_000)),
        (None, "5", DumpSelection(to_offset=5, to_ms=OFFSET_LAST)),
    ],
)
def test_offsets_and_times(begin: str | None, end: str | None, expected: DumpSelection) -> None:
    assert parse_selection((), begin, end, 10_000_000) == expected


@pytest.mark.parametrize(("begin", "end"), [("5", "5"), ("now", "-1h")])
def test_an_empty_range_is_a_usage_error(begin: str, end: str) -> None:
    with pytest.raises(UsageError, match="--from is not before --to"):
        parse_selection((), begin, end, 10_000_000)


def test_repair(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(damaged)
    code, out, _ = run(capsys, "repair", damaged, "--to", tmp_path / "new")
    assert code == EXIT_OK
    assert "messages kept  576\nmessages lost  1\n" in out
    assert snapshot(damaged) == before
    assert run(capsys, "verify", tmp_path / "new")[0] == EXIT_OK
    code, out, _ = run(capsys, "repair", damaged, "--to", tmp_path / "json", "-o", "json")
    shown = json.loads(out)
    assert (shown["messages_lost"], len(shown["lost_ranges"]), len(shown["lost_messages"])) == (1, 1, 1)
    code, _, err = run(capsys, "repair", damaged, "--to", tmp_path / "new")
    assert code == EXIT_USAGE
    assert "exists already" in err


def test_a_running_brokers_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = small_store(tmp_path / "s", 5)
    lock = RealFiles().lock(str(root / "lock"))
    for arguments in (["verify"], ["inspect"], ["dump"], ["repair", "--to", tmp_path / "new"]):
        code, out, err = run(capsys, arguments[0], root, *arguments[1:])
        assert (code, out) == (EXIT_FAILED, "")
        assert err.startswith(f"pymq: a broker holds {root}/lock: stop it first")
    code, out, err = run(capsys, "inspect", root, "--while-running")
    assert code == EXIT_OK
    assert "a broker runs here" in err
    lock.release()


def test_a_directory_without_a_store_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "verify", tmp_path)
    assert code == EXIT_NOT_FOUND
    assert "storePathCommitLog" in err


def test_the_log_elsewhere_by_option_and_by_configuration(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (golden / "commitlog").rename(tmp_path / "log")
    assert run(capsys, "verify", golden)[0] == EXIT_NOT_FOUND
    assert run(capsys, "verify", golden, "--commitlog", tmp_path / "log")[0] == EXIT_OK
    (tmp_path / "broker.conf").write_text(f"storePathCommitLog={tmp_path / 'log'}\n")
    assert run(capsys, "verify", golden, "-c", tmp_path / "broker.conf")[0] == EXIT_OK
    assert run(capsys, "verify", golden, "-c", tmp_path / "none.conf")[0] == EXIT_USAGE


@pytest.mark.timeout(60)
def test_what_is_no_file_is_named_and_nothing_waits_for_it(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(golden / "config" / "odd.json")
    (golden / "consumequeue" / "T\x1b[2J\nall is lost").mkdir()
    (golden / "commitlog" / "link").symlink_to("/etc/passwd")
    code, out, _ = run(capsys, "verify", golden)
    assert code == EXIT_FAILED
    assert out.replace("\n", "").isprintable()
    assert f"file: {golden}/config/odd.json: is a FIFO" in out and "commitlog/link: is a symbolic link" in out
    assert "T\\x1b[2J\\nall is lost: has a name with characters that can't be printed" in out
    code, out, _ = run(capsys, "verify", golden, "-o", "json")
    assert json.loads(out)["damage"]["file"] == 3
    for command in ("inspect", "dump"):
        assert run(capsys, command, golden)[0] == EXIT_OK
    assert run(capsys, "repair", golden, "--to", f"{golden}-copy")[0] == EXIT_OK
    assert run(capsys, "verify", f"{golden}-copy")[0] == EXIT_OK
