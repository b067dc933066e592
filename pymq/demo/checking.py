"""Checks that the export contains every sent message, with its body, exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pyarrow import parquet

from pymq.demo.sending import Sent, digest


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts of differences; all are zero when the export has every message exactly once."""

    exported: int
    missing: int
    repeated: int
    unknown: int
    changed: int

    @property
    def exact(self) -> bool:
        return not (self.missing or self.repeated or self.unknown or self.changed)


def compare(sent: Sent, directory: Path) -> Comparison:
    """Read all Parquet files below ``directory`` without Spark and compare them with ``sent``."""
    seen: Counter[str] = Counter()
    changed = 0
    for path in sorted(directory.rglob("*.parquet")):
        table = parquet.ParquetFile(path).read(columns=["keys", "body"])
        for key, body in zip(table["keys"].to_pylist(), table["body"].to_pylist(), strict=True):
            seen[key] += 1
            changed += key in sent and digest(body) != sent[key]
    return Comparison(
        exported=seen.total(),
        missing=len(sent.keys() - seen.keys()),
        repeated=sum(count - 1 for count in seen.values()),
        unknown=len(seen.keys() - sent.keys()),
        changed=changed,
    )
