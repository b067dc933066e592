"""scripts/release refuses an unready checkout before it builds; .ci/run tests the build itself."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pymq
from pymq.packages import SOURCE

ROOT = Path(__file__).parents[2]
VERSION = pymq.__version__
REPOSITORY = "https://forge.example/pymq"
UNPUBLISHED = """# PyMQ

<!-- checkout -->
In a checkout:
<!-- /checkout -->

`pip install .` or `pip install '.[spark,tls]' numpy`,
then `pip install ./plugins/pymq-filter-cel`, `pip install . ./plugins/pymq-celery`,
or `pip install ./client`; not `pip install ./x`.
"""
PUBLISHED = """# PyMQ

`pip install pymq-toolkit` or `pip install 'pymq-toolkit[spark,tls]' numpy`,
then `pip install pymq-filter-cel`, `pip install pymq-toolkit pymq-celery`,
or `pip install pymq-client`; not `pip install ./x`.
"""
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a git checkout with the files that the script reads, ready for a release."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "pymq").mkdir()
    (tmp_path / "client").mkdir()
    for name in (
        "scripts/release",
        "scripts/published",
        "pyproject.toml",
        "pymq/__init__.py",
        "pymq/packages.py",
        "client/pyproject.toml",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text(UNPUBLISHED)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} - 2026-01-31\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    publish(tmp_path, "--repository", REPOSITORY)
    commit(tmp_path)
    return tmp_path


def publish(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "scripts" / "published"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def git(checkout: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(checkout), *identity, *arguments], check=True, capture_output=True)


def commit(checkout: Path) -> None:
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "state")


def refusal(checkout: Path, *arguments: str) -> str:
    """Return the script's refusal; a failing interpreter replaces the build."""
    done = subprocess.run(
        [str(checkout / "scripts" / "release"), *arguments],
        env={**os.environ, "PYMQ_PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_ready_checkout_reaches_the_build(checkout: Path) -> None:
    assert "no release: the build failed" in refusal(checkout)


def test_a_changelog_without_the_version_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## 0.0.9 - 2026-01-30\n")
    commit(checkout)
    assert f"CHANGELOG.md has no heading for {VERSION}" in refusal(checkout)
    assert f"CHANGELOG.md has no heading for {VERSION}" in refusal(checkout, "--check")


def test_a_heading_without_a_date_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION}\n")
    commit(checkout)
    assert f"the heading of {VERSION} in CHANGELOG.md has no date" in refusal(checkout)


def test_changes_in_the_tree_are_refused_but_may_be_checked(checkout: Path) -> None:
    (checkout / "new.txt").write_text("not committed")
    assert "the tree has changes: ?? new.txt" in refusal(checkout)
    assert "the build failed" in refusal(checkout, "--check")


def test_a_version_that_is_tagged_is_refused(checkout: Path) -> None:
    git(checkout, "tag", f"v{VERSION}")
    assert f"the tag v{VERSION} is there already" in refusal(checkout)


def test_two_versions_are_refused(checkout: Path) -> None:
    (checkout / "pymq" / "__init__.py").write_text('__version__ = "9.9.9"\n')
    commit(checkout)
    assert "give both the same version" in refusal(checkout)


def test_an_unknown_argument_is_wrong_usage() -> None:
    done = subprocess.run([str(ROOT / "scripts" / "release"), "--chekc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: scripts/release [--check]" in done.stderr


def test_the_first_release_changes_every_text_that_installs(checkout: Path) -> None:
    assert (checkout / "README.md").read_text() == PUBLISHED
    assert 'SOURCE: Final = "pymq-toolkit"' in (checkout / "pymq" / "packages.py").read_text()
    assert f'"pymq-client=={VERSION}",' in (checkout / "pyproject.toml").read_text()
    assert publish(checkout, "--check").returncode == 0
    assert publish(checkout).stdout.startswith("changed 0 files")


def test_texts_that_install_from_a_checkout_are_refused(checkout: Path) -> None:
    shutil.copy(ROOT / "pymq" / "packages.py", checkout / "pymq" / "packages.py")
    commit(checkout)
    assert "run scripts/published once" in refusal(checkout)
    assert publish(checkout, "--check").returncode == 1


def test_the_project_s_urls_are_set_at_the_release_and_may_change(checkout: Path) -> None:
    for url in (REPOSITORY, "https://other.example/pymq"):
        assert publish(checkout, "--repository", url, "--issues", f"{url}/issues").returncode == 0
        for name in ("pyproject.toml", "client/pyproject.toml"):
            project = tomllib.loads((checkout / name).read_text())["project"]
            assert project["urls"] == {"Repository": url, "Issues": f"{url}/issues"}
            assert "compression" in project["optional-dependencies"] or "spark" in project["optional-dependencies"]
    assert publish(checkout, "--repository", 'https://h/"x').returncode == 2
    assert publish(checkout, "--repository", "http://h/").returncode == 2


def test_a_release_without_the_project_s_url_is_refused(checkout: Path) -> None:
    shutil.copy(ROOT / "client" / "pyproject.toml", checkout / "client" / "pyproject.toml")
    commit(checkout)
    assert "run scripts/published --repository URL" in refusal(checkout)


def test_an_unknown_argument_of_published_changes_nothing(checkout: Path) -> None:
    (checkout / "README.md").write_text(UNPUBLISHED)
    assert publish(checkout, "--now").returncode == 2
    assert (checkout / "README.md").read_text() == UNPUBLISHED


def test_no_text_names_the_index_before_the_first_release() -> None:
    if SOURCE != ".":
        pytest.skip("PyMQ is on the index")
    named = re.compile(r"pip install '?pymq-")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    texts = [
        name
        for name in listed
        if not name.startswith("tests/") and (ROOT / name).suffix in {".md", ".py", ".service", ".yaml"}
    ]
    assert len(texts) > 1000
    assert [name for name in texts if named.search((ROOT / name).read_text("utf-8"))] == []


def test_packages_of_two_versions_are_refused(checkout: Path) -> None:
    client = checkout / "client" / "pyproject.toml"
    client.write_text(client.read_text().replace(f'version = "{VERSION}"', 'version = "9.9.9"'))
    commit(checkout)
    assert f"pyproject.toml says {VERSION}, client/pyproject.toml does not" in refusal(checkout)
