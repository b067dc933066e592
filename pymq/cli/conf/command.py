"""``pymq conf``: list the examples, and write one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing

app = new_app()

ABOUT = {
    "broker.conf": "all settings of a broker with their defaults",
    "namesrv.conf": "all settings of a name server with their defaults",
    "standalone.conf": "one machine: a name server and a broker",
    "2m-noslave": "two masters",
    "2m-2s-async": "two masters with a slave each, which sends don't wait for",
    "2m-2s-sync": "two masters with a slave each, which sends wait for",
    "2-shards-raft": "two Raft groups of three brokers",
    "acl": "users in a 4.x ACL file",
    "systemd": "services for systemd: name server, broker, workers, console",
    "Containerfile": "an image, built from a checkout",
    "compose.yaml": "containers: a name server, a master and its slave, a console",
    "prometheus": "alerts for Prometheus",
    "grafana": "a dashboard for Grafana",
    "ci": "GitHub Actions: tests of your own with a broker",
    "pipelines": "pipelines: an archive, and sessions of visitors",
    "spark": "settings for Spark on YARN and on Kubernetes",
}
COLUMNS = [Column("name", folds=False), Column("files", right=True), Column("about")]
FOLDER = "conf"


@app.command(
    epilog=examples(
        "pymq conf",
        "pymq conf broker.conf                     (writes conf/broker.conf)",
        "pymq conf systemd --to /tmp/units",
        "pymq conf grafana/pymq.json --print > pymq.json",
    )
)
def conf(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An example, or one file of it; without it, the list.")
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Where to write it; made if it is missing.")] = FOLDER,
    to_stdout: Annotated[bool, typer.Option("--print", help="Print one file instead of writing it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Write an example of settings, services, dashboards, alerts or pipelines, as a file to begin with.

    It replaces no file without --force.
    """
    from pymq.cli.common.shipped import example_files
    from pymq.errors import UsageError

    files = example_files()
    if name is None:
        records = [{"name": each, "files": len(_chosen(files, each)), "about": about} for each, about in ABOUT.items()]
        print_listing(records, COLUMNS, output)
        return
    chosen = _chosen(files, name)
    if to_stdout:
        if len(chosen) != 1:
            raise UsageError(f"{name} has {len(chosen)} files, --print is for one: {', '.join(chosen)}")
        sys.stdout.buffer.write(next(iter(chosen.values())).read_bytes())
        return
    written = _write(chosen, Path(to), force=force)
    if not print_data([{"file": str(path)} for path in written], output):
        for path in written:
            print_line(f"wrote {path}")


def _chosen(files: dict[str, Path], name: str) -> dict[str, Path]:
    """Return the files of an example. Raises NotFoundError with a near name."""
    from difflib import get_close_matches

    from pymq.errors import NotFoundError

    wanted = name.removeprefix(f"{FOLDER}/").rstrip("/")
    chosen = {place: path for place, path in files.items() if place == wanted or place.startswith(f"{wanted}/")}
    if chosen and wanted:
        return chosen
    near = get_close_matches(wanted, [*ABOUT, *files], n=1, cutoff=0.4)
    hint = f"is {near[0]} meant? " if near else ""
    raise NotFoundError(f"no example {name[:60]!r}: {hint}pymq conf lists all")


def _write(chosen: dict[str, Path], folder: Path, *, force: bool) -> list[Path]:
    """Write files below ``folder``; none if one of them is there. Raises UsageError."""
    from pymq.errors import UsageError

    targets = {folder / place: path for place, path in chosen.items()}
    there = [str(target) for target in targets if target.exists() or target.is_symlink()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already: give another --to, or --force to replace it")
    try:
        for target, path in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{error.filename} can't be written: {error.strerror}; give another place with --to"
        ) from error
    return list(targets)
