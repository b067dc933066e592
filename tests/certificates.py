"""Certificates for tests, made once a process: of the cluster's authority, of a stranger's, and one that expired."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pymq.offline.certificates import Authority, PemFiles


class Certificates(NamedTuple):
    """Files of PEM."""

    made_at_ms: int
    ca_path: str
    server: PemFiles  # for 127.0.0.1 and localhost
    client: PemFiles
    stranger_ca_path: str
    stranger: PemFiles  # of the other authority
    expired: PemFiles


@cache
def certificates() -> Certificates:
    """Return the files, which stay until the process ends."""
    directory = tempfile.TemporaryDirectory(prefix="pymq-certificates-")
    _kept.append(directory)
    now = datetime.now(UTC)
    own = Authority(Path(directory.name) / "own", now)
    other = Authority(Path(directory.name) / "other", now)
    past = Authority(Path(directory.name) / "own", now - timedelta(days=3))
    hosts = ["127.0.0.1", "localhost"]
    return Certificates(
        int(now.timestamp() * 1000),
        str(own.files.cert_path),
        own.issue("server", hosts, days=30),
        own.issue("client", [], days=30),
        str(other.files.cert_path),
        other.issue("server", hosts, days=30),
        past.issue("expired", hosts, days=1),
    )


def mutual_tls_settings() -> dict[str, str]:
    """Return the settings of a server that shows its certificate and asks everyone for one."""
    files = certificates()
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(files.server.cert_path),
        "tls.server.keyPath": str(files.server.key_path),
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": files.ca_path,
        "tls.client.trustCertPath": files.ca_path,
        "tls.client.certPath": str(files.server.cert_path),
        "tls.client.keyPath": str(files.server.key_path),
    }


_kept: list[tempfile.TemporaryDirectory[str]] = []
