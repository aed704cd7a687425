"""Origin of the data: its licence, and the digests by which DVC tracks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trainwright.trainer.base.sidecar_files import read_beside
from trainwright.trainer.base.text import one_line
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.dvc import tracked_digests
from trainwright.trainer.run.profile import Origin

CARDS = ("README.md", "DATASET_CARD.md", "data_card.md")
MAX_CHARACTERS = 200


def origin_evidence(config: TrainingConfig, files: list[Path], code_root: Path) -> Origin:
    """Return the licence that the configuration or a card beside the files names, and DVC's digests of the files."""
    root = code_root.resolve()
    named = config.data.licence if config.data is not None else None
    licence, source = (named, "data.licence") if named else _of_a_card(files, root)
    return Origin(licence=licence, licence_from=source, dvc=tracked_digests(files, root))


def _of_a_card(files: list[Path], root: Path) -> tuple[str | None, str | None]:
    for card in dict.fromkeys(_cards(files, root)):
        licence = _licence_in(card)
        if licence is not None:
            return licence, card.relative_to(root).as_posix()
    return None, None


def _cards(files: list[Path], root: Path) -> Iterator[Path]:
    """Yield where a card of the files may be: `iris.csv.md`, `iris.md`, then one beside or in their folder."""
    for path in files:
        folder = path if path.is_dir() else path.parent
        for card in (path.with_name(path.name + ".md"), path.with_suffix(".md"), *(folder / name for name in CARDS)):
            if card.is_file() and card.resolve().is_relative_to(root):
                yield card.resolve()


def _licence_in(card: Path) -> str | None:
    """Return `license` of a card's YAML head, as Hugging Face's dataset cards have it; None without one."""
    text = read_beside(card)
    if not text.startswith("---\n"):
        return None
    try:
        head: Any = yaml.safe_load(text[4:].partition("\n---")[0])
    except yaml.YAMLError:
        return None
    found = (head.get("license") or head.get("licence")) if isinstance(head, dict) else None
    listed = found if isinstance(found, list) else [found]
    return one_line(", ".join(str(one) for one in listed))[:MAX_CHARACTERS] if found else None
