"""``pymq spark-compact``: merges small files of an export (:mod:`pymq.spark.lake.compaction`), without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from pymq.cli.declared import examples, new_app
from pymq.cli.output import print_json, print_line, print_note
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.units import format_count, parse_size_bytes

app = new_app()


@app.command(
    epilog=examples(
        "pymq spark-compact ./lake --dry-run                     (only shows how many files would become how many)",
        "pymq spark-compact ./lake --target-size 512MiB --json",
    )
)
def spark_compact(
    output: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of an export.")],
    target_size: Annotated[
        str, typer.Option("--target-size", metavar="SIZE", help="Size of merged files; smaller than half are merged.")
    ] = "128MiB",
    compression: Annotated[
        str, typer.Option("--compression", metavar="KIND", help="zstd, snappy, gzip, lz4 or none; zstd:1 with a level.")
    ] = "zstd",
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, help="Time before replaced files are removed, at the end."),
    ] = 10.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", "--plan", help="Only show what would be merged.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Merge the small Parquet files of an export. Readers see each row once at any moment; see docs/spark.md."""
    from pymq.spark.lake.compression import parse_compression

    parse_compression(compression)
    target_bytes = _parse_target(target_size)
    try:
        from pymq.spark.lake.commits import open_existing
        from pymq.spark.lake.compaction import CompactSettings, compact, directories_of, planned
        from pymq.spark.places.directories import local_directory
    except ModuleNotFoundError as error:
        raise UsageError(f"spark-compact needs {error.name}: {pip_install('spark')}") from error

    settings = CompactSettings(target_bytes, compression)
    root = local_directory("DIR", str(output)).absolute()
    with open_existing(root) as log:
        directories = directories_of(root)
        summary = planned(directories, settings) if dry_run else compact(log, directories, settings)
        if summary.directories and not dry_run:
            time.sleep(grace)
            log.remove_replaced(grace)
    if as_json:
        print_json(summary.to_dict())
        return
    for text in summary.skipped:
        print_note(f"pymq: warning: {text}")
    if not summary.directories:
        print_line(f"nothing to merge: no directory of {output} has two files of less than {target_bytes // 2} bytes")
        return
    verb = "would merge" if dry_run else "merged"
    after = "" if dry_run else f" are {summary.bytes_after:,} now"
    print_line(
        f"{verb} {format_count(summary.files_before, 'file')} of {summary.directories} directories into "
        f"{summary.files_after}: "
        f"{summary.rows} rows, {summary.bytes_before:,} bytes{after}"
    )


def _parse_target(text: str) -> int:
    try:
        size = parse_size_bytes(text)
    except ValueError as error:
        raise UsageError(f"target size: {error}") from error
    if size < 2:
        raise UsageError(f"target size is {size} bytes: write 2 or more, such as 128MiB")
    return size
