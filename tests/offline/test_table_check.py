"""Tables and the checkpoint."""

from __future__ import annotations

import struct
from pathlib import Path
from shutil import rmtree

from pymq.store.disk.fs import RealFiles
from pymq.store.disk.saved_tables import SavedTables
from tests.offline.support import check, only_finding, small_store, write_at


def test_a_table_that_is_not_json_is_named_with_its_backup(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    path = root / "config" / "topics.json"
    path.with_name("topics.json.bak").write_text(path.read_text())
    path.write_text('{"topicConfigTable":')
    finding = only_finding(root)
    assert (finding.kind, finding.path) == ("table", str(path))
    assert "its backup is good" in finding.text
    path.with_name("topics.json.bak").write_text("")
    assert "its backup is bad too" in check(root).findings[0].text
    path.with_name("topics.json.bak").unlink()
    assert "there is no backup" in check(root).findings[0].text


def test_empty_and_malformed_tables_are_damage(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    texts = {"consumerOffset.json": "", "delayOffset.json": "[]", "subscriptionGroup.json": "{}", "a.json": "1"}
    for name, text in texts.items():
        (root / "config" / name).write_text(text)
    assert {Path(finding.path).name: finding.text.partition(";")[0] for finding in check(root).findings} == {
        "consumerOffset.json": "is empty",
        "delayOffset.json": "is not a JSON object",
        "subscriptionGroup.json": "holds nothing",
        "a.json": "is not a JSON object",
    }


def test_a_saved_table_that_is_gone_is_damage(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    saved = SavedTables(RealFiles(), str(root))
    for name in ("topics.json", "consumerOffset.json"):
        saved.note(name)
    (root / "config" / "topics.json").unlink(missing_ok=True)
    (root / "config" / "consumerOffset.json").unlink(missing_ok=True)
    assert {Path(finding.path).name for finding in check(root).findings} == {"topics.json", "consumerOffset.json"}
    rmtree(root / "config")
    assert {finding.kind for finding in check(root).findings} == {"table"}


def test_rocketmqs_bare_number_keys_are_accepted(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"orders@g":{0:3,1:2}}}')
    assert check(root).sound


def test_a_bad_backup_is_a_note(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    (root / "config" / "topics.json.bak").write_text("{")
    report = check(root)
    assert report.sound
    assert any("topics.json.bak is not JSON" in note for note in report.notes)


def test_a_checkpoint_may_not_be_ahead_of_the_log(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    write_at(root / "checkpoint", 8, struct.pack(">q", 1 << 50))
    finding = only_finding(root)
    assert (finding.kind, finding.position) == ("checkpoint", 8)


def test_a_short_checkpoint_is_damage_and_a_missing_one_a_note(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    with (root / "checkpoint").open("r+b") as file:
        file.truncate(100)
    assert "100 bytes" in only_finding(root).text
    (root / "checkpoint").unlink()
    report = check(root)
    assert report.sound
    assert any("no checkpoint" in note for note in report.notes)
