"""Ordinals of Java's MQVersion by name."""

import pytest

from pymq.wire.codes import VERSION_4_9_4, VERSION_5_0_0, VERSION_5_3_3
from pymq.wire.versions import version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (VERSION_5_3_3, "V5_3_3"),
        (VERSION_5_0_0, "V5_0_0"),
        (VERSION_4_9_4, "V4_9_4"),
        (VERSION_5_3_3 - 1, "V5_3_3_SNAPSHOT"),
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (211, "V3"),
        (0, "V3"),
        (611, "V5_9_9"),
        (612, "V5_9_9"),
        (99_999, "V5_9_9"),
    ],
)
def test_names(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name
