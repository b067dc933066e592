"""A certificate authority of one's own: makes PEM files for the servers and clients of a cluster.

Keys are of the curve P-256, which every client of RocketMQ takes, in PKCS#8, not encrypted, and readable by their owner
alone.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pymq.errors import UsageError
from pymq.file_modes import FILE_MODE
from pymq.offline.auth_files import make_private_directory

CA_NAME = "ca"
CERT_MODE = 0o644  # no secret
CA_DAYS = 3650
DAYS_MAX = 3650
NAME_LENGTH_MAX = 64  # of X.509's common name
CLOCK_SKEW = timedelta(minutes=5)  # certificates begin to be valid so long ago


class PemFiles(NamedTuple):
    """Where a certificate and its private key are."""

    cert_path: Path
    key_path: Path


class Authority:
    """The authority in one directory: ``ca.pem`` for everyone, ``ca.key`` for the one who makes certificates."""

    def __init__(self, directory: Path, now: datetime) -> None:
        """Read the authority of ``directory``, and make one if there is none.

        Raises UsageError for files that can't be read or written, or are of another kind.
        """
        self._directory = directory
        self._now = now
        self.files = PemFiles(directory / f"{CA_NAME}.pem", directory / f"{CA_NAME}.key")
        self.is_new = not self.files.cert_path.exists()
        try:
            if self.is_new:
                make_private_directory(directory)
                self._make()
            else:
                self._read()
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"{directory}: {CA_NAME}.pem or {CA_NAME}.key can't be read: {error}") from None

    def issue(self, name: str, hosts: Sequence[str], *, days: int, is_replaced: bool = False) -> PemFiles:
        """Make a certificate for servers and clients, in ``NAME.pem`` and ``NAME.key``, and return where it is.

        ``name`` is its subject (CN), ``hosts`` are host names and IP addresses that clients use for a server. Raises
        UsageError for a bad name, and for files that are there, unless ``is_replaced``.
        """
        if not 1 <= len(name) <= NAME_LENGTH_MAX or "/" in name or name in (CA_NAME, ".", ".."):
            raise UsageError(
                f"a certificate can't have the name {name[:80]!r}: use 1 to {NAME_LENGTH_MAX} characters without /, "
                f"not {CA_NAME}"
            )
        if not 1 <= days <= DAYS_MAX:
            raise UsageError(f"a certificate can't be valid for {days} days: use 1 to {DAYS_MAX}")
        files = PemFiles(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        for each in files:
            if each.exists() and not is_replaced:
                raise UsageError(f"{each} is there already: use another name, or --replace")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(_subject(name), days)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        self._write(files, certificate, key)
        return files

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._key = key
        self._name = _subject("PyMQ CA")
        usage = {"digital_signature": True, "key_cert_sign": True, "crl_sign": True}
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        certificate = (
            self._builder(self._name, CA_DAYS)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(**usage, **dict.fromkeys(others, False), encipher_only=False, decipher_only=False),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self._write(self.files, certificate, key)

    def _read(self) -> None:
        certificate = x509.load_pem_x509_certificate(self.files.cert_path.read_bytes())
        key = load_pem_private_key(self.files.key_path.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the key does not belong to the certificate")
        self._key = key
        self._name = certificate.subject

    def _builder(self, subject: x509.Name, days: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - CLOCK_SKEW)
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _write(self, files: PemFiles, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        try:
            _replace(files.key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), FILE_MODE)
            _replace(files.cert_path, certificate.public_bytes(Encoding.PEM), CERT_MODE)
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from None


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    try:
        return x509.DNSName(text)
    except ValueError:
        raise UsageError(f"--host {text[:80]!r} is neither an IP address nor a host name in ASCII") from None


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Write a file that has its mode from the beginning, in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        temporary.unlink()
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    temporary.replace(path)
