"""Paths of object stores, with those methods of :class:`pathlib.Path` that exports and readers of them use.

They go through pyarrow, so no jars are needed. An object store has no directories and no renames: what is written
becomes visible as a whole when it is closed, and a listing shows it from then on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pymq.errors import PymqError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

S3_SCHEMES: Final = ("s3", "s3a")
SCHEMES: Final = (*S3_SCHEMES, "gs", "abfs", "abfss")
CONNECT_TIMEOUT_S: Final = 10.0


_REQUEST: Final = re.compile(r"\(Request ID: [^)]*\)")


class ObjectStoreError(PymqError):
    """An object store refused a request, or didn't answer."""


class ObjectPath:
    """The name of an object, or what the names of several begin with."""

    __slots__ = ("_key", "url")

    def __init__(self, url: str) -> None:
        """Raise UsageError for another URL than ``scheme://bucket/name``."""
        parts = urlsplit(url)
        names = [name for name in parts.path.split("/") if name]
        if parts.scheme not in SCHEMES or not parts.netloc or ".." in names or parts.query or parts.fragment:
            raise UsageError(f"{url} is no path of an object store: write {SCHEMES[1]}://BUCKET/NAME")
        self.url = "/".join([f"{parts.scheme}://{parts.netloc}", *names])
        # Azure has the container where others have the bucket, and the account behind it.
        self._key = "/".join([parts.netloc.partition("@")[0], *names])

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"ObjectPath({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __lt__(self, other: ObjectPath) -> bool:
        return self.url < other.url

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self._key).name

    @property
    def parent(self) -> ObjectPath:
        return ObjectPath(self.url.rpartition("/")[0])

    @property
    def file_system(self) -> pafs.FileSystem:
        """pyarrow's file system of the bucket."""
        return file_system(*urlsplit(self.url)[:2])

    @property
    def key(self) -> str:
        """The name for :attr:`file_system`: bucket and name."""
        return self._key

    def absolute(self) -> ObjectPath:
        """Return itself."""
        return self

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        """Return the rest of the name below another one. Raises ValueError."""
        return PurePosixPath(self._key).relative_to(other._key)

    def exists(self) -> bool:
        return bool(self._info().type.name != "NotFound")

    def is_dir(self) -> bool:
        """Return whether there are objects below this name."""
        return bool(self._info().type.name == "Directory")

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield the names directly below this one, in order."""
        return iter(sorted(self / PurePosixPath(info.path).name for info in self._listed(recursive=False)))

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Yield the names directly below this one that match a pattern of one level, in order."""
        return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))

    def read_text(self) -> str:
        """Return the content. Raises FileNotFoundError."""
        with errors_of(self), self.open_input() as stream:
            return str(stream.read().decode())

    def write_text(self, text: str) -> None:
        """Write the object as a whole, in place of one of this name."""
        with errors_of(self), self.open_output() as stream:
            stream.write(text.encode())

    def open_output(self) -> pa.NativeFile:
        """Return a stream; the object is there once it is closed."""
        with errors_of(self):
            return self.file_system.open_output_stream(self._key)

    def open_input(self) -> pa.NativeFile:
        """Return the content as a file that can be sought in. Raises FileNotFoundError."""
        with errors_of(self):
            return self.file_system.open_input_file(self._key)

    def remove_tree(self) -> None:
        """Remove all objects below this name."""
        with errors_of(self):
            try:
                self.file_system.delete_dir(self._key)
            except FileNotFoundError:
                return

    def _info(self) -> pafs.FileInfo:
        with errors_of(self):
            return self.file_system.get_file_info(self._key)

    def _listed(self, *, recursive: bool) -> list[pafs.FileInfo]:
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(self._key, allow_not_found=True, recursive=recursive)
        with errors_of(self):
            found: list[pafs.FileInfo] = self.file_system.get_file_info(selector)
        return found


@cache
def file_system(scheme: str, bucket: str) -> pafs.FileSystem:
    """Return the file system of a bucket, with the settings that the environment names (docs/spark.md).

    Raises UsageError when this pyarrow lacks it.
    """
    import pyarrow as pa
    import pyarrow.fs as pafs

    try:
        if scheme not in S3_SCHEMES:
            return pafs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]
        return pafs.S3FileSystem(connect_timeout=CONNECT_TIMEOUT_S, allow_delayed_open=True, **_s3_settings(bucket))
    except (ImportError, pa.ArrowNotImplementedError, AttributeError) as error:
        raise UsageError(f"pyarrow here has no file system for {scheme}://: {error}") from error


def _s3_settings(bucket: str) -> dict[str, Any]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not endpoint:
        import pyarrow.fs as pafs

        return {"region": region or pafs.resolve_s3_region(bucket)}
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"AWS_ENDPOINT_URL is {endpoint}: write http://HOST:PORT or https://HOST")
    return {"region": region or "us-east-1", "scheme": parts.scheme, "endpoint_override": parts.netloc}


@contextmanager
def errors_of(path: ObjectPath) -> Iterator[None]:
    """Turn what pyarrow raises into FileNotFoundError or an ObjectStoreError of one line."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ObjectStoreError(f"{path}: {short_reason(str(error))}") from error


def short_reason(text: str) -> str:
    """Return an error of pyarrow's without the request's number, which differs each time."""
    return " ".join(_REQUEST.sub("", text.partition("Detail:")[0]).split()).removesuffix(".")
