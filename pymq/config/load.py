"""Builds a configuration from defaults, a properties file, the environment and flags, in this order; the last wins.

NAMESRV_ADDR alone comes before the file, as with RocketMQ.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pymq.config.base import ORIGIN_DEFAULT, ORIGIN_ENV, ORIGIN_FILE, ORIGIN_FLAG, Config, add_derived
from pymq.config.broker import BrokerConfig
from pymq.config.environment import misspelled_in, settings_in, variable_of
from pymq.config.metrics import PROM
from pymq.config.namesrv import NamesrvConfig
from pymq.config.replication import replication_warnings
from pymq.config.security import (
    check_exposure,
    check_where_secrets_are,
    is_secured,
    metrics_exposure,
    missing_half,
    whitelist_warnings,
)
from pymq.config.tls import CONFIG_FILE, ENFORCING, KEY_PREFIX, REQUIRE, TlsConfig, check_tls
from pymq.config.values import SLAVE
from pymq.errors import ConfigError, UsageError

FILE_SIZE_BYTES_MAX = 1024 * 1024
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}\Z")
_ADDRESS_SERVER = re.compile(r"https?://[^\s/:]+(:[0-9]{1,5})?/[!-~]+\Z")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_broker_config(
    path: str | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Return a broker's configuration from ``path`` (``broker.conf``) and ``overrides`` (flags and ``--set``, by key).

    ``env`` is the process environment: NAMESRV_ADDR and each key's own variable; ``defaults`` replace those of the
    keys they name. Raises ConfigError for an unreadable file, a bad value, or an unknown key in ``overrides``.
    """
    config = BrokerConfig()
    if env and env.get("NAMESRV_ADDR"):
        config.set("namesrvAddr", env["NAMESRV_ADDR"], ORIGIN_ENV)
    for name, text in (defaults or {}).items():
        config.set(name, text, ORIGIN_DEFAULT)
    _fill(config, path, overrides, env)
    check_where_secrets_are(config, path)
    _check_broker(config)
    add_derived(config, "storePathRootDir", str(Path.home() / ".pymq" / f"{config.broker_name}-{config.broker_id}"))
    _advertise(config)
    _check_exposure(config, config.broker_ip1)
    return config


def load_namesrv_config(
    path: str | None = None,
    overrides: Mapping[str, str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> NamesrvConfig:
    """Return a name server's configuration; parameters and errors as for :func:`load_broker_config`."""
    config = NamesrvConfig()
    _fill(config, path, overrides, env)
    check_where_secrets_are(config, path)
    config.check()
    check_tls(config)
    _check_exposure(config, config.bind_address)
    return config


def _check_exposure(config: BrokerConfig | NamesrvConfig, metrics_host: str) -> None:
    """``metrics_host``: where metrics are served unless metricsPromExporterHost is set."""
    is_encrypted = config.tls_server_mode == ENFORCING
    proves_clients = config.tls_server_need_client_auth == REQUIRE
    config.warnings += check_exposure(
        "bindAddress",
        config.bind_address,
        is_secured=is_secured(config),
        is_encrypted=is_encrypted,
        proves_clients=proves_clients,
        is_insecure=config.insecure,
        missing=missing_half(config),
    )
    if config.metrics_exporter_type == PROM:
        config.warnings += metrics_exposure(
            config.metrics_prom_exporter_host or metrics_host,
            has_token=bool(config.metrics_token_file),
            is_encrypted=is_encrypted,
            is_secured=is_secured(config),
            proves_clients=proves_clients,
            is_insecure=config.insecure,
        )
    config.warnings += whitelist_warnings(config)


def load_tls_config(env: Mapping[str, str]) -> TlsConfig:
    """Return the TLS keys of a program without a configuration file. Raises ConfigError."""
    config = TlsConfig()
    _fill(config, None, None, env)
    check_tls(config)
    return config


def parse_properties(text: str) -> dict[str, str]:
    """Parse Java properties text into stripped keys and values; the last duplicate wins.

    ``#`` and ``!`` start comments; ``=``, ``:`` or a blank ends a key; a backslash at a line's end joins the next line.
    Unicode escapes stay as they are: no key of RocketMQ needs one.
    """
    result: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^=:\s\\])+)\s*[=:]?\s*(.*)\Z", line, re.DOTALL)
        if match:
            result[_unescape(match.group(1))] = _unescape(match.group(2)).strip()
    return result


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    joined = ""
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip()
        if not joined and line[:1] in ("#", "!", ""):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        lines.append(joined + line)
        joined = ""
    if joined:
        lines.append(joined)
    return lines


def _unescape(text: str) -> str:
    return re.sub(r"\\([^u])", lambda match: _ESCAPES.get(match.group(1), match.group(1)), text)


