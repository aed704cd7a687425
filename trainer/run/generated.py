"""Files that are generated for the user: scanned for secrets, then written, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainwright.trainer.base.secret_scan import masked, require_no_secrets
from trainwright.trainer.run.directory import write_atomically


def write_generated(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write generated files (code, configurations, templates) into a folder, and return their paths.

    Args:
        texts: by path relative to the folder; folders in between are made.

    Raises:
        ConfigurationError: a text holds a secret; nothing is written.
        StorageError: the disk is full or the folder cannot be written.
    """
    require_no_secrets(texts)
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


def write_report(path: Path, text: str, *, keeps_random: bool = False) -> None:
    """Write a report, card or page with every secret as `***`: what it states has happened and cannot be refused.

    Args:
        keeps_random: as `masked` takes it: for a recorded configuration.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    write_atomically(path, masked(text, keeps_random=keeps_random).encode())
