"""The file that an entry names, found without importing anything."""

from __future__ import annotations

from pathlib import Path

from trainwright.trainer.base.near import near, near_matches
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.user_code.paths import confine, files_under


def entry_file(use: str, code_root: Path, *, key: str) -> Path:
    """Return the file that an entry names, without importing it.

    Raises:
        ConfigurationError: malformed, not found or outside the code root; `details["near"]` is the nearest entry.
    """
    place, _, name = use.partition(":")
    if not place or not name or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(
            f"`{key}` = {use!r} is not an entry.",
            remedy='Write "module:callable" or "path/file.py:callable".',
        )
    try:
        return _file_of(place, code_root, key=key)
    except ConfigurationError as error:
        meant = error.details.get("near")
        error.details["near"] = f"{meant}:{name}" if meant else None
        raise


def _file_of(place: str, code_root: Path, *, key: str) -> Path:
    if place.endswith(".py"):
        return confine(place, code_root, key=key)
    stem = place.replace(".", "/")
    for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
        if (code_root / candidate).is_file():
            return confine(candidate, code_root, key=key)
    modules = [
        name[:-3].removesuffix("/__init__").replace("/", ".") for name in files_under(code_root) if name.endswith(".py")
    ]
    raise ConfigurationError(
        f"`{key}`: no module {place!r} at {code_root / stem}.py or {code_root / stem}/__init__.py."
        f"{near_matches(place, modules)}",
        remedy="Entries are looked up under code_root only; correct the name or code_root.",
        details={"near": next(iter(near(place, modules)), None)},
    )
