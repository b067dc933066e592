"""Names of the topics that a pop reads."""

from __future__ import annotations

import pytest

from pymq.model import pop


@pytest.mark.parametrize("flag", [pop.NORMAL, pop.RETRY_V1, pop.RETRY_V2])
def test_a_stored_topic_leads_back_to_the_one_that_was_asked_for(flag: int) -> None:
    assert pop.normal_topic(pop.stored_topic(flag, "G", "T"), "G") == ("T", flag)
