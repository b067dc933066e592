"""Settings: where values come from, what is refused, what may change while a broker runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pymq.cli.common.options import split_addresses
from pymq.client.name_servers import parse_name_servers
from pymq.config import BrokerConfig, NamesrvConfig, load_broker_config, load_namesrv_config, parse_properties
from pymq.config.rocketmq_keys import BROKER_KEYS, NAMESRV_KEYS
from pymq.errors import ConfigError
from pymq.spark.planning.cluster import RemoteCluster

DOCS = Path(__file__).parent.parent / "docs" / "configuration.md"


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return str(path)


def test_defaults_are_rocketmq_s_but_for_the_loopback() -> None:
    config = load_broker_config()
    assert config.bind_address == config.broker_ip1 == "127.0.0.1"
    assert config.namesrv_addresses == ["127.0.0.1:9876"]
    assert config.listen_port == 10911
    assert config.max_message_size_bytes == 4 * 1024 * 1024
    assert config.auto_create_topic_enable
    assert config.delay_level_ms[3] == 10_000 and config.delay_level_ms[18] == 7_200_000
    assert config.store_path_root_dir == str(Path.home() / ".pymq" / "broker-a-0")
    assert config.origin("listenPort") == "default"


def test_a_rocketmq_file_is_read_and_flags_win(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "# comment\nbrokerName = broker-b\nlistenPort=10921\nflushIntervalCommitLog : 48\nflushDiskType=SYNC_FLUSH\n",
    )
    config = load_broker_config(path, {"listenPort": "0"}, env={"NAMESRV_ADDR": "127.0.0.1:1;127.0.0.1:2"})
    assert (config.broker_name, config.listen_port, config.flush_interval_commit_log_ms) == ("broker-b", 0, 48)
    assert config.namesrv_addresses == ["127.0.0.1:1", "127.0.0.1:2"]
    origins = [config.origin(name) for name in ("brokerName", "listenPort", "namesrvAddr", "brokerId")]
    assert origins == ["file", "flag", "env", "default"]
    assert config.store_path_root_dir.endswith("broker-b-0")


def test_a_file_overrides_the_environment_as_with_rocketmq(tmp_path: Path) -> None:
    path = write(tmp_path, "namesrvAddr=127.0.0.1:7\n")
    assert load_broker_config(path, env={"NAMESRV_ADDR": "127.0.0.1:1"}).namesrv_addresses == ["127.0.0.1:7"]


def test_unknown_keys_of_a_file_are_kept_and_warned_about(tmp_path: Path) -> None:
    path = write(tmp_path, "sendMessageThreadPoolNums=16\nmadeUp=1\n")
    config = load_broker_config(path)
    assert config.unknown == {"sendMessageThreadPoolNums": "16", "madeUp": "1"}
    assert "one event loop" in config.warnings[0] and "madeUp" in config.warnings[1]


def test_a_misspelled_key_of_a_file_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerNme=a\nqqq=1\n")
    first, second = load_broker_config(str(file)).warnings
    assert first == "brokerNme: PyMQ does not know this key, did you mean brokerName?; it has no effect"
    assert second == "qqq: PyMQ does not know this key; it has no effect"


def test_an_unknown_flag_is_an_error_with_near_matches() -> None:
    with pytest.raises(ConfigError, match="maxMessageSize"):
        load_broker_config(None, {"maxMesageSize": "1"})


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("listenPort", "70000", "0 to 65535"),
        ("listenPort", "abc", "whole number"),
        ("listenPort", "9" * 5000, "limit is 4096"),
        ("autoCreateTopicEnable", "maybe", "true or false"),
        ("flushDiskType", "NEVER", "ASYNC_FLUSH, SYNC_FLUSH"),
        ("brokerName", "../evil", "characters"),
        ("brokerName", "a\nb=c", "control"),
        ("brokerClusterName", "", "1 to 127"),
        ("namesrvAddr", "nowhere", "host:port"),
        ("messageDelayLevel", "1s never", "duration"),
        ("bindAddress", "no.such.host.invalid", "IP address"),
        ("brokerIP1", "no.such.host.invalid", "IP address"),
        ("brokerIP1", "0.0.0.0", "no address that clients"),
        ("namesrvAddr", "http://host:8080", "http://HOST:PORT/rocketmq/nsaddr"),
        ("fetchNamesrvAddrByAddressServer", "true", "rmqAddressServerDomain"),
        ("fastListenPort", "-2", "-1 to 65535"),
        ("bindAddress", "0.0.0.0", "brokerIP1"),
        ("brokerRole", "SLAVE", "brokerId"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(name: str, value: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        load_broker_config(None, {name: value})


def test_sizes_may_carry_units() -> None:
    assert load_broker_config(None, {"maxMessageSize": "2MB"}).max_message_size_bytes == 2 * 1024 * 1024


def test_an_address_server_is_configured_as_in_rocketmq_or_as_a_url() -> None:
    keys = {"fetchNamesrvAddrByAddressServer": "true", "rmqAddressServerDomain": "ns.example"}
    assert load_broker_config(None, keys).namesrv_places == ["http://ns.example:8080/rocketmq/nsaddr"]
    keys |= {"rmqAddressServerDomain": "ns.example:80", "rmqAddressServerSubGroup": "nsaddr-east"}
    assert load_broker_config(None, keys).namesrv_places == ["http://ns.example:80/rocketmq/nsaddr-east"]
    assert load_broker_config(None, {**keys, "namesrvAddr": "a:1"}).namesrv_places == ["a:1"]
    config = load_broker_config(None, {"namesrvAddr": "http://ns.example/rocketmq/nsaddr;b:2"})
    assert config.namesrv_addresses == ["b:2"]
    config.found_namesrv_addresses = ["b:2", "c:3"]
    assert config.namesrv_addresses == ["b:2", "c:3"]


def test_names_of_addresses_are_looked_up() -> None:
    config = load_broker_config(None, {"brokerIP1": "localhost", "bindAddress": "localhost"})
    assert (config.broker_ip1, config.bind_address) == ("127.0.0.1", "127.0.0.1")
    assert not config.warnings


def test_an_unreachable_address_is_warned_about() -> None:
    config = load_broker_config(None, {"brokerIP1": "192.0.2.7"})
    assert any("bindAddress" in warning for warning in config.warnings)


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", "::"])
def test_a_server_that_other_machines_reach_checks_requests_or_says_that_it_does_not(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"bindAddress={address}\nbrokerIP1=192.0.2.7\n")
    text = f"bindAddress is {address}: every host that reaches the port can read, write and administer"
    for load in (lambda: load_broker_config(str(file)), lambda: load_namesrv_config(None, {"bindAddress": address})):
        with pytest.raises(ConfigError) as caught:
            load()
        assert str(caught.value).startswith(f"{text}: make users (pymq auth init DIR prints the settings), name")
        assert "listen on 127.0.0.1, or accept it with --insecure (insecure=true)" in str(caught.value)
    insecure = {"bindAddress": address, "insecure": "true"}
    (warning,) = load_broker_config(str(file), {"insecure": "true"}).warnings
    assert warning.startswith(f"{text}, there is no authentication")
    assert load_namesrv_config(None, insecure).warnings == [warning]
    secured = {"bindAddress": address, "aclEnable": "true", "plainAclFile": "acl.yml"}
    (warning,) = load_namesrv_config(None, secured).warnings
    assert "not encrypted" in warning


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_a_server_on_loopback_does_not_warn(address: str) -> None:
    assert load_broker_config(None, {"bindAddress": address}).warnings == []
    assert load_namesrv_config(None, {"bindAddress": address}).warnings == []


def test_an_unreadable_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no/such\.conf"):
        load_broker_config("no/such.conf")


def test_properties_text_follows_java() -> None:
    text = "! note\na = 1 \nb:2\nc 3\nlong=one \\\n   two\nempty=\npath=C:\\\\x\nu=\\u0041\na=9\n"
    expected = {"a": "9", "b": "2", "c": "3", "long": "one two", "empty": "", "path": "C:\\x", "u": "\\u0041"}
    assert parse_properties(text) == expected


def test_a_change_at_run_time_is_typed_ranged_and_all_or_none() -> None:
    config = load_broker_config()
    heard: list[frozenset[str]] = []
    config.add_listener(heard.append)
    assert config.change_at_runtime({"maxMessageSize": "1024", "longPollingEnable": "true"}) == ["maxMessageSize"]
    assert config.max_message_size_bytes == 1024 and config.origin("maxMessageSize") == "runtime"
    assert heard == [frozenset({"maxMessageSize"})]
    bad = [
        ("maxMessageSize", "1"),
        ("listenPort", "1"),
        ("nope", "1"),
        ("longPollingEnable", "true\r"),
        ("longPollingEnable", "\\u0074rue"),
    ]
    for name, value in bad:
        with pytest.raises(ConfigError):
            config.change_at_runtime({"maxTopics": "50", name: value})
    assert config.max_message_size_bytes == 1024 and config.topic_count_max == 10_000


def test_paths_ports_addresses_and_names_never_change_at_run_time() -> None:
    fixed = re.compile(r"[pP]ath|^listenPort|Addr(?!essMax)|IP\d|[nN]ame$|[sS]ecret|[pP]assword")
    for kind in (BrokerConfig, NamesrvConfig):
        assert not [name for name, row in kind.settings().items() if row.runtime and fixed.search(name)]
    assert 20 <= sum(row.runtime for row in BrokerConfig.settings().values()) <= 100


def test_as_properties_can_be_read_back() -> None:
    config = load_broker_config(None, {"brokerName": "b", "longPollingEnable": "false"})
    text = "".join(f"{name}={value}\n" for name, value in config.as_properties().items())
    again = load_broker_config(None, parse_properties(text))
    assert again.as_properties() == config.as_properties()


def test_every_setting_is_documented() -> None:
    text = DOCS.read_text()
    for kind in (BrokerConfig, NamesrvConfig):
        missing = [name for name, row in kind.settings().items() if f"| `{name}` |" not in text or row.doc not in text]
        assert not missing, f"docs/configuration.md lacks {missing}"


def test_namesrv_settings_load() -> None:
    config = load_namesrv_config(None, {"listenPort": "0"})
    assert config.listen_port == 0 and config.bind_address == "127.0.0.1"


def test_an_id_above_zero_is_a_slave() -> None:
    assert load_broker_config(None, {"brokerId": "1"}).broker_role == "SLAVE"
    assert load_broker_config(None, {"brokerId": "0", "brokerRole": "SYNC_MASTER"}).broker_role == "SYNC_MASTER"


def test_fewer_copies_than_the_minimum_are_refused() -> None:
    with pytest.raises(ConfigError, match="minInSyncReplicas=3 is more than inSyncReplicas=2"):
        load_broker_config(None, {"minInSyncReplicas": "3"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"haSendHeartbeatInterval": "5000", "haHousekeepingInterval": "5000"},
            ("=5000 is not less", "to 1250 or less"),
        ),
        ({"haSendHeartbeatInterval": "20000"}, ("haSendHeartbeatInterval=20000", "haHousekeepingInterval=20000")),
        ({"haListenPort": "10911"}, ("haListenPort=10911", "listenPort + 1")),
        ({"haMasterAddress": "10.0.0.1"}, ("haMasterAddress=10.0.0.1", "host:port")),
        ({"haMasterAddress": "10.0.0.1:0"}, ("haMasterAddress", "host:port")),
        ({"haMasterAddress": "10.0.0.1:65536"}, ("haMasterAddress", "host:port")),
        ({"haMasterAddress": ":10912"}, ("haMasterAddress", "host:port")),
        ({"slaveTimeout": "0"}, ("slaveTimeout=0", "from 10")),
        ({"inSyncReplicas": "0"}, ("inSyncReplicas=0", "from 1")),
        ({"haTransferBatchSize": "2097153"}, ("haTransferBatchSize=2097153", "to 2097152")),
    ],
)
def test_settings_that_break_replication_are_refused(settings: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_broker_config(None, settings)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"haSendHeartbeatInterval": "2500", "haHousekeepingInterval": "5000"},
        {"haListenPort": "10912", "haMasterAddress": "[::1]:65535"},
        {"brokerRole": "SYNC_MASTER", "minInSyncReplicas": "2"},
        {"brokerRole": "SLAVE", "brokerId": "1", "inSyncReplicas": "1"},
        {"haMaxGapNotInSync": "1024", "haTransferBatchSize": "1024"},
    ],
)
def test_compatible_settings_are_not_warned_of(settings: dict[str, str]) -> None:
    assert load_broker_config(None, settings).warnings == []


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"haSendHeartbeatInterval": "2501", "haHousekeepingInterval": "5000"}, "more than half"),
        ({"haSendHeartbeatInterval": "4999", "haHousekeepingInterval": "5000"}, "one late heartbeat"),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "1"}, "waits for no slave"),
        ({"haMaxGapNotInSync": "1023", "haTransferBatchSize": "1024"}, "less than one frame"),
    ],
)
def test_unlikely_replication_settings_are_warned_of(settings: dict[str, str], word: str) -> None:
    (warning,) = load_broker_config(None, settings).warnings
    assert word in warning


def test_an_incompatible_change_at_run_time_changes_nothing() -> None:
    config = load_broker_config(None, {"inSyncReplicas": "3"})
    with pytest.raises(ConfigError, match="minInSyncReplicas=3 is more than inSyncReplicas=2"):
        config.change_at_runtime({"slaveTimeout": "100", "minInSyncReplicas": "3", "inSyncReplicas": "2"})
    assert (config.in_sync_replicas, config.min_in_sync_replicas, config.slave_timeout_ms) == (3, 1, 3000)
    assert config.origin("inSyncReplicas") == "flag"
    assert config.change_at_runtime({"minInSyncReplicas": "3"}) == ["minInSyncReplicas"]


@pytest.mark.parametrize(
    ("text", "hours"), [("04", {4}), ("4", {4}), ("0;12;23", {0, 12, 23}), ("04;16;", {4, 16}), ("19", {19})]
)
def test_hours_of_retention(text: str, hours: set[int]) -> None:
    assert load_broker_config(None, {"deleteWhen": text}).delete_hours == hours


@pytest.mark.parametrize("text", ["", "24", "4,16", "4;;5", ";4", "-1", "004", "four", "4 ;5"])
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"deleteWhen=.*: write hours from 0 to 23 separated by `;`, for example 04;16"
    ):
        load_broker_config(None, {"deleteWhen": text})


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"tls.server.certPath": "/a.pem"}, "tls.server.certPath is set and tls.server.keyPath is not"),
        ({"tls.client.keyPath": "/a.key"}, "tls.client.keyPath is set and tls.client.certPath is not"),
        ({"tls.server.mode": "enforcing"}, "enforcing needs a certificate"),
        ({"tls.server.need.client.auth": "require"}, "needs the CAs of the clients"),
        ({"tls.server.mode": "on"}, "use one of disabled, permissive, enforcing"),
    ],
)
def test_tls_keys_that_lack_another_are_refused(keys: dict[str, str], text: str) -> None:
    for load in (load_broker_config, load_namesrv_config):
        with pytest.raises(ConfigError, match=text):
            load(None, keys)


def test_a_file_of_tls_keys_counts_before_the_configuration_file(tmp_path: Path) -> None:
    tls_file, conf = tmp_path / "tls.properties", tmp_path / "broker.conf"
    tls_file.write_text("tls.enable=true\ntls.client.trustCertPath=/ca.pem\nlistenPort=1\n")
    conf.write_text(f"tls.enable=false\ntls.client.authServer=false\ntls.config.file={tls_file}\nlistenPort=2\n")
    config = load_broker_config(str(conf))
    assert (config.tls_enable, config.tls_client_trust_cert_path) == (True, "/ca.pem")
    assert (config.tls_client_auth_server, config.listen_port) == (False, 2)
    env = {"PYMQ_TLS_CLIENT_TRUST_CERT_PATH": "/other.pem"}
    assert load_broker_config(str(conf), env=env).tls_client_trust_cert_path == "/other.pem"
    with pytest.raises(ConfigError, match=r"missing\.properties"):
        load_namesrv_config(None, {"tls.config.file": str(tmp_path / "missing.properties")})


def test_the_password_of_a_key_is_masked() -> None:
    config = load_broker_config(None, {"tls.server.keyPassword": "hidden"})
    assert config.as_properties()["tls.server.keyPassword"] == "******"


@pytest.mark.parametrize(
    ("keys", "warnings"),
    [
        ({}, ["there is no authentication"]),
        ({"acl": "yes"}, ["checked but not encrypted"]),
        ({"tls.server.mode": "enforcing"}, ["there is no authentication"]),
        ({"acl": "yes", "tls.server.mode": "enforcing"}, []),
        ({"tls.server.mode": "enforcing", "tls.server.need.client.auth": "require"}, []),
        ({"tls.server.need.client.auth": "require"}, ["there is no authentication"]),
    ],
)
def test_a_server_for_other_machines_warns_of_what_it_does_not_check(
    keys: dict[str, str], warnings: list[str], tmp_path: Path
) -> None:
    files = {"tls.server.certPath": "/a.pem", "tls.server.keyPath": "/a.key", "tls.server.trustCertPath": "/ca.pem"}
    given = {
        **files,
        **{key: value for key, value in keys.items() if key != "acl"},
        "bindAddress": "192.0.2.10",
        "insecure": "true",
    }
    if "acl" in keys:
        given |= {"aclEnable": "true", "plainAclFile": str(tmp_path / "plain_acl.yml")}
    found = load_namesrv_config(None, given).warnings
    assert len(found) == len(warnings)
    assert all(text in line for text, line in zip(warnings, found, strict=True))


@pytest.mark.parametrize("text", ["127.0.0.1:1;127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2", " 127.0.0.1:1 ,; 127.0.0.1:2;"])
def test_every_reader_of_name_servers_takes_semicolons_and_commas(text: str) -> None:
    wanted = ["127.0.0.1:1", "127.0.0.1:2"]
    assert load_broker_config(None, {"namesrvAddr": text}).namesrv_addresses == wanted
    assert load_broker_config(None, env={"NAMESRV_ADDR": text}).namesrv_addresses == wanted
    assert parse_name_servers(text) == wanted
    assert split_addresses(text) == wanted
    assert RemoteCluster(text)._places == wanted


def test_a_byte_order_mark_hides_no_key(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"\xef\xbb\xbfbrokerName=first\nlistenPort=1\n")
    config = load_broker_config(str(path))
    assert (config.broker_name, config.listen_port, config.warnings) == ("first", 1, [])


def test_a_controller_is_refused_as_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"enableControllerMode=true .*each broker would start as a master.*Raft group"
    ):
        load_broker_config(write(tmp_path, "enableControllerMode=true\n"))
    config = load_broker_config(write(tmp_path, "enableControllerMode=false\n"))
    assert "enableControllerMode" in config.unknown


@pytest.mark.parametrize("key", ["abortFile", "allAckInSyncStateSet", "enablePopBufferMerge", "timerRocksDBEnable"])
def test_a_key_of_rocketmq_without_effect_is_a_note_also_at_run_time(tmp_path: Path, key: str) -> None:
    config = load_broker_config(write(tmp_path, f"{key}=1\n"))
    assert config.warnings == [f"{key}: RocketMQ's own, with nothing like it in PyMQ; it has no effect"]
    assert config.change_at_runtime({key: "2", "strictOffsets": "true"}) == ["strictOffsets"]
    for refused in (f"{key}x", "storePathIndex", "brokerConfigPath", "configBlackList", "rocketmqHome"):
        with pytest.raises(ConfigError, match="unknown key"):
            config.change_at_runtime({refused: "2"})


def test_no_key_is_both_used_and_without_effect() -> None:
    assert not BROKER_KEYS & set(BrokerConfig.settings())
    assert not NAMESRV_KEYS & set(NamesrvConfig.settings())
