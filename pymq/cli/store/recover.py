"""The work of ``pymq store recover``: recovers a directory from a running broker and prints the outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pymq.cli.common.options import split_addresses
from pymq.cli.output import OutputFormat, print_data, print_fields, print_line, print_note, progress_in_mib
from pymq.cli.store.broker_source import BrokerSource
from pymq.cli.store.work import StoreLocation, absolute, read_options
from pymq.errors import NotFoundError, UsageError
from pymq.offline.files import ReadOnlyFiles, held
from pymq.offline.recover import Recovery, RecoveryOutcome
from pymq.store.disk.fs import RealFiles
from pymq.units import format_bytes

_SHOWN_MAX = 20


def run_recover(place: StoreLocation, address: str, output: OutputFormat, *, verify_only: bool, force: bool) -> bool:
    """Compare or rebuild, and print; return True if the log then equals the source's and is sound."""
    if len(split_addresses(address)) != 1:
        raise UsageError(f"--from {address!r} names several brokers: give one HOST:PORT")
    root = absolute(place.directory)
    options = read_options(place.config)
    log_directory = absolute(place.commit_log or options.get("storePathCommitLog") or f"{root}/commitlog")
    started = time.monotonic()
    with BrokerSource(address) as source:
        if verify_only:
            if not Path(root).is_dir():
                raise NotFoundError(f"{root} is not a directory: there is nothing to compare")
            with held(root):
                outcome = Recovery(ReadOnlyFiles(), root, source, _stage, log_directory, options).compare()
        else:
            outcome = Recovery(RealFiles(), root, source, _stage, log_directory, options).run(force=force)
    duration_s = time.monotonic() - started
    if not print_data(outcome.as_json() | {"duration_s": round(duration_s, 3)}, output):
        _print(outcome, verify_only)
    return outcome.is_sound


@contextmanager
def _stage(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar in MiB; afterwards prints a line with the rate to stderr, unless there was nothing to do."""
    started = time.monotonic()
    done = 0
    with progress_in_mib(name, total) as show:

        def advance(size: int) -> None:
            nonlocal done
            done += size
            show(size)

        yield advance
    if done:
        duration_s = max(time.monotonic() - started, 1e-3)
        print_note(f"{name}: {format_bytes(done)} in {duration_s:.1f} s, {format_bytes(done / duration_s)}/s")


def _print(outcome: RecoveryOutcome, verify_only: bool) -> None:
    facts, counts = outcome.facts, outcome.counts
    fields = {
        "directory": outcome.directory,
        "source": f"{facts.address}, broker {facts.broker_name} of cluster {facts.cluster}",
        "log": f"{facts.log_start} to {facts.log_end}",
        "compared": f"{counts.total} chunks of {format_bytes(outcome.chunk_bytes)}: {counts.equal} equal, "
        f"{counts.differing} different, {counts.missing} missing, {counts.unknown} damaged in the source",
    }
    if not verify_only:
        fields |= {
            "fetched": format_bytes(outcome.fetched_bytes),
            "tables taken": ", ".join(outcome.tables),
            "rebuilt at the next start": ", ".join(outcome.dropped),
            "beyond the source's end": format_bytes(outcome.beyond_bytes),
        }
    print_fields(fields)
    for title, lines in (
        ("replaced files are kept in", _folders(outcome.replaced)),
        ("damaged in the source too", [f"{start} to {end}" for start, end in outcome.damaged]),
        ("remaining damage", [f"{count} in {kind}s" for kind, count in outcome.left_damage.items()]),
        ("notes", outcome.notes),
    ):
        _print_lines(title, lines)
    print_line(f"\n{_verdict(outcome, verify_only)}")


def _folders(paths: list[str]) -> list[str]:
    """Return the folders with their number of files: there is one file per chunk."""
    counts = Counter(path.rpartition("/")[0] for path in paths)
    return [f"{folder}, {count} {'file' if count == 1 else 'files'}" for folder, count in counts.items()]


def _print_lines(title: str, lines: list[str]) -> None:
    if lines:
        print_line(f"\n{title}")
        for line in lines[:_SHOWN_MAX]:
            print_line(f"  {line}")
        if len(lines) > _SHOWN_MAX:
            print_line(f"  and {len(lines) - _SHOWN_MAX} more: -o json lists them")


def _verdict(outcome: RecoveryOutcome, verify_only: bool) -> str:
    if verify_only:
        return "the log equals the source's" if outcome.is_sound else "the log differs: run this without --verify-only"
    if outcome.is_sound:
        return "the log equals the source's and is sound"
    return "NOT SOUND: recover from another broker too, or write a sound copy with pymq store repair DIR --to NEWDIR"
