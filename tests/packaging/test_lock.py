"""requirements/lock.txt: every dependency of every extra within its range, hashes, no addresses."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.lock import BASE, HEAD, LOCK, PLUGINS, ROOT, TOOLS, Entry, entries, wanted

TEXT = LOCK.read_text(encoding="utf-8")
ENTRIES = entries(TEXT)
PYTHONS = ("3.11.0", "3.11.7", "3.12.4", "3.13.1", "3.14.0")
MACHINES = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")]
ENVIRONMENTS: list[dict[str, str]] = [
    {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "implementation_version": python,
        "sys_platform": system,
        "platform_system": system.capitalize(),
        "platform_machine": machine,
    }
    for python in PYTHONS
    for system, machine in MACHINES
]


def faults(found: list[Entry], needs: dict[str, list[str]]) -> list[str]:
    """Return what is missing, doubled or out of its range, for each Python and machine."""
    said = []
    for environment in ENVIRONMENTS:
        where = f"Python {environment['python_full_version']} on {environment['platform_machine']}"
        here = [
            each for each in found if each.requirement.marker is None or each.requirement.marker.evaluate(environment)
        ]
        twice = [name for name, count in Counter(each.name for each in here).items() if count > 1]
        said += [f"{name} has two versions for {where}" for name in twice]
        versions = {each.name: each for each in here}
        for extra, texts in needs.items():
            for text in texts:
                requirement = Requirement(text)
                if requirement.marker is not None and not requirement.marker.evaluate(environment):
                    continue
                entry = versions.get(canonicalize_name(requirement.name))
                if entry is None or extra not in entry.extras:
                    said.append(f"{text} of {extra} is not in the lock for {where}")
                elif not requirement.specifier.contains(entry.version, prereleases=True):
                    said.append(f"{text} of {extra} does not fit {entry.version} in the lock")
    return said


def test_the_lock_agrees_with_the_projects() -> None:
    """After a change of a dependency: scripts/lock."""
    assert {TOOLS, BASE, PLUGINS, "dev", "test", "spark"} <= wanted().keys()
    assert faults(ENTRIES, wanted()) == []


def test_a_lock_that_does_not_agree_is_noticed() -> None:
    needs = wanted()
    numpy = [each for each in ENTRIES if each.name == "numpy"]
    assert any("numpy>=1.26 of base is not in the lock" in said for said in faults([], {BASE: needs[BASE]}))
    assert any("numpy<1 of base does not fit" in said for said in faults(numpy, {BASE: ["numpy<1"]}))
    assert any("numpy of avro is not in the lock" in said for said in faults(numpy, {"avro": ["numpy"]}))
    assert any("numpy has two versions" in said for said in faults([*numpy, *numpy], {}))
    with pytest.raises(ValueError, match="SHA-256"):
        entries(HEAD + "# for: base\nnumpy==1.0 \\\n    --hash=md5:00\n")


def test_each_entry_is_one_version_with_hashes() -> None:
    assert len(ENTRIES) > 90
    for entry in ENTRIES:
        assert [each.operator for each in entry.requirement.specifier] == ["=="], entry.name
        assert entry.hashes and entry.extras, entry.name
        assert entry.requirement.url is None


def test_the_lock_names_no_address() -> None:
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted|@", TEXT)
    assert TEXT.startswith(HEAD)


def taken(*extras: str) -> str:
    """Return the entries that scripts/install takes for these extras."""
    script = (ROOT / "scripts" / "install").read_text(encoding="utf-8")
    function = re.search(r"^locked\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)
    assert function is not None
    command = ["bash", "-c", f'{function[0]}\nlocked "$@"', "bash", *extras]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("extras", [(TOOLS,), (BASE,), (BASE, "test"), (BASE, "dev", PLUGINS)], ids=",".join)
def test_the_installer_takes_the_entries_of_its_extras(extras: tuple[str, ...]) -> None:
    found = entries(HEAD + taken(*extras))
    expected = [each for each in ENTRIES if each.extras & set(extras)]
    assert [each.text for each in found] == [each.text for each in expected]
    assert expected


def test_the_installer_fetches_nothing_without_a_hash() -> None:
    """Each installation takes hashed entries, or this checkout's own packages after what they need."""
    script = (ROOT / "scripts" / "install").read_text(encoding="utf-8")
    calls = re.findall(r"^install (.*)$", script, re.MULTILINE)
    assert [call.split()[0] for call in calls] == ["--require-hashes", "--require-hashes", "--editable"]
    assert len(re.findall(r"pip install .*--no-deps --no-build-isolation", script)) == 2  # of uv and of pip
    assert len(re.findall(r"pip install", script)) == 2
