"""Check of versions: do all brokers run the same one?"""

from __future__ import annotations

from collections.abc import Iterator

from pymq import __version__
from pymq.operations.doctor.finding import Finding, note, unknown
from pymq.operations.doctor.state import Broker, ClusterState


def check_versions(state: ClusterState) -> Iterator[Finding]:
    versions: dict[str, list[str]] = {}
    for broker in state.answering:
        text = version_text(broker)
        if text is None:
            yield unknown(broker.label, "its version is not known")
        else:
            versions.setdefault(text, []).append(broker.label)
    if len(versions) > 1:
        found = "; ".join(f"{version}: {', '.join(labels)}" for version, labels in sorted(versions.items()))
        yield note(
            ", ".join(label for labels in versions.values() for label in labels),
            f"brokers run {len(versions)} versions: {found}",
            "upgrade the others when the first ones have proved themselves",
            versions=versions,
        )
    own = f"PyMQ {__version__}"
    others = sorted(version for version in versions if version.startswith("PyMQ ") and version != own)
    if others:
        yield note(
            own, f"this command is of another version than brokers ({', '.join(others)})", "use the same everywhere"
        )


def version_text(broker: Broker) -> str | None:
    """Return ``PyMQ 0.1.0`` or ``RocketMQ V5_3_3``, None when the broker doesn't say."""
    own = broker.view.runtime.get("pymqVersion")
    if own:
        return f"PyMQ {own}"
    return f"RocketMQ {broker.view.version}" if broker.view.version else None
