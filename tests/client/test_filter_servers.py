"""Subscriptions through filter servers, as heartbeats carry them."""

from __future__ import annotations

import pytest

from pymq.client.filter_servers import filter_server_subscription
from pymq.client.heartbeat import subscription_data
from pymq.errors import UsageError


def test_the_heartbeat_names_policy_filter_and_expression() -> None:
    data = subscription_data(filter_server_subscription("T", "jsonpath", "$.a:b", 7, on_error="stop"))
    assert (data.sub_string, data.class_filter_mode, data.sub_version) == ("stop.jsonpath:$.a:b", True, 7)
    assert (data.expression_type, data.tags_set, data.code_set) == ("TAG", [], [])


@pytest.mark.parametrize("name", ["", "a.b", "a:b"])
def test_a_name_that_would_be_read_as_another_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="pymq filter list"):
        filter_server_subscription("T", name, "x", 7, on_error="skip")
