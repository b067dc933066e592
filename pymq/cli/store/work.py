"""The work of the store commands: opens a directory for reading, runs a tool on it, and prints the outcome."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import msgspec

from pymq.cli.common.message_text import shown_body, text_line
from pymq.cli.output import (
    Column,
    OutputFormat,
    RecordStream,
    print_data,
    print_fields,
    print_line,
    print_note,
    print_section,
    printable,
    progress,
    progress_in_mib,
)
from pymq.clock import SystemClock
from pymq.config.load import parse_properties
from pymq.errors import UsageError
from pymq.model.hosts import format_address
from pymq.model.record import StoredMessage
from pymq.offline import dump
from pymq.offline.accept_loss import AcceptedLoss, accept_loss
from pymq.offline.directory import Directory, open_directory
from pymq.offline.files import ReadOnlyFiles, check_is_store, held
from pymq.offline.find import by_id, by_offset
from pymq.offline.findings import Report
from pymq.offline.kept_log import open_kept_log
from pymq.offline.overview import overview
from pymq.offline.repair import RepairReport, repair
from pymq.offline.verify import verify
from pymq.operations.message.records import plain_record
from pymq.operations.start import OFFSET_MAX
from pymq.operations.times import local_time
from pymq.store.disk.fs import RealFiles
from pymq.store.lifecycle.thaw import plan_thaw, thaw
from pymq.units import format_bytes, format_count, parse_time_ms

_SHOWN_MAX = 20  # findings and lost ranges in text output; JSON has more


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A data directory with its options, and whether it may be read while a broker runs there."""

    directory: str
    commit_log: str | None = None
    config: str | None = None
    while_running: bool = False


@contextmanager
def _opened(place: StoreLocation) -> Iterator[Directory]:
    """Open the directory for reading only, and prevents brokers from starting there meanwhile."""
    root = absolute(place.directory)
    options = read_options(place.config)
    log_directory = absolute(place.commit_log or options.get("storePathCommitLog") or f"{root}/commitlog")
    check_is_store(root, log_directory)
    with held(root, while_running=place.while_running) as running:
        if running:
            print_note("a broker runs here: data in its memory is not seen, and data it writes now may look truncated")
        directory = open_directory(ReadOnlyFiles(), root, log_directory, options)
        try:
            yield directory
        finally:
            directory.close()


@contextmanager
def _opened_or_kept(place: StoreLocation) -> Iterator[Directory]:
    """Open the directory; for a file in its ``divergent/``, with the log kept there in place of its own."""
    path = Path(absolute(place.directory))
    if not path.is_file():
        with _opened(place) as directory:
            yield directory
        return
    with _opened(replace(place, directory=str(path.parent.parent))) as directory:
        log = open_kept_log(directory.files, str(path), directory.log.segment_size)
        try:
            yield replace(directory, log=log)
        finally:
            log.close()


def absolute(path: str) -> str:
    """Return the absolute path; ``~`` is expanded."""
    return str(Path(path).expanduser().absolute())


