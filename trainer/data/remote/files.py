"""Remote files, fetched into the cache: a file, a folder, or a pattern, whole or not at all."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from trainwright.trainer.base import download_log
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError, StorageError, TrainwrightError, near_matches
from trainwright.trainer.base.secrets import plain
from trainwright.trainer.data import cache
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.remote.connections import DOCUMENT
from trainwright.trainer.data.remote.storage import Opened, Storage, opened

PATTERN = "*?["
MAX_FILES = 200_000
VERSIONS = (
    "ETag", "etag", "e_tag", "VersionId", "version_id", "blob_id", "oid", "md5Hash", "LastModified", "last_modified",
    "mtime", "updated", "created",
)  # fmt: skip
"""Facts of stores by which a file's content has one version."""


@dataclass(frozen=True)
class Found:
    """A remote file."""

    key: str
    """Its name in the store: `bucket/rows/1.csv`."""
    inside: str
    """Its name under what the URL names: `1.csv`."""
    size: int | None
    version: str


def fetch(url: str, storage: Storage) -> list[str]:
    """Return absolute paths of what a URL names, kept in the cache: a file or folder; of a pattern, its files.

    What is kept is fetched again if the store names another version of any file. Where a store knows no versions, it is
    fetched once for planning's smoke run, and the runs that depend on it read the same.

    Raises:
        ConfigurationError: the URL, or the storage, is wrong.
        DataError: the store refuses, has no such file, breaks off, or the files change while they are read.
    """
    store = opened(url, storage)
    try:
        files = _listed(url, store)
        asked = [url, storage.model_dump(mode="json"), [[file.inside, file.size, file.version] for file in files]]
        once = "" if all(file.version for file in files) else connections.current().generation or uuid4().hex
        folder = cache.current().made(
            digest_json(["remote", *asked, once]), lambda place: _copied(url, store, files, place)
        )
    except TrainwrightError:
        raise
    except Exception as error:  # noqa: BLE001 - each store's library has errors of its own
        raise _broken(url, error, store) from None
    return _recorded(url, files, folder)


def _listed(url: str, store: Opened) -> list[Found]:
    """Return the files that a URL names, sorted by their keys."""
    path = str(store.files._strip_protocol(url))
    if any(sign in path for sign in PATTERN):
        listed = store.files.glob(path, detail=True)
        base = str(PurePosixPath(path[: min(path.find(sign) for sign in PATTERN if sign in path)] + "x").parent)
    else:
        about = store.files.info(path)
        base = str(PurePosixPath(path).parent)
        listed = {path: about} if about.get("type") != "directory" else store.files.find(path, detail=True)
    files = [_found(key, about, base) for key, about in sorted(listed.items()) if about.get("type") == "file"]
    if not files:
        raise DataError(
            f"{url} names no file: the store has nothing that fits it.",
            remedy="Correct `data.args.path`; a pattern is `s3://bucket/rows/*.parquet`; `**/` stands for any folders.",
            document=DOCUMENT,
        )
    if len(files) > MAX_FILES:
        raise DataError(f"{url} names {len(files)} files; at most {MAX_FILES} are fetched.",
                        remedy="Name a narrower pattern, or put the files into archives.")  # fmt: skip
    return files


def _found(key: str, about: dict[str, Any], base: str) -> Found:
    inside = PurePosixPath(key.split("?", maxsplit=1)[0]).relative_to(PurePosixPath(base.split("?", maxsplit=1)[0]))
    if ".." in inside.parts or inside.is_absolute() or "\\" in str(inside) or "\0" in str(inside):
        raise DataError(f"The store names a file {key!r}, which leads out of its folder.", remedy="Rename it there.")
    version = "|".join(f"{name}={about[name]}" for name in VERSIONS if about.get(name))
    return Found(key, str(inside), about.get("size"), version)


def _copied(url: str, store: Opened, files: list[Found], place: Path) -> None:
    """Fetch all files below a folder, and see that none changed meanwhile."""
    needed, free = sum(file.size or 0 for file in files), shutil.disk_usage(place).free
    if needed > free:
        raise StorageError(
            f"{url} holds {needed:,} bytes, and the cache's disk has {free:,} free.",
            remedy="Free disk space, or name fewer files in data.args.path.",
        )
    for file in files:
        target = place / file.inside
        target.parent.mkdir(parents=True, exist_ok=True)
        store.files.get_file(file.key, str(target))
        size = target.stat().st_size
        if file.size is not None and size != file.size:
            raise DataError(
                f"{url}: of {file.inside} came {size:,} of {file.size:,} bytes: the connection broke off.",
                remedy="Start the run again; nothing was kept.",
                document=DOCUMENT,
            )
    again = {file.key: file for file in _listed(url, store)} if files[0].version else {}
    changed = [file.inside for file in files if again and again.get(file.key) != file]
    if changed:
        raise DataError(
            f"{url}: {changed[0]} changed while the files were fetched; nothing was kept.",
            remedy="Start the run again once nobody writes there.",
            document=DOCUMENT,
        )


def _recorded(url: str, files: list[Found], folder: Path) -> list[str]:
    """Note what was fetched under its URL, and return its paths."""
    bare = url.split("?", maxsplit=1)[0]
    if any(sign in bare for sign in PATTERN):
        base = bare[: min(bare.find(sign) for sign in PATTERN if sign in bare)].rpartition("/")[0]
        download_log.note(folder, base)
        return [str(folder / file.inside) for file in files]
    name = PurePosixPath(files[0].inside).parts[0]
    download_log.note(folder / name, bare)
    return [str(folder / name)]


def _broken(url: str, error: Exception, store: Opened) -> DataError:
    """Return the error of a store that refuses, has no such file, or broke off."""
    url, cause = url.split("?", maxsplit=1)[0], error
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        cause = error.__cause__  # over HTTP, every failure is raised as a missing file
    text, status = plain(cause, store.secrets), getattr(cause, "status", None)
    if isinstance(cause, PermissionError) or status in (401, 403) or "NoCredentials" in type(cause).__name__:
        return DataError(
            f"The store forbids reading {url}: {text}.",
            remedy="The owner allows these credentials to list and read it, or sets others in the variables that "
            "`data.args.storage` names; public buckets need `storage: {anonymous: true}`.",
            document=DOCUMENT,
        )
    if isinstance(cause, FileNotFoundError) or status == 404 or type(cause).__name__.startswith("NoSuch"):
        return DataError(
            f"The store has no {url}.{_near(url, store)}", remedy="Correct `data.args.path`.", document=DOCUMENT
        )
    return DataError(
        f"{url} cannot be fetched: {type(cause).__name__}: {text}. Nothing was kept.",
        remedy="Check the connection and the store's address (`storage.endpoint_env`), then start the run again.",
        document=DOCUMENT,
    )


def _near(url: str, store: Opened) -> str:
    """Return the names beside a missing file that are like it."""
    try:
        path = PurePosixPath(str(store.files._strip_protocol(url)))
        names = [PurePosixPath(key).name for key in store.files.ls(str(path.parent), detail=False)]
    except Exception:  # noqa: BLE001 - it only helps
        return ""
    return near_matches(path.name, names)
