"""Asks an advisory service which versions of the lock file have known vulnerabilities, for ``scripts/audit-packages``.

The service speaks OSV's protocol: one question with all versions, then one for each advisory that is named.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from tests.packaging.lock import LOCK, Entry, entries

SERVICE: Final = "https://api.osv.dev"
TIMEOUT_S: Final = 20.0
BATCH_MAX: Final = 1000  # questions that the service takes at once
ANSWER_MAX_BYTES: Final = 64 << 20
ADVISORY_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Ask = Callable[[str, Any], Any]  # (path, JSON to send or None) -> JSON


class UnreachableError(Exception):
    """The service can't be asked: no network, a refusal, or an answer that is not its own."""


def asker(service: str) -> Ask:
    """Return a function that asks the service at this address. It raises UnreachableError."""

    def ask(path: str, sent: Any) -> Any:
        data = None if sent is None else json.dumps(sent).encode()
        request = urllib.request.Request(service + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read(ANSWER_MAX_BYTES))
        except (OSError, HTTPException, ValueError) as error:
            raise UnreachableError(f"{service}{path}: {error}") from error

    return ask


def found_in(ask: Ask, locked: Sequence[Entry]) -> Iterator[tuple[Entry, str]]:
    """Yield each version with the id of each advisory that names it."""
    for begin in range(0, len(locked), BATCH_MAX):
        batch = locked[begin : begin + BATCH_MAX]
        queries = [{"package": {"name": entry.name, "ecosystem": "PyPI"}, "version": entry.version} for entry in batch]
        answer = ask("/v1/querybatch", {"queries": queries})
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list) or len(results) != len(batch):
            raise UnreachableError(f"the answer is not one for {len(batch)} versions")
        for entry, result in zip(batch, results, strict=True):
            for vulnerability in (result or {}).get("vulns", []):
                yield entry, str(vulnerability["id"])


def summary(ask: Ask, advisory: str) -> str | None:
    """Return an advisory's text in one line; None when it was withdrawn."""
    if not ADVISORY_ID.fullmatch(advisory):
        return "its id can't be asked for"
    told = ask(f"/v1/vulns/{advisory}", None)
    if told.get("withdrawn"):
        return None
    fixed = {
        event["fixed"]
        for affected in told.get("affected", [])
        for span in affected.get("ranges", [])
        if span.get("type") == "ECOSYSTEM"
        for event in span.get("events", [])
        if "fixed" in event
    }
    text = " ".join(str(told.get("summary") or told.get("details") or "").split())[:200]
    return f"{text or 'no summary'} (fixed in: {', '.join(sorted(fixed)) or 'no version'})"


def audit(ask: Ask, locked: Sequence[Entry], accepted: frozenset[str]) -> list[str]:
    """Return a line for each version with an advisory that is not accepted."""
    return [
        f"{entry.name} {entry.version}: {advisory}: {text}"
        for entry, advisory in found_in(ask, locked)
        if advisory not in accepted and (text := summary(ask, advisory)) is not None
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 without advisories and when the service can't be asked, which is said; else 1."""
    parser = argparse.ArgumentParser(prog="scripts/audit-packages", description=__doc__)
    parser.add_argument("--service", default=SERVICE, help="address of a service that speaks OSV's protocol")
    parser.add_argument("--lock", type=Path, default=LOCK, help="the lock file to look at")
    parser.add_argument("--accept", action="append", default=[], metavar="ID", help="an advisory that is known")
    options = parser.parse_args(arguments)
    if not options.service.startswith(("https://", "http://")):
        parser.error(f"{options.service} is not an address that begins with https:// or http://")
    locked = entries(options.lock.read_text(encoding="utf-8"))
    try:
        found = audit(asker(options.service), locked, frozenset(options.accept))
    except UnreachableError as error:
        print(f"*** SKIPPED: {len(locked)} locked versions were NOT compared with advisories: {error}")
        return 0
    for line in found:
        print(line)
    print(f"{len(locked)} locked versions, {len(found)} advisories that are not accepted")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
