"""The README: its first application works as printed, and its tables name every option."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from faststream import AckPolicy
from pymq_faststream.publisher import PublisherOptions
from pymq_faststream.response import PublishOptions
from pymq_faststream.subscription import SubscriberOptions

pytestmark = pytest.mark.anyio
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


async def test_the_first_application_and_its_test_run_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    source = "\n".join(block for block in blocks if "app.py" in block or "test_greet" in block)
    module = ModuleType("pymq_faststream_readme")
    module.__file__ = "app.py"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    # A test broker looks for its caller's source, which a string has not.
    source = source.replace("TestPymqBroker(broker)", "TestPymqBroker(broker, connect_only=False)")
    exec(source, module.__dict__)
    await module.test_greet()


@pytest.mark.parametrize("options", [SubscriberOptions, PublisherOptions, PublishOptions])
def test_every_option_is_named(options: type) -> None:
    named = set(re.findall(r"`([a-z_]+)`", README))
    ours = (
        {"persistent", "title", "description", "schema", "include_in_schema"} if options is PublisherOptions else set()
    )
    assert sorted(set(options.__annotations__) - named - ours) == []


def test_every_policy_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", README, re.MULTILINE)) == {policy.name for policy in AckPolicy}
