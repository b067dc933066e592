"""TLS contexts: what their files must be, and how changed files are read again."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.errors import ConfigError
from pymq.net.tls import LOOK_PERIOD_MS, Identity, WatchedContext, client_context, server_context
from pymq.offline.certificates import PemFiles
from tests.certificates import certificates

DAY_MS = int(timedelta(days=1).total_seconds() * 1000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(certificates().made_at_ms)


def of(files: PemFiles, password: str = "") -> Identity:
    return Identity(str(files.cert_path), str(files.key_path), password)


def copied(files: PemFiles, directory: Path) -> PemFiles:
    return PemFiles(Path(shutil.copy2(files.cert_path, directory)), Path(shutil.copy2(files.key_path, directory)))


def test_an_expired_certificate_is_refused(clock: ManualClock) -> None:
    with pytest.raises(ConfigError, match=r"expired\.pem: CN=expired expired on 20\d\d-"):
        server_context(of(certificates().expired), clock)


def test_a_certificate_of_the_future_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"is not valid before .* clock right"):
        server_context(of(certificates().server), ManualClock(certificates().made_at_ms - 10 * DAY_MS))


def test_a_key_of_another_certificate_is_refused(clock: ManualClock) -> None:
    files = certificates()
    mixed = PemFiles(files.server.cert_path, files.client.key_path)
    with pytest.raises(ConfigError, match=r"client\.key: it does not belong to the certificate in .*server\.pem"):
        server_context(of(mixed), clock)


def test_a_key_that_everyone_can_read_is_refused(clock: ManualClock, tmp_path: Path) -> None:
    files = copied(certificates().server, tmp_path)
    files.key_path.chmod(0o644)
    with pytest.raises(ConfigError, match=r"every user of this machine can read it: chmod 600 .*server\.key"):
        server_context(of(files), clock)
    files.key_path.chmod(0o640)
    server_context(of(files), clock)


def test_an_encrypted_key_needs_its_password(clock: ManualClock, tmp_path: Path) -> None:
    plain = copied(certificates().server, tmp_path)
    key = tmp_path / "encrypted.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(plain.key_path), "-out", str(key), "-passout", "pass:secret"]
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    files = PemFiles(plain.cert_path, key)
    server_context(of(files, "secret"), clock)
    for password, text in (("", "needs a password"), ("wrong", "can't be read with this password")):
        with pytest.raises(ConfigError, match=text) as caught:
            server_context(of(files, password), clock)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "No such file"), (b"", "certificate"), (b"rubbish", "certificate"), (b"x" * (1024 * 1024 + 1), "limit is")],
)
def test_a_file_that_is_no_certificate_is_refused(
    clock: ManualClock, tmp_path: Path, content: bytes | None, text: str
) -> None:
    path = tmp_path / "bad.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=text) as caught:
        server_context(of(PemFiles(path, certificates().server.key_path)), clock)
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigError, match=r"bad\.pem"):
        client_context(clock, trust_path=str(path))


def test_a_context_follows_its_files(clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = copied(certificates().server, tmp_path)
    watched = server_context(of(files), clock)
    first = watched.current()

    clock.advance(LOOK_PERIOD_MS)
    assert watched.current() is first
    _replace(files, certificates().client)
    assert watched.current() is first  # it looked a moment ago
    clock.advance(LOOK_PERIOD_MS)
    second = watched.current()
    assert second is not first

    _replace(files, certificates().expired)
    clock.advance(LOOK_PERIOD_MS)
    assert watched.current() is second
    assert "expired" in caplog.text
    caplog.clear()
    clock.advance(LOOK_PERIOD_MS)
    assert watched.current() is second
    assert not caplog.text  # once is enough

    files.cert_path.unlink()
    clock.advance(LOOK_PERIOD_MS)
    assert watched.current() is second
    _replace(files, certificates().server)
    clock.advance(LOOK_PERIOD_MS)
    assert watched.current() is not second


def test_the_host_name_counts_only_with_the_systems_authorities(clock: ManualClock) -> None:
    own = client_context(clock, trust_path=certificates().ca_path).current()
    public = client_context(clock).current()
    unchecked = client_context(clock, is_checked=False).current()
    assert (own.check_hostname, own.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert (public.check_hostname, public.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (unchecked.check_hostname, unchecked.verify_mode) == (False, ssl.CERT_NONE)
    for context in (own, public, unchecked):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_server_takes_tls_1_2_and_later(clock: ManualClock) -> None:
    context = server_context(of(certificates().server), clock).current()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE  # it asks clients for nothing unless it is told so


def _replace(files: PemFiles, by: PemFiles) -> None:
    """Puts other contents in place with a new time stamp, as a tool that renews certificates does."""
    for path, new in zip(files, by, strict=True):
        temporary = path.with_suffix(".new")
        shutil.copy2(new, temporary)
        os.utime(temporary)
        temporary.replace(path)


def test_a_watched_context_without_files_never_looks(clock: ManualClock) -> None:
    made = []
    watched = WatchedContext(lambda now_ms: made.append(now_ms) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), (), clock)
    clock.advance(10 * LOOK_PERIOD_MS)
    watched.current()
    assert made == [clock.now_ms() - 10 * LOOK_PERIOD_MS]