def read_options(path: str | None) -> dict[str, str]:
    """Return the keys of a configuration file, none without one. Raises UsageError."""
    if path is None:
        return {}
    try:
        return parse_properties(Path(path).expanduser().read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error


@contextmanager
def _log_progress(what: str, directory: Directory, readings: int = 1) -> Iterator[Callable[[int], None]]:
    """Show a bar over the MiB of the log; yields a function that takes the number of bytes done."""
    total = sum(segment.size for segment in directory.log.segments) * readings
    with progress_in_mib(what, total) as advance:
        yield advance


# -- verify -----------------------------------------------------------------------------------------------------------


def run_verify(place: StoreLocation, output: OutputFormat) -> bool:
    """Verify and print; return True if the directory is sound."""
    with _opened(place) as directory, _log_progress("verify", directory) as advance:
        report = verify(directory, advance)
    if not print_data(report.as_json(), output):
        _print_report(report)
    return report.sound


def _print_report(report: Report) -> None:
    seen = report.looked_at
    print_fields(
        {
            "directory": report.directory,
            "stopped": "cleanly" if report.clean else "uncleanly: a start will recover it",
            "log": f"{report.log_start} to {report.log_end}, {format_bytes(seen.get('log_bytes', 0))} of records",
            "records": seen.get("records", 0),
            "queue units": f"{seen.get('units', 0)} in {format_count(seen.get('queues', 0), 'queue')}",
            "digests": f"{seen.get('digests', 0)} blocks of 4 KiB",
            "index entries": f"{seen.get('index_entries', 0)} in {format_count(seen.get('index_files', 0), 'file')}",
            "tables": seen.get("tables", 0),
        }
    )
    _print_lines("notes", report.notes)
    first = report.first_bad
    if first is None:
        print_line("\nsound" if report.clean else "\nsound; the next start makes the changes listed in the notes")
        return
    where = printable(first.path) + (f" at {first.position}" if first.position is not None else "")
    offset = f" (commit log offset {first.physical_offset})" if first.physical_offset is not None else ""
    kinds = ", ".join(f"{count} in {kind}s" for kind, count in report.counts.items())
    print_line(f"\nDAMAGED: {kinds}\nfirst bad byte: {where}{offset}\n  {first.text}")
    _print_lines("findings", [_finding_line(one.kind, one.path, one.position, one.text) for one in report.findings])
    if report.lost_count:
        lines = [f"{one.topic} queue {one.queue_id} offset {one.queue_offset}" for one in report.lost]
        _print_lines(f"{format_count(report.lost_count, 'message')} can't be read", lines)
    print_line("\npymq store repair DIR --to NEWDIR writes a sound copy")


def _finding_line(kind: str, path: str, position: int | None, text: str) -> str:
    return f"{kind}: {path}{f' at {position}' if position is not None else ''}: {text}"


def _print_lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        print_line(f"\n{title}")
        for line in lines[:_SHOWN_MAX]:
            print_line(f"  {printable(line)}")
        if len(lines) > _SHOWN_MAX:
            print_line(f"  and {len(lines) - _SHOWN_MAX} more: -o json lists them")


# -- inspect ----------------------------------------------------------------------------------------------------------

_SEGMENT_COLUMNS = [
    Column("file", show=lambda path: path.rpartition("/")[2]),
    Column("used_bytes", "USED", right=True, show=format_bytes),
    Column("first_store_ms", "FIRST STORED", show=local_time),
    Column("last_store_ms", "LAST STORED", show=local_time),
    Column("state"),
]
_QUEUE_COLUMNS = [
    Column("topic"),
    Column("queue", right=True),
    Column("min_offset", "MIN", right=True),
    Column("max_offset", "MAX", right=True),
    Column("files", right=True),
    Column("last_store_ms", "LAST STORED", show=local_time),
]
_INDEX_COLUMNS = [
    Column("file", show=lambda path: path.rpartition("/")[2]),
    Column("entries", right=True),
    Column("entry_limit", "LIMIT", right=True),
    Column("slots", right=True),
    Column("first_store_ms", "FIRST STORED", show=local_time),
    Column("last_store_ms", "LAST STORED", show=local_time),
]


def run_inspect(place: StoreLocation, topic: str | None, output: OutputFormat) -> None:
    """Print an overview of the directory."""
    with _opened(place) as directory:
        found = overview(directory, topic)
    if print_data(found, output):
        return
    print_fields(
        {
            "directory": found["directory"],
            "stopped": "cleanly" if found["clean_stop"] else "uncleanly: a start will recover it",
            "last written by": found["last_written_by"],
            "log": f"{found['log_start']} to {found['log_end']}"
            + (", followed by a torn tail" if found["torn_tail"] else ""),
            "segment size": format_bytes(found["segment_size_bytes"]),
        }
    )
    print_section("segments", found["segments"], _SEGMENT_COLUMNS, "none")
    print_section("queues", found["queues"], _QUEUE_COLUMNS, "none")
    print_section("index files", found["index_files"], _INDEX_COLUMNS, "none")
    _print_checkpoint(found["checkpoint"])
    print_line("\ntables")
    print_fields({f"  {name}": "missing" if count is None else count for name, count in found["tables"].items()})
    _print_lines("odd files", found["odd_files"])


def _print_checkpoint(checkpoint: dict[str, Any]) -> None:
    print_line("\ncheckpoint: on the disk up to")
    fields = {
        "  log": local_time(checkpoint["log_store_ms"]),
        "  queues": local_time(checkpoint["queues_store_ms"]),
        "  index": local_time(checkpoint["index_store_ms"]),
    }
    if checkpoint["pymq"] is not None:
        for part in ("log", "queue", "index"):
            fields[f"  {part} offset"] = checkpoint["pymq"][f"{part}_offset"]
    print_fields(fields)


def run_show(place: StoreLocation, offset: int | None, message_id: str | None, output: OutputFormat) -> None:
    """Print one message with all its fields. Raises NotFoundError, CorruptRecordError."""
    with _opened(place) as directory:
        if offset is not None:
            message = by_offset(directory.log, offset)
        else:
            assert message_id is not None
            with _log_progress("search", directory) as advance:
                message = by_id(directory.log, message_id, advance)
    if not print_data(plain_record(message) | _store_fields(message), output):
        _print_message(message)


def _store_fields(message: StoredMessage) -> dict[str, Any]:
    return {
        "commit_log_offset": message.physical_offset,
        "store_size": message.size_bytes,
        "body_crc": message.body_crc,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "prepared_transaction_offset": message.prepared_transaction_offset,
    }


def _print_message(message: StoredMessage) -> None:
    print_fields(
        {
            "topic": printable(message.topic),
            "queue": message.queue_id,
            "offset": message.queue_offset,
            "commit log offset": message.physical_offset,
            "size": f"{message.size_bytes} bytes, body {len(message.body)}",
            "body CRC": f"{message.body_crc:08x}",
            "message id": printable(message.message_id),
            "offset message id": message.offset_message_id,
            "flag": message.flag,
            "sysFlag": f"{message.sys_flag:#x}",
            "born": f"{local_time(message.born_timestamp_ms)} at {format_address(*message.born_address)}",
            "stored": f"{local_time(message.store_timestamp_ms)} at {format_address(*message.store_address)}",
            "reconsumed": message.reconsume_times,
            "prepared offset": message.prepared_transaction_offset,
        }
    )
    if message.properties:
        print_line("properties")
        for name, value in sorted(message.properties.items()):
            print_line(f"  {printable(name)}={printable(value)}")
    print_line(f"body\n  {shown_body(message)}")


# -- dump -------------------------------------------------------------------------------------------------------------


def parse_selection(topics: Sequence[str], begin: str | None, end: str | None, now_ms: int) -> dump.DumpSelection:
    """Parse ``--from`` and ``--to``: plain numbers up to 999,999,999,999 are queue offsets, others points in time."""
    from_offset, from_ms = _offset_or_time(begin, now_ms) if begin else (0, 0)
    to_offset, to_ms = _offset_or_time(end, now_ms) if end else (None, None)
    selection = dump.DumpSelection(
        topics=frozenset(topics),
        from_offset=from_offset or 0,
        to_offset=dump.OFFSET_LAST if to_offset is None else to_offset,
        from_ms=from_ms or 0,
        to_ms=dump.OFFSET_LAST if to_ms is None else to_ms,
    )
    if selection.from_offset >= selection.to_offset or selection.from_ms >= selection.to_ms:
        raise UsageError("--from is not before --to: give a --from before --to")
    return selection


def _offset_or_time(text: str, now_ms: int) -> tuple[int | None, int | None]:
    if text.isdigit() and int(text) <= OFFSET_MAX:
        return int(text), None
    return None, parse_time_ms(text, now_ms)


def run_dump(
    place: StoreLocation,
    output: OutputFormat | None,
    target: str | None,
    selection: dump.DumpSelection,
    inflation_ratio_max: int,
) -> bool:
    """Write the messages, as Parquet with ``output`` None; return True if all of them could be read."""
    with _opened_or_kept(place) as directory, _log_progress("dump", directory) as advance:
        messages = dump.DumpedMessages(
            directory.log,
            selection,
            lambda text: print_note(f"pymq: {text}"),
            advance,
            inflation_ratio_max=inflation_ratio_max,
        )
        if target is None:
            _write_records(sys.stdout.buffer, output, messages)
        else:
            _write_file(absolute(target), output, messages)
            print_note(f"{format_count(messages.message_count, 'message')} in {target}")
    return not messages.damaged_count


def _write_file(target: str, output: OutputFormat | None, messages: dump.DumpedMessages) -> None:
    """Write a file under another name, and renames it once it is complete."""
    part = Path(target + ".part")
    try:
        if output is None:
            from pymq.offline.dump_parquet import write_parquet

            write_parquet(str(part), messages)
        else:
            with part.open("wb") as file:
                _write_records(file, output, messages)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_records(file: IO[bytes], output: OutputFormat | None, messages: dump.DumpedMessages) -> None:
    encode = msgspec.json.Encoder().encode

    def fields(dumped: tuple[StoredMessage, bytes | None]) -> dict[str, Any]:
        return dump.as_row(*dumped)

    def line(dumped: tuple[StoredMessage, bytes | None]) -> bytes:
        if output is OutputFormat.table:
            return text_line(dumped[0], lambda message: message.body if dumped[1] is None else dumped[1])
        return encode(fields(dumped)) + b"\n"

    stream = RecordStream(output, line, fields, dump.ROW_NAMES)
    for dumped in messages:
        file.write(stream(dumped))
    file.write(stream.end())
    file.flush()


# -- repair -----------------------------------------------------------------------------------------------------------


def run_repair(place: StoreLocation, target: str, output: OutputFormat) -> None:
    """Write the sound copy and print what is lost."""
    with _opened(place) as directory, _log_progress("repair", directory, readings=2) as advance:
        report = repair(directory, RealFiles(), absolute(target), SystemClock(), advance)
    if not print_data(report.as_json(), output):
        _print_repair(report)


def _print_repair(report: RepairReport) -> None:
    print_fields(
        {
            "directory": report.found.directory,
            "copy": report.target,
            "messages kept": report.message_count,
            "messages lost": report.lost_count,
        }
    )
    _print_lines(
        "single flipped bits, corrected by their digests",
        [f"{one['file']} at {one['position']}, bit {one['bit']}" for one in report.healed],
    )
    _print_lines(
        "damaged ranges of the log",
        [f"{one['file']} at {one['position']}: {one['bytes']} bytes: {one['reason']}" for one in report.ranges],
    )
    _print_lines(
        "lost messages",
        [
            f"{one['topic']} queue {one['queue_id']} offset{_span(one['from_offset'], one['to_offset'])}"
            for one in report.lost
        ],
    )
    _print_lines("notes", report.notes)


def _span(first: int, last: int) -> str:
    return f" {first}" if first == last else f"s {first} to {last}"


# -- thaw -------------------------------------------------------------------------------------------------------------


def run_thaw(place: StoreLocation, output: OutputFormat, *, is_dry: bool) -> None:
    """Decompress all compressed segments and print which; when it ``is_dry``, only print which it would."""
    root = absolute(place.directory)
    log_directory = absolute(place.commit_log or f"{root}/commitlog")
    check_is_store(root, log_directory)
    with progress("thaw (segments)") as bar:

        def advance(_: int, total: int) -> None:
            bar.set_total(total)
            bar.advance(1)

        files = RealFiles()
        report = plan_thaw(files, root, log_directory) if is_dry else thaw(files, root, log_directory, advance)
    record = {"directory": root, "segments": report.segments, "bytes": report.bytes, "applied": not is_dry}
    if print_data(record, output):
        return
    if report.segments:
        done = "would be" if is_dry else "are"
        print_line(f"{len(report.segments)} segments, {format_bytes(report.bytes)}, {done} decompressed")
        _print_lines("segments", report.segments)
    else:
        print_note("no segment is compressed")


# -- accept-loss ------------------------------------------------------------------------------------------------------


def run_accept_loss(place: StoreLocation, output: OutputFormat, *, is_confirmed: bool) -> bool:
    """Print what is missing, and give it up when that is confirmed; return True if nothing is missing then."""
    with _opened(place) as directory:
        report = accept_loss(directory, RealFiles(), os.urandom(8).hex(), is_confirmed=is_confirmed)
    if not print_data({**report.as_json(), "given_up": is_confirmed}, output):
        _print_accepted_loss(report, is_confirmed=is_confirmed)
    return is_confirmed or not (report.segments or report.tables)


def _print_accepted_loss(report: AcceptedLoss, *, is_confirmed: bool) -> None:
    if not report.segments and not report.tables:
        print_note("no segment and no table is missing")
        return
    print_fields(
        {
            "directory": report.directory,
            "messages lost": report.lost_count,
            "given up": "yes" if is_confirmed else "no: add --yes",
        }
    )
    _print_lines("missing tables", [f"{name}: without it {what}" for name, what in report.tables.items()])
    _print_lines("missing segments", [f"{start:020d}" for start in report.segments])
    _print_lines(
        "lost messages",
        [
            f"{one['topic']} queue {one['queue_id']} offset{_span(one['from_offset'], one['to_offset'])}"
            for one in report.lost
        ],
    )
