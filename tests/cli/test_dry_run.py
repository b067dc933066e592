"""--dry-run shows what a command would do, and does nothing, also with --yes."""

from __future__ import annotations

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from tests.cli.conftest import Pymq


def test_a_topic_is_neither_made_nor_changed_nor_deleted(pymq: Pymq) -> None:
    made = pymq("topic", "create", "dry", "--wq", "3", "--dry-run", "-o", "json")
    assert made.json()[0]["write_queues"] == 3 and "nothing was changed" in made.err
    assert pymq("topic", "describe", "dry").code == EXIT_NOT_FOUND
    assert pymq("topic", "create", "dry", "--wq", "3").code == EXIT_OK
    assert pymq("topic", "create", "dry", "--dry-run").code == EXIT_REFUSED
    changed = pymq("topic", "update", "dry", "--perm", "R", "--wq", "5", "--dry-run", "-o", "json").json()[0]
    assert (changed["perm"], changed["write_queues"], changed["before"]) == ("R--", 5, "3/3 RW-")
    expanded = pymq("topic", "expand", "dry", "--to", "7", "--dry-run", "-o", "json").json()[0]
    assert (expanded["read_queues"], expanded["write_queues"], expanded["before"]) == (7, 7, "3/3")
    deleted = pymq("topic", "delete", "dry", "--yes", "--force", "--dry-run")
    assert deleted.out.startswith("dry: 0 messages on broker-a") and "nothing was deleted" in deleted.err
    [queues] = pymq("topic", "describe", "dry", "-o", "json").json()["brokers"]
    assert (queues["read_queues"], queues["write_queues"], queues["perm"]) == (3, 3, "RW-")


def test_offsets_and_dead_letters_stay(pymq: Pymq) -> None:
    pymq("send", "dry-offsets", "one")
    moved = pymq("offset", "reset", "dry-group", "--to", "end", "--topic", "dry-offsets", "--yes", "--dry-run")
    assert moved.code == EXIT_OK and "nothing was changed" in moved.err
    assert "dry-group" not in pymq("group", "list").out
    assert pymq("dlq", "purge", "dry-group", "--yes", "--dry-run").code in (EXIT_OK, EXIT_NOT_FOUND)


def test_a_recall_says_what_it_would_take_back(pymq: Pymq) -> None:
    sent = pymq("send", "dry-timer", "later", "--delay", "1h", "-o", "json").json()
    planned = pymq("message", "recall", "dry-timer", sent["recall_handle"], "--dry-run")
    assert planned.out.startswith(f"would recall {sent['message_id']}, due 2")
    assert pymq("message", "recall", "other", sent["recall_handle"], "--dry-run").code == EXIT_USAGE
    assert pymq("message", "recall", "dry-timer", "nonsense", "--dry-run").code == EXIT_USAGE
    assert pymq("message", "recall", "dry-timer", sent["recall_handle"]).code == EXIT_OK
