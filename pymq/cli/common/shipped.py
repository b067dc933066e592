"""Files that come with the package: the pages of the documentation, and examples of settings.

A wheel has them in ``pymq/_shipped`` (``hatch_build.py``); a checkout has them where they are written.
"""

from __future__ import annotations

from pathlib import Path

import pymq

_PACKAGE = Path(pymq.__file__).parent
_SHIPPED, _CHECKOUT = _PACKAGE / "_shipped", _PACKAGE.parent
# Pages beside docs/ in a checkout, by the names under which people ask for them.
TOP_PAGES = {
    "readme": "README.md",
    "architecture": "ARCHITECTURE.md",
    "changelog": "CHANGELOG.md",
    "security-policy": "SECURITY.md",
}


def page_files() -> dict[str, Path]:
    """Return name -> file of each page, sorted by name; none where neither a wheel nor a checkout is."""
    inside, outside = (_SHIPPED / "docs", _SHIPPED / "docs") if _SHIPPED.is_dir() else (_CHECKOUT / "docs", _CHECKOUT)
    top = {name: outside / file for name, file in TOP_PAGES.items()}
    found = {path.stem: path for path in inside.glob("*.md") if path.name not in TOP_PAGES.values()}
    return dict(sorted((found | {name: path for name, path in top.items() if path.is_file()}).items()))


def example_files() -> dict[str, Path]:
    """Return the path below ``conf/`` -> file of each example, sorted."""
    folder = (_SHIPPED if _SHIPPED.is_dir() else _CHECKOUT) / "conf"
    files = (path for path in folder.rglob("*") if path.is_file())
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in files))
