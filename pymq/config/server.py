"""The keys that name servers and brokers share beside those of TLS: who may send requests, metrics, limits."""

# One key per row reads best as a table.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from pymq.config.base import setting
from pymq.config.metrics import HOST_LIST, METRICS_LABEL
from pymq.config.security import AUDIT_LOG_FILE_BYTES, AUDIT_LOG_FILE_COUNT, CODE_LIST
from pymq.config.tls import TlsConfig

MIB = 1024 * 1024


@dataclass
class ServerConfig(TlsConfig):
    """What every server has. A key whose default or meaning differs by role is in the configuration of each role."""

    # fmt: off
    # Address
    bind_address: str = setting("bindAddress", "127.0.0.1", "Address to listen on.")

    # Security
    insecure: bool = setting("insecure", False, "Let other machines reach a server that checks no request.")
    acl_enable: bool = setting("aclEnable", False, "Check the signature and the permission of each request, by plainAclFile.")
    plain_acl_file: str = setting("plainAclFile", "", "RocketMQ 4.x ACL file (`plain_acl.yml`) that its owner alone can read; a change is noticed within 5 s.")
    inner_credentials_file: str = setting("innerCredentialsFile", "", "File with the accessKey and the secretKey that servers sign with among each other, which its owner alone can read.")
    authorization_enabled: bool = setting("authorizationEnabled", False, "Check what the sender of each request may do; without authenticationEnabled on loopback alone.")
    authentication_whitelist: str = setting("authenticationWhitelist", "", "Request codes, separated by commas, that need no user; those that need a right are refused without one, unless authorizationWhitelist names them too.", form=CODE_LIST)
    authorization_whitelist: str = setting("authorizationWhitelist", "", "Request codes that every user may send, whatever its rules; with authenticationWhitelist every peer.", form=CODE_LIST)
    init_authentication_user: str = setting("initAuthenticationUser", "", "The first user of type Super, made while no enabled one is there: `file:PATH`, `env:PREFIX`, or RocketMQ's JSON with username and password.", is_secret=True)
    auth_file_comes_later: bool = False  # see pymq.config.security.SecuritySettings
    inner_client_credentials: str = setting("innerClientAuthenticationCredentials", "", "What servers sign with among each other, in place of innerCredentialsFile: `file:PATH`, `env:PREFIX`, or RocketMQ's JSON with accessKey and secretKey.", is_secret=True)
    audit_log_file_bytes: int = setting("auditLogFileSize", AUDIT_LOG_FILE_BYTES, "Size at which a file of the audit log ends and the next one begins.", minimum=4096, maximum=1024 * MIB, is_size=True)
    audit_log_file_count: int = setting("auditLogFileCount", AUDIT_LOG_FILE_COUNT, "Most files of the audit log; the oldest is deleted.", minimum=1, maximum=1000)
    address_requests_per_second_max: int = setting("addressRequestsPerSecondMax", 0, "Most requests a second from one address to a server that checks them; 0: no limit.", minimum=0, maximum=1_000_000_000)
    address_bytes_per_second_max: int = setting("addressBytesPerSecondMax", 0, "Most bytes a second in the bodies of requests from one address; 0: no limit.", minimum=0, maximum=2**40, is_size=True)
    user_requests_per_second_max: int = setting("userRequestsPerSecondMax", 0, "Most requests a second of one user; 0: no limit.", minimum=0, maximum=1_000_000_000)
    user_bytes_per_second_max: int = setting("userBytesPerSecondMax", 0, "Most bytes a second in the bodies of one user's requests; 0: no limit.", minimum=0, maximum=2**40, is_size=True)
    user_connection_count_max: int = setting("userConnectionCountMax", 0, "Most connections of one user; 0: no limit.", minimum=0, maximum=1_000_000)

    # Metrics
    metrics_exporter_type: str = setting("metricsExporterType", "DISABLE", "PROM serves metrics to Prometheus.", choices=("DISABLE", "PROM"))
    metrics_token_file: str = setting("metricsTokenFile", "", "File with the bearer token that clients of the metrics show; only its owner may read it. Empty: they need none.")
    metrics_allowed_hosts: str = setting("metricsAllowedHosts", "", "Names, separated by commas, by which clients without a token may ask for metrics, beside the address and `localhost`: what Prometheus has as target.", form=HOST_LIST)
    metrics_label: str = setting("metricsLabel", "", "Labels for every metric: `key:value` pairs separated by commas.", form=METRICS_LABEL)

    # Limits: each one stops a way to exhaust the server
    idle_timeout_s: int = setting("serverChannelMaxIdleTimeSeconds", 120, "Seconds without a byte after which a connection is closed.", minimum=5, maximum=86_400, runtime=True)
    frame_size_bytes_max: int = setting("frameSizeBytesMax", 16 * MIB, "Largest frame; a longer one closes its connection.", minimum=65_536, maximum=256 * MIB, is_size=True)
    connection_count_max: int = setting("connectionCountMax", 10_000, "Most connections.", minimum=1, maximum=1_000_000, runtime=True)
    connection_count_per_address_max: int = setting("connectionCountPerAddressMax", 1024, "Most connections from one address.", minimum=1, maximum=1_000_000, runtime=True)
    frame_time_ms_max: int = setting("frameTimeMsMax", 30_000, "ms within which a frame must be complete.", minimum=100, maximum=600_000, runtime=True)
    unread_answers_bytes_max: int = setting("unreadAnswersBytesMax", 16 * MIB, "Most bytes of answers that a client may leave unread before its connection is closed.", minimum=65_536, maximum=1024 * MIB, runtime=True, is_size=True)
    memory_budget_bytes: int = setting("memoryBudgetBytes", 256 * MIB, "Most bytes that clients may make the process hold, at most a quarter of the machine's memory; beyond, requests are refused and the greediest connections closed.", minimum=32 * MIB, maximum=64 * 1024 * MIB, is_size=True)
    # fmt: on
