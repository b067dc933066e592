"""Every key of a name server."""

# One key per row reads best as a table.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pymq.config.base import setting
from pymq.config.rocketmq_keys import NAMESRV_KEYS, NO_EFFECT
from pymq.config.security import check_security
from pymq.config.server import ServerConfig

MIB = 1024 * 1024


@dataclass
class NamesrvConfig(ServerConfig):
    """The configuration of one name server, which keeps nothing on disk but what its settings ask for."""

    # fmt: off
    listen_port: int = setting("listenPort", 9876, "Port to listen on; 0 takes any free port.", minimum=0, maximum=65535)
    scan_interval_ms: int = setting("scanNotActiveBrokerInterval", 5000, "ms between checks for silent brokers.", minimum=100, maximum=600_000, runtime=True)
    order_message_enable: bool = setting("orderMessageEnable", False, "Answer `orderTopicConf` with routes.", runtime=True)
    return_order_topic_config: bool = setting("returnOrderTopicConfigToBroker", True, "Answer a registration with the order configuration.", runtime=True)
    delete_topic_with_registration: bool = setting("deleteTopicWithBrokerRegistration", False, "Remove topics that a full registration no longer names.", runtime=True)
    support_acting_master: bool = setting("supportActingMaster", False, "Let the slave with the lowest id act for a lost master in routes.", runtime=True)
    broker_count_max: int = setting("maxBrokers", 10_000, "Most brokers.", minimum=1, maximum=1_000_000, runtime=True)
    topic_count_max: int = setting("maxTopics", 100_000, "Most topics.", minimum=20, maximum=10_000_000, runtime=True)
    broker_topic_count_max: int = setting("maxTopicsPerBroker", 40_000, "Most topics of one broker's registration.", minimum=20, maximum=10_000_000, runtime=True)
    topic_share_count_max: int = setting("maxTopicEntries", 500_000, "Most entries of topics on broker names: a topic on three of them has three.", minimum=20, maximum=100_000_000, runtime=True)
    broker_id_kept_ms: int = setting("brokerIdKeptMs", 65_000, "ms for which the id and the address of a broker that left are kept for it and its group.", minimum=0, maximum=600_000, runtime=True)
    kv_count_max: int = setting("maxKvEntries", 10_000, "Most KV entries.", minimum=1, maximum=1_000_000, runtime=True)
    authentication_enabled: bool = setting("authenticationEnabled", False, "Check the signature of each request, by users that operators make at a broker; without authorizationEnabled on loopback alone.")
    auth_file: str = setting("authFile", "", "A broker's file `config/auth.json`, or a copy: the users for authenticationEnabled; a change is noticed within 5 s. Empty: `~/.pymq/namesrv-<listenPort>/auth.json`, made with the user of initAuthenticationUser.")
    audit_log_dir: str = setting("auditLogDir", "", "Directory of the audit log, a JSON line for each change by an operator and each refusal; empty: none.")
    runtime_settings_path: str = setting("runtimeSettingsPath", "", "File that keeps settings which `pymq config set --persist` changes; empty: none are kept.")
    metrics_prom_exporter_host: str = setting("metricsPromExporterHost", "", "Address to serve metrics on; empty: the bind address.")
    metrics_prom_exporter_port: int = setting("metricsPromExporterPort", 5558, "Port to serve metrics on; 0 takes any free port.", minimum=0, maximum=65535)
    metrics_series_max: int = setting("metricsOtelCardinalityLimit", 10_000, "Most series of one metric; the oldest ones stay.", minimum=100, maximum=1_000_000, runtime=True)
    inflated_size_bytes_max: int = setting("inflatedSizeBytesMax", 16 * MIB, "Most bytes a compressed registration may inflate to.", minimum=65_536, maximum=1024 * MIB, is_size=True)

    # fmt: on
    def check(self) -> None:
        check_security(self)

    IGNORED: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(NAMESRV_KEYS, NO_EFFECT),
        "kvConfigPath": "a name server keeps nothing on disk",
        "configStorePath": "runtimeSettingsPath names the file that keeps changed settings",
        "rocketmqHome": "PyMQ has no home directory",
        "serverWorkerThreads": "PyMQ serves requests on one event loop, without thread pools",
        "serverSelectorThreads": "PyMQ serves requests on one event loop, without thread pools",
        "enableControllerInNamesrv": "this version has no controller",
        "clusterTest": "this version does not have that part",
    }
