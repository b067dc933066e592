"""Every key as an environment variable, and what comes before what."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.config import BrokerConfig, Config, NamesrvConfig, load_broker_config, load_namesrv_config
from pymq.config.environment import variable_of
from pymq.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("maxMessageSize", "PYMQ_MAX_MESSAGE_SIZE"),
        ("brokerIP1", "PYMQ_BROKER_IP1"),
        ("enableRetryTopicV2", "PYMQ_ENABLE_RETRY_TOPIC_V2"),
        ("namesrvAddr", "PYMQ_NAMESRV_ADDR"),
    ],
)
def test_a_variable_is_the_key_in_upper_snake_case(key: str, variable: str) -> None:
    assert variable_of(key) == variable


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_every_key_has_a_variable_of_its_own(kind: type[Config]) -> None:
    variables = {variable_of(key) for key in kind.settings()}
    assert len(variables) == len(kind.settings()) and "PYMQ_DEBUG" not in variables
    assert all(variable.removeprefix("PYMQ_").replace("_", "").isalnum() for variable in variables)


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_every_key_is_read_from_its_variable(kind: type[Config]) -> None:
    texts = kind().as_properties()
    # Values that start a server, so that each is accepted; the slave's key makes the role a slave's.
    texts |= {"brokerIP1": "127.0.0.1"} if kind is BrokerConfig else {}
    env = {variable_of(key): text for key, text in texts.items() if text}
    config: Config = load_broker_config(env=env) if kind is BrokerConfig else load_namesrv_config(env=env)
    assert {key for key in config.settings() if config.origin(key) == "env"} == {key for key in texts if texts[key]}
    assert config.warnings == []


def test_a_variable_overrides_the_file_and_a_flag_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("maxTopics=30\nmaxGroups=30\n")
    env = {"PYMQ_MAX_TOPICS": "40", "PYMQ_MAX_BATCH_NUMS": "40", "PYMQ_MAX_GROUPS": ""}
    config = load_broker_config(str(path), {"maxBatchNums": "50"}, env=env, defaults={"maxTopics": "1000"})
    found = {key: (config.get(key), config.origin(key)) for key in ("maxTopics", "maxGroups", "maxBatchNums")}
    assert found == {"maxTopics": (40, "env"), "maxGroups": (30, "file"), "maxBatchNums": (50, "flag")}


def test_other_defaults_give_way_to_everything() -> None:
    config = load_broker_config(env={"PYMQ_MAX_TOPICS": "40"}, defaults={"maxTopics": "50", "maxGroups": "60"})
    assert (config.topic_count_max, config.group_count_max) == (40, 60)
    assert config.origin("maxGroups") == "default"


def test_a_misspelled_variable_is_warned_of_and_others_are_left_alone() -> None:
    env = {"PYMQ_MAX_TOPIC": "40", "PYMQ_DEBUG": "1", "PYMQ_HOSTILE_SCALE": "2", "MAX_TOPICS": "1"}
    (warning,) = load_broker_config(env=env).warnings
    assert warning.startswith("environment variable PYMQ_MAX_TOPIC: no key has it, did you mean PYMQ_MAX_TOPICS?")


def test_a_wrong_value_names_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="an environment variable: maxTopics=x: write a whole number"):
        load_broker_config(env={"PYMQ_MAX_TOPICS": "x"})
    path = tmp_path / "broker.conf"
    path.write_text("maxTopics=x\n")
    with pytest.raises(ConfigError, match=r"broker\.conf: maxTopics=x"):
        load_broker_config(str(path))
