"""Values of the metrics settings, the same for every role."""

from __future__ import annotations

PROM = "PROM"  # metricsExporterType
_PAIR = r"[a-zA-Z_][a-zA-Z0-9_]*:[^:,\s][^:,]*"
METRICS_LABEL = (rf"(?:{_PAIR}(?:,{_PAIR})*)?", "key:value pairs separated by commas, for example zone:a,rack:7")

HOST_LIST = (r"(?:\s*[^\s,/:]+\s*(?:,\s*[^\s,/:]+\s*)*)?", "host names without ports, separated by commas")


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the names in a list of hosts."""
    return tuple(host.strip() for host in text.split(",") if host.strip())


def parse_labels(text: str) -> dict[str, str]:
    """Return the values of ``"zone:a,rack:7"`` by key. ``text`` must match :data:`METRICS_LABEL`."""
    pairs = (pair.partition(":") for pair in text.split(",") if pair)
    return {key: value.strip() for key, _, value in pairs}
