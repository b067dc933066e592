"""An extension of Griffe (mkdocs.yml): shows Sphinx roles of docstrings, such as ``:meth:`start```, as code."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class DocstringRoles(griffe.Extension):
    """Replaces each role by its target in backquotes."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of ``obj``, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
