"""A folder of images is data: an image edited, added or removed after a run is a change, and is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.tools.gates.staleness import changes_of_surroundings
from trainwright.trainer.run.evidence import Code, Data, Environment

VALUES: dict[str, Any] = {
    "model": {"use": "resnet", "args": {"depth": 8, "width": 4}},
    "data": {"use": "images", "args": {"path": "photos"}, "split": {"validation": 0.2, "test": 0.2}},
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}


def draw(path: Path, number: int) -> None:
    """Write an image of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


@pytest.mark.requirement("PHASE-8", "REPRO-4")
def test_an_edited_added_or_removed_image_is_a_change_and_a_hidden_file_is_none(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    photos = tmp_path / "photos"
    for number in range(20):
        draw(photos / f"class {number % 2}" / f"{number}.png", number)
    run = make_run(tmp_path / "run-1", VALUES, code_root=str(tmp_path))
    assert work(run) == 0
    seen: Any = SimpleNamespace(data=run.part(Data), code=Code(), environment=Environment(), imported=[])
    assert list(seen.data.files) == ["photos"]

    def changes() -> list[str]:
        return changes_of_surroundings(str(tmp_path), seen)

    (photos / ".DS_Store").write_text("what a file browser leaves")
    assert changes() == []
    draw(photos / "class 0" / "0.png", 99)
    assert changes() == ["data: photos changed"]
    draw(photos / "class 0" / "0.png", 0)
    assert changes() == []
    draw(photos / "class 1" / "100.png", 100)
    assert changes() == ["data: photos changed"]
    (photos / "class 1" / "100.png").unlink()
    (photos / "class 0" / "0.png").unlink()
    assert changes() == ["data: photos changed"]
