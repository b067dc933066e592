"""A hook of MkDocs (mkdocs.yml): adds the pages whose sources lie outside docs/, and translates links.

Every link in a Markdown file of the tree is relative to that file, as a forge wants it. On the site a link to a file
that has a page, or to a picture, becomes a link to that; a link to another file of the tree becomes its text. A link to
a file that does not exist stays as it is, and ``mkdocs build --strict`` fails at it.

A page from outside docs/ must have a
name that docs/ doesn't use: MkDocs would show one of the two pages only.

In the code of a table cell a forge wants ``|`` escaped, where MkDocs would show the backslash: the hook removes it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"

# Source in the tree -> page on the site.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "client/README.md": "client-package.md",
    "examples/README.md": "examples.md",
    "plugins/README.md": "plugins.md",
}
SOURCES = {page: source for source, page in OUTSIDE.items()}

_LINK = re.compile(r"\[([^\[\]]*)\]\((?!\w+:|#)([^()\s#]+)(#[^()\s]*)?\)")
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/. Raise PluginError when docs/ has a page of the same name."""
    for source, page in OUTSIDE.items():
        if files.get_file_from_path(page) is not None:
            raise PluginError(f"docs/{page} and {source} would be the same page of the site")
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the tree into links between pages, and unescape ``|`` in the code of tables."""
    here = page.file.src_uri
    folder = posixpath.dirname(SOURCES.get(here, f"{DOCS}/{here}"))
    markdown = _TABLE_ROW.sub(_without_escapes, markdown)
    return _LINK.sub(lambda link: _site_link(link, here, folder), markdown)


def _without_escapes(row: re.Match[str]) -> str:
    return _CODE.sub(lambda code: code.group().replace("\\|", "|"), row.group())


def _site_link(link: re.Match[str], here: str, folder: str) -> str:
    text, target, anchor = link.group(1), link.group(2), link.group(3) or ""
    source = posixpath.normpath(posixpath.join(folder, target))
    page = OUTSIDE.get(source) or (source.removeprefix(f"{DOCS}/") if source.startswith(f"{DOCS}/") else None)
    if page is not None:
        return f"[{text}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{anchor})"
    return text if (ROOT / source).exists() else link.group(0)
