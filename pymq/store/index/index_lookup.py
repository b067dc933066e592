"""Looks keys up in index files, and compares what they say with the records."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pymq.errors import CorruptRecordError, NotFoundError, SearchLimitError, StoreError, UnreadableError
from pymq.model.javahash import index_key_hash
from pymq.model.properties import find_property
from pymq.store.index.entry_proof import Prover
from pymq.store.index.index_doubts import key_hashes, leads_into_record
from pymq.store.index.index_file import WALK_COUNT_MAX, DamagedEntryError, IndexFile, Walk
from pymq.store.integrity.checked_read import read_record, record_store_ms
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, parse_record


def find_records_in_steps(
    files: Sequence[IndexFile],
    log: CommitLog,
    asked: tuple[str, str, int, int, int],
    prover: Prover,
    proof_bytes: int,
) -> Generator[None, None, list[memoryview]]:
    """Return the topic's records with the key, newest first. The record itself proves topic and key.

    ``asked``: topic, key, how many records at most, and the range of store times in ms. Each file is proven before its
    first look-up, which reads at most ``proof_bytes``.

    Yields now and then in a long chain of entries. Raises as :meth:`IndexService.find`, and DamagedEntryError for an
    index file that can't be what was written.
    """
    topic, key, count_max, begin_ms, end_ms = asked
    key_hash = index_key_hash(topic, key)
    wanted = key.encode()
    found: list[memoryview] = []
    seen: set[int] = set()
    damage: StoreError | None = None
    walk = Walk(WALK_COUNT_MAX, lambda offset: record_store_ms(log, offset))
    for file in reversed(files):
        if not file.is_proven and file.may_have(begin_ms, end_ms):
            proof_bytes = yield from prover.prove_in_steps(file, proof_bytes)
        # Other keys may share the hash, so more entries are looked up than records are wanted.
        for offset in (yield from file.find_in_steps(key_hash, begin_ms, end_ms, count_max * 4 + 64, walk)):
            if offset in seen:
                continue
            seen.add(offset)
            try:
                raw = read_record(log, offset)
            except NotFoundError:
                continue
            except (CorruptRecordError, UnreadableError) as error:
                if leads_into_record(file, log, offset):
                    raise DamagedEntryError(file, f"an entry leads to {offset}, into a record") from error
                damage = error
                continue
            record = parse_record(raw, 0, offset, False)
            if record is None:
                continue
            if not _has_key(record, topic, wanted):
                if key_hash not in key_hashes(record):
                    raise DamagedEntryError(file, f"an entry leads to a record at {offset} that has no such key")
            elif begin_ms <= record.store_ms <= end_ms:
                found.append(raw)
                if len(found) >= count_max:
                    return found
        if file.begin_ms < begin_ms or not walk.left:
            break
    if not walk.left and not found:
        raise SearchLimitError(
            f"more than {WALK_COUNT_MAX} keys share the place of key {key[:100]!r} in the index, and the newest of "
            "them are others: ask for the message by its id, or read the topic"
        )
    if damage is not None and not found:
        raise damage
    return found


def _has_key(record: Scanned, topic: str, key: bytes) -> bool:
    if record.topic != topic:
        return False
    if find_property(record.properties, b"UNIQ_KEY") == key:
        return True
    words = find_property(record.properties, b"KEYS")
    return words is not None and key in words.split(b" ")
