"""Checks of the machines that brokers run on: clock, disk, file descriptors."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.net.interpreter import DEBUG, PLAIN
from pymq.operations.doctor.finding import Finding, note, problem, unknown, warning
from pymq.operations.doctor.state import Broker, ClusterState
from pymq.units import format_duration_ms

SKEW_WARNING_MS = 1000
SKEW_PROBLEM_MS = 30_000
FILES_WARNING_SHARE = 0.75
FILES_LOW_COUNT = 4096
DISK_WARNING_SHARE = 0.9  # of the level at which a broker deletes, or refuses sends


def check_clocks(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        if broker.skew is None:
            yield unknown(broker.label, "its time is not known: it reports neither bootTimestamp nor runtime")
            continue
        ahead_ms = broker.skew.least_ms
        if abs(ahead_ms) < SKEW_WARNING_MS:
            continue
        side = "ahead of" if ahead_ms > 0 else "behind"
        level = problem if abs(ahead_ms) >= SKEW_PROBLEM_MS else warning
        yield level(
            broker.label,
            f"its clock is {format_duration_ms(abs(ahead_ms))} {side} this machine's",
            "let NTP set both clocks: delays, retention, offsets by time and traces follow the broker's",
            skew_ms=ahead_ms,
            warning_ms=SKEW_WARNING_MS,
            problem_ms=SKEW_PROBLEM_MS,
        )


def check_interpreters(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        version, _, build = broker.view.runtime.get("pymqPython", "").partition(", ")
        if build == DEBUG:
            yield warning(
                broker.label,
                f"it runs on a debug build of Python {version}, which takes several times the processor",
                "start it with an ordinary build",
                python=version,
            )
        elif build == PLAIN:
            yield note(
                broker.label,
                f"its Python {version} was built without link-time optimization, and takes 6 to 9 % more processor",
                "build it with --enable-optimizations --with-lto, or take the system's: see docs/performance.md",
                python=version,
            )


def check_disks(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        used = broker.figure("commitLogDiskRatio")
        if used is None or used < 0:
            yield unknown(broker.label, "how full its disk is is not known: it does not report commitLogDiskRatio")
            continue
        yield from _disk(broker, used * 100)


def _disk(broker: Broker, used_percent: float) -> Iterator[Finding]:
    free = broker.view.runtime.get("commitLogDirCapacity", "").rpartition("Free : ")[2].rstrip(".")
    refuse, delete = broker.setting("diskSpaceWarningLevelRatio"), broker.setting("diskMaxUsedSpaceRatio")
    where = f"{used_percent:.0f} % of its disk are in use{f', {free} are free' if free else ''}"
    values = {"used_percent": round(used_percent, 1), "refuse_percent": refuse, "delete_percent": delete}
    more = "add disk, or shorten fileReservedTime with pymq config set"
    if refuse and used_percent >= refuse:
        yield problem(broker.label, f"{where}, from {refuse:.0f} % on it refuses sends", more, **values)
    elif refuse and used_percent >= refuse * DISK_WARNING_SHARE:
        yield warning(broker.label, f"{where}, from {refuse:.0f} % on it refuses sends", more, **values)
    elif delete and used_percent >= delete:
        yield warning(
            broker.label, f"{where}, above {delete:.0f} % it deletes old segments before their time", more, **values
        )


def check_files(state: ClusterState) -> Iterator[Finding]:
    for broker in state.answering:
        used, most = broker.figure("pymqOpenFiles"), broker.figure("pymqOpenFilesMax")
        if used is None or most is None:
            yield unknown(broker.label, "its open files are not known: RocketMQ's brokers don't report them")
            continue
        values = {"open": int(used), "limit": int(most)}
        raise_it = "raise the limit: ulimit -n, LimitNOFILE in a systemd unit; then start the broker again"
        if used >= most * FILES_WARNING_SHARE:
            yield problem(broker.label, f"{used:.0f} of {most:.0f} file descriptors are in use", raise_it, **values)
        elif most < FILES_LOW_COUNT:
            yield warning(
                broker.label, f"it may open {most:.0f} files, fewer than {FILES_LOW_COUNT}", raise_it, **values
            )
