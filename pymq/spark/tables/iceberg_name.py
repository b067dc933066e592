"""How an Iceberg table is found: a catalog, what it needs, and the table's name in it. Imports nothing of pyiceberg."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pymq.errors import UsageError
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.places.places import Place

TABLE: Final = "pymq.messages"
CATALOG_FILE: Final = "catalog.db"


@dataclass(slots=True, frozen=True)
class IcebergName:
    """The table ``table`` (``NAMESPACE.NAME``) of a catalog."""

    catalog: str
    table: str
    location: str | None = None
    """Where a new table's files go; None: where the catalog says."""
    properties: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    """The directory with the catalog of SQLite."""

    def __str__(self) -> str:
        return f"{self.table} of the catalog {self.properties.get('uri', self.catalog)}"


def iceberg_name(catalog: str | None, table: str | None, output: Place | None) -> IcebergName:
    """Return the name of a table. Without a catalog it is in one of SQLite in the output directory.

    pyiceberg's own settings say where ``catalog`` is: ``~/.pyiceberg.yaml`` or ``PYICEBERG_CATALOG__NAME__URI``.

    Raises UsageError for a name without a namespace, and where an output is needed.
    """
    name = table or TABLE
    if not all(name.split(".")) or "." not in name:
        raise UsageError(f"table {name!r} has no namespace: write NAMESPACE.NAME")
    if catalog is not None:
        return IcebergName(catalog, name, None if output is None else _url(output))
    if output is None or isinstance(output, ObjectPath):
        raise UsageError(
            "an Iceberg table there needs a catalog: name one with --catalog, or a directory of this machine"
        )
    uri = f"sqlite:///{output / CATALOG_FILE}"
    location = f"{_url(output)}/{name.replace('.', '/')}"
    return IcebergName("pymq", name, location, {"type": "sql", "uri": uri, "warehouse": _url(output)}, output)


def _url(output: Place) -> str:
    return str(output) if isinstance(output, ObjectPath) else f"file://{output.absolute()}"
