"""URLs and transport options: what they mean, and what is refused with the value, the limit and the next step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pymq_celery.settings import LIMITS, PREFIX_LENGTH_MAX, Cluster, Options, masked, parse_url, tls_of

from pymq.client import Tls
from pymq.errors import UsageError


@pytest.mark.parametrize(
    ("url", "cluster"),
    [
        ("pymq://", Cluster("localhost:9876", "kombu", "", "")),
        ("pymq://mq1", Cluster("mq1:9876", "kombu", "", "")),
        ("pymq://mq1:1,mq2/shop", Cluster("mq1:1;mq2:9876", "shop", "", "")),
        ("pymq://a%40b:s%2F%3A@mq1:1/", Cluster("mq1:1", "kombu", "a@b", "s/:")),
        ("pymq://[::1]:99/x", Cluster("[::1]:99", "x", "", "")),
        ("pymq://[::1]", Cluster("[::1]:9876", "kombu", "", "")),
    ],
)
def test_a_url_names_the_cluster(url: str, cluster: Cluster) -> None:
    assert parse_url(url) == cluster


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("pymq://user@mq", "a user or a secret alone"),
        ("pymq://mq/a.b", "a.b"),
        ("pymq://mq/" + "p" * (PREFIX_LENGTH_MAX + 1), "the limit is 40"),
        ("pymq://u:topsecret@mq/?visibility_timeout=3", "broker_transport_options"),
    ],
)
def test_a_wrong_url_is_refused(url: str, text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)) as raised:
        parse_url(url)
    assert "topsecret" not in str(raised.value)


def test_the_secret_is_masked() -> None:
    assert masked("pymq://u:p@ss@mq:1/x") == "pymq://u:**@mq:1/x"
    assert masked("pymq://mq:1/x") == "pymq://mq:1/x"


def test_a_user_without_a_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYMQ_ACCESS_KEY", "env-user")
    monkeypatch.setenv("PYMQ_SECRET_KEY", "env-secret")
    found = parse_url("pymq://mq").credentials
    assert found is not None
    assert found.access_key == "env-user"
    named = parse_url("pymq://u:s@mq").credentials
    assert named is not None
    assert named.access_key == "u"


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_each_number_has_limits(name: str) -> None:
    least, most = LIMITS[name]
    assert getattr(Options.from_mapping({name: least}), name) == least
    assert getattr(Options.from_mapping({name: most}), name) == most
    for bad in (least - 1, most + 1, "7", None, True, float("nan")):
        with pytest.raises(UsageError, match=f"{name}=.*from {least} to {most}"):
            Options.from_mapping({name: bad})


@pytest.mark.parametrize("steps", [[], [1, 2], [0, 10], [0, -1], "03", [0, 1.5], [0, True], 3])
def test_wrong_priority_steps_are_refused(steps: Any) -> None:
    with pytest.raises(UsageError, match="whole numbers from 0 to 9, with 0"):
        Options.from_mapping({"priority_steps": steps})


def test_a_priority_belongs_to_the_step_below_it() -> None:
    options = Options.from_mapping({"priority_steps": [9, 0, 3, 6]})
    assert [options.step_of(priority) for priority in range(10)] == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9]


def test_options_of_kombu_pass_and_misspelled_ones_do_not() -> None:
    assert Options.from_mapping({"max_retries": 3, "global_keyprefix": "x"}) == Options()
    with pytest.raises(UsageError, match="'visibilty_timeout' does not exist: visibility_timeout is meant"):
        Options.from_mapping({"visibilty_timeout": 3})


def test_tls_comes_from_celerys_setting() -> None:
    assert tls_of(False) is None
    assert tls_of(True) == Tls()
    assert tls_of({"ca_certs": "ca", "certfile": "c", "keyfile": "k"}) == Tls("ca", "c", "k")
    with pytest.raises(UsageError, match="use True, or a dict with ca_certs"):
        tls_of({"cafile": "ca"})


def test_the_readme_lists_every_option_with_its_default() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for name in Options.__slots__:
        assert f"| `{name}` |" in text
    for name, (least, most) in LIMITS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"{least:,} to {most:,}" in row
        assert f"{getattr(Options(), name):,}" in row
