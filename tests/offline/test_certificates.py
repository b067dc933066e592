"""``pymq.offline.certificates``: what the files are good for, and what is refused."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pymq.errors import UsageError
from pymq.offline.certificates import DAYS_MAX, NAME_LENGTH_MAX, Authority

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_keys_are_the_owners_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "new" / "directory", NOW)
    files = authority.issue("broker-a", ["10.0.0.5", "broker-a.example.org"], days=30)
    assert authority.is_new
    for each in (authority.files, files):
        assert stat.S_IMODE(each.key_path.stat().st_mode) == 0o600
        assert stat.S_IMODE(each.cert_path.stat().st_mode) == 0o644
    assert sorted(path.name for path in (tmp_path / "new" / "directory").iterdir()) == [
        "broker-a.key",
        "broker-a.pem",
        "ca.key",
        "ca.pem",
    ]


def test_a_certificate_names_its_subject_hosts_and_times(tmp_path: Path) -> None:
    files = Authority(tmp_path, NOW).issue("broker-a", ["10.0.0.5", "::1", "broker-a.example.org"], days=30)
    certificate = x509.load_pem_x509_certificate(files.cert_path.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=broker-a"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.5", "::1"]
    assert names.get_values_for_type(x509.DNSName) == ["broker-a.example.org"]
    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc == NOW + timedelta(days=30)


def test_the_authority_of_a_directory_stays(tmp_path: Path) -> None:
    first = Authority(tmp_path, NOW)
    before = first.files.cert_path.read_bytes()
    again = Authority(tmp_path, NOW + timedelta(days=100))
    assert not again.is_new
    files = again.issue("late", [], days=1)
    assert first.files.cert_path.read_bytes() == before
    authority = x509.load_pem_x509_certificate(before)
    x509.load_pem_x509_certificate(files.cert_path.read_bytes()).verify_directly_issued_by(authority)


def test_files_are_replaced_only_when_asked(tmp_path: Path) -> None:
    authority = Authority(tmp_path, NOW)
    before = authority.issue("broker-a", [], days=30).cert_path.read_bytes()
    with pytest.raises(UsageError, match=r"broker-a\.pem is there already.*--replace"):
        authority.issue("broker-a", [], days=30)
    assert authority.issue("broker-a", [], days=30, is_replaced=True).cert_path.read_bytes() != before


@pytest.mark.parametrize("name", ["", "a/b", "..", "ca", "x" * (NAME_LENGTH_MAX + 1)])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="can't have the name"):
        Authority(tmp_path, NOW).issue(name, [], days=1)


def test_limits_of_name_and_days(tmp_path: Path) -> None:
    authority = Authority(tmp_path, NOW)
    authority.issue("x" * NAME_LENGTH_MAX, [], days=DAYS_MAX)
    for days in (0, DAYS_MAX + 1):
        with pytest.raises(UsageError, match=f"{days} days: use 1 to {DAYS_MAX}"):
            authority.issue("y", [], days=days)


def test_a_host_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--host 'bröker' is neither"):
        Authority(tmp_path, NOW).issue("a", ["bröker"], days=1)


@pytest.mark.parametrize("damaged", ["ca.pem", "ca.key"])
def test_a_damaged_authority_is_not_replaced(tmp_path: Path, damaged: str) -> None:
    Authority(tmp_path, NOW)
    (tmp_path / damaged).write_text("rubbish")
    with pytest.raises(UsageError, match="can't be read"):
        Authority(tmp_path, NOW)
    assert (tmp_path / damaged).read_text() == "rubbish"


def test_keys_of_two_authorities_are_not_mixed(tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", NOW)
    own = Authority(tmp_path / "own", NOW)
    own.files.key_path.write_bytes(other.files.key_path.read_bytes())
    with pytest.raises(UsageError, match="does not belong"):
        Authority(tmp_path / "own", NOW)