def _fill(config: Config, path: str | None, overrides: Mapping[str, str] | None, env: Mapping[str, str] | None) -> None:
    values: dict[str, str] = {}
    if path is not None:
        with _naming(path):
            values = parse_properties(read_file(path))
            config.accept(values, ORIGIN_FILE)
    tls_path = (
        (overrides or {}).get(CONFIG_FILE) or (env or {}).get(variable_of(CONFIG_FILE)) or values.get(CONFIG_FILE)
    )
    if tls_path:
        with _naming(tls_path):
            config.accept(_tls_values(tls_path), ORIGIN_FILE)
    if env:
        with _naming("an environment variable"):
            config.accept(settings_in(env, config.settings()), ORIGIN_ENV)
        config.warnings += misspelled_in(env, config.settings())
    for name, text in (overrides or {}).items():
        if name in config.IGNORED:
            config.accept({name: text}, ORIGIN_FLAG)
        else:
            config.set(name, text, ORIGIN_FLAG)


def _tls_values(path: str) -> dict[str, str]:
    """Return the TLS keys of a file of RocketMQ's ``tls.config.file``."""
    return {key: text for key, text in parse_properties(read_file(path)).items() if key.startswith(KEY_PREFIX)}


@contextmanager
def _naming(source: str) -> Iterator[None]:
    """Add to a ConfigError where the values come from."""
    try:
        yield
    except ConfigError as error:
        raise error if source in str(error) else ConfigError(f"{source}: {error}") from None


def read_file(path: str) -> str:
    """Return a configuration file's text. Raises ConfigError for one that can't be read or is too large."""
    try:
        file = Path(path)
        if file.stat().st_size > FILE_SIZE_BYTES_MAX:
            raise ConfigError(f"{path} has over {FILE_SIZE_BYTES_MAX} bytes: is it a configuration file?")
        return file.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except OSError as error:
        raise ConfigError(f"can't read the configuration file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error


def _check_broker(config: BrokerConfig) -> None:
    for key in ("brokerName", "brokerClusterName"):
        # Both become topic names, and the broker's name also a directory.
        if not _NAME.match(str(config.get(key))):
            raise ConfigError(f"{key}={config.get(key)!r}: use 1 to 127 characters of %|a-zA-Z0-9_-")
    if config.broker_role == SLAVE and config.broker_id == 0:
        raise ConfigError("brokerRole=SLAVE needs a brokerId above 0: set brokerId=1")
    if config.is_slave:
        config.broker_role = SLAVE
    if config.unknown.get("enableControllerMode", "").lower() == "true":
        raise ConfigError(
            "enableControllerMode=true leaves the choice of the master to a controller, which PyMQ has not, so each "
            "broker would start as a master: use a Raft group (enableDLegerCommitLog=true), or set brokerId and "
            "brokerRole, and enableControllerMode=false"
        )
    config.check()
    check_tls(config)
    config.warnings += replication_warnings(config)
    try:
        levels = config.delay_level_ms
    except UsageError as error:
        raise ConfigError(f"messageDelayLevel: {error}") from error
    if not 1 <= len(levels) <= 64:
        raise ConfigError(f"messageDelayLevel has {len(levels)} levels: write 1 to 64 levels")
    if config.fetch_from_address_server and not config.address_server_domain:
        raise ConfigError("fetchNamesrvAddrByAddressServer=true needs the address server: set rmqAddressServerDomain")
    for address in config.namesrv_places:
        if _ADDRESS_SERVER.match(address):
            continue
        host, separator, port = address.rpartition(":")
        if not separator or not host or "/" in host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(
                f"namesrvAddr: {address!r} is not an address: write host:port, several separated by ;, or "
                "http://HOST:PORT/rocketmq/nsaddr"
            )


def _advertise(config: BrokerConfig) -> None:
    """Determine the address that the broker gives to clients, which is also part of every message id."""
    config.bind_address = _as_ip("bindAddress", config.bind_address)
    bind = ipaddress.ip_address(config.bind_address)
    if not config.broker_ip1:
        if bind.is_unspecified:
            raise ConfigError(
                f"bindAddress={config.bind_address} listens on all addresses, but clients need one: set brokerIP1"
            )
        config.broker_ip1 = config.bind_address
        return
    config.broker_ip1 = _as_ip("brokerIP1", config.broker_ip1)
    advertised = ipaddress.ip_address(config.broker_ip1)
    if advertised.is_unspecified:
        raise ConfigError(f"brokerIP1={advertised} is no address that clients can connect to: set this machine's")
    if bind.is_loopback and not advertised.is_loopback:
        where = "the default" if config.origin("bindAddress") == ORIGIN_DEFAULT else "set"
        config.warnings.append(
            f"brokerIP1 is {advertised} but bindAddress is {bind} ({where}): only this machine reaches the broker; "
            f"set bindAddress={advertised} to serve others"
        )


def _as_ip(key: str, host: str) -> str:
    """Return an IP address as it is, and the address of a name, IPv4 first. Raises ConfigError.

    Message ids hold an address, so a name is looked up once, at the start.
    """
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{key}={host}: no address is known for this name ({error}): write an IP address") from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return str(found[0][4][0])
