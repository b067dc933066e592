"""Settings as name=value lines."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.wire.settings_text import decode_settings, encode_settings


def test_round_trip() -> None:
    settings = {"a": "1", "b": "x=y", "c": ""}
    assert encode_settings(settings) == b"a=1\nb=x=y\nc=\n"
    assert decode_settings(encode_settings(settings)) == settings


def test_comments_and_blank_lines_of_java_are_ignored() -> None:
    assert decode_settings(b"#comment=1\r\na = 1\r\n\r\nno line\n") == {"a": "1"}


@pytest.mark.parametrize("settings", [{"": "1"}, {"a=b": "1"}, {"a\nb": "1"}, {"a": "1\nb=2"}, {"a": "1\r"}])
def test_nothing_can_be_smuggled_in(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        encode_settings(settings)


def test_secrets_that_rocketmqs_brokers_show_are_masked() -> None:
    body = b'initAuthenticationUser={"username":"u","password":"p"}\ninnerClientAuthenticationCredentials=\n'
    assert decode_settings(body) == {"initAuthenticationUser": "******", "innerClientAuthenticationCredentials": ""}
