"""Masks: what their numbers and colours mean is settled before training, by the configuration or by one reading."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.validation import validation_of

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
RED, BLACK = (255, 0, 0), (0, 0, 0)
NAMES = ["ground", "road"]


def squares(of: Any, ground: Any, dtype: Any = np.uint8) -> Any:
    """Return a mask of 8 x 8 whose upper quarter has one value, and the rest the other one."""
    found = np.empty((8, 8, *np.shape(of)), dtype=dtype)
    found[:], found[:2] = ground, of
    return found


def indexed(values: Any, palette: list[int]) -> Image.Image:
    image = Image.fromarray(values, "P")
    image.putpalette(palette)
    return image


def clear(values: Any, alpha: Any) -> Image.Image:
    image = Image.fromarray(values).convert("RGBA")
    image.putalpha(Image.fromarray(alpha))
    return image


def write(root: Path, mask: Any, ending: str = "png", count: int = 12, picture: str = "photos/{}.png") -> Path:
    """Write so many pictures of noise, each with this mask."""
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        for name, image in ((picture.format(number), Image.fromarray(noise)), (f"masks/{number}.{ending}", mask)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(root / name)
    return root


def splits_of(root: Path, classes: Any, **args: Any) -> Splits:
    given = {"path": "photos", "masks": "masks", "classes": classes, **args}
    return from_loaded(load_source("images", given, root, SplitSection()), SplitSection(), source="images")


def first(splits: Splits) -> list[int]:
    """Return the classes in the mask's first and last pixel."""
    mask = splits.samples["train"][0][1]
    return [int(mask[0, 0]), int(mask[-1, -1])]


@pytest.mark.parametrize(
    ("mask", "classes", "args", "expected"),
    [
        (squares(1, 0), NAMES, {}, [1, 0]),
        (squares(255, 0), NAMES, {}, [1, 0]),
        (squares(255, 0), 2, {}, [1, 0]),
        (squares(65535, 0, np.uint16), NAMES, {}, [1, 0]),
        (squares(1, 0, np.uint16), NAMES, {}, [1, 0]),
        (squares(True, False, bool), NAMES, {}, [1, 0]),
        (np.stack([squares(1, 0)] * 3, axis=-1), NAMES, {}, [1, 0]),
        (clear(squares(255, 0), squares(255, 255)), NAMES, {}, [1, 0]),
        (indexed(squares(1, 0), [0, 0, 0, 200, 200, 200]), NAMES, {}, [1, 0]),
        (indexed(squares(1, 0), [*BLACK, *RED]), {"ground": "#000000", "road": "#FF0000"}, {}, [1, 0]),
        (squares(RED, BLACK), {"road": list(RED), "ground": "#000000"}, {}, [1, 0]),
        (squares(RED, BLACK), {"sea": "#0000ff", "road": ["#ff0000", "#000000"]}, {}, None),
        (squares(128, 7), {"road": 128, "ground": 7}, {}, [1, 0]),
        (squares(128, 7), {"road": [127, 128], "ground": 7}, {}, [1, 0]),
        (squares(255, 0), {"ground": 0, "road": 255}, {}, [1, 0]),
        (squares(255, 0) + np.eye(8, dtype=np.uint8), NAMES, {"ignore": []}, None),
    ],
    ids=["numbers", "0 and 255", "counted", "0 and 65535", "16 bits", "1 bit", "grey in three channels", "opaque",
         "palette by index", "palette by colour", "colours", "absent colour", "any numbers", "several numbers",
         "255 named", "values of no class"],
)  # fmt: skip
def test_values_are_the_classes_that_one_reading_gives_them_else_they_are_refused(
    mask: Any, classes: Any, args: dict[str, Any], expected: list[int] | None, tmp_path: Path
) -> None:
    root = write(tmp_path, mask)
    if expected is None:
        with pytest.raises(DataError, match=r"No mask has a pixel of class 'sea' \(#0000ff\)|masks have class number"):
            splits_of(root, classes, **args)
        return
    splits = splits_of(root, classes, **args)
    assert first(splits) == expected
    shares = [*data_evidence(splits, root).understood["masks"].values()]
    assert [one.rpartition(", ")[2] for one in shares] == ["75 %", "25 %"]
    assert splits.class_names == (["0", "1"] if classes == 2 else NAMES)


@pytest.mark.parametrize(
    ("mask", "ending", "classes", "told", "changes"),
    [
        (squares(RED, BLACK), "png", NAMES, r"12 of 12 masks are coloured.*#000000 \(75 %\), #ff0000 \(25 %\)",
         {"ground": "#000000", "road": "#ff0000"}),
        (squares(RED, (9, 9, 8)), "png", NAMES, "masks are coloured", None),
        (squares(255, 0), "jpg", NAMES, "12 of 12 masks are JPEG or another lossy format", None),
        (squares(255, 0), "webp", NAMES, "12 of 12 masks are JPEG or another lossy format", None),
        (squares(128, 0), "png", NAMES, r"class number 128, .*2 classes \(0 to 1; 255 is ignored\)",
         {"ground": 0, "road": 128}),
        (squares(2, 1), "png", NAMES, "class number 2", {"ground": 1, "road": 2}),
        (squares(255, 0), "png", ["ground", "road", "sea"],
         r"No mask has a pixel of class 'road' \(1\), 'sea' \(2\); 25 % of the pixels are 255, which is ignored", None),
        (squares(2, 0), "png", ["ground", "road", "sea"], r"No mask has a pixel of class 'road' \(1\)",
         {"ground": 0, "sea": 2}),
        (squares(0, 0), "png", 2, r"No mask has a pixel of class '1' \(1\)", None),
        (np.arange(64, dtype=np.uint8).reshape(8, 8), "png", NAMES, "62|class number 2, 3", None),
        (clear(squares(255, 255), squares(255, 0)), "png", NAMES, "its transparency varies", None),
        (squares(0.5, 0, np.float32), "tif", NAMES, "its pixels are F", None),
    ],
    ids=["colours", "odd colours", "jpeg", "webp", "another number", "numbers from 1", "ignored object", "absent",
         "one class", "smoothed", "alpha", "floating"],
)  # fmt: skip
def test_masks_that_may_mean_another_thing_are_refused_with_what_is_in_them(
    mask: Any, ending: str, classes: Any, *, told: str, changes: Any, tmp_path: Path
) -> None:
    root = write(tmp_path, mask, ending)
    with pytest.raises(DataError, match=told) as refused:
        splits_of(root, classes)
    found = refused.value.details.get("changes")
    assert found == (None if changes is None else {"data.args.classes": changes})
    assert "skip_unreadable" not in refused.value.remedy
    if found is not None:
        assert len(set(first(splits_of(root, changes)))) == 2


def test_what_is_ignored_is_said_by_an_option_whose_default_is_255(tmp_path: Path) -> None:
    mask = squares(1, 0)
    mask[0, 0], mask[-1, -1] = 255, 9
    root = write(tmp_path, mask)
    assert first(splits_of(root, NAMES, ignore=[9, 255])) == [-100, -100]
    assert first(splits_of(root, {"ground": 0, "road": [1, 255]}, ignore=9)) == [1, -100]
    with pytest.raises(DataError, match=r"class number 255, .*9 is ignored"):
        splits_of(root, NAMES, ignore=9)
    colored = write(tmp_path / "colored", squares(RED, (0, 0, 9)))
    with pytest.raises(DataError, match="No mask has a pixel of class 'ground'.*75 % of the pixels are #000009"):
        splits_of(colored, {"ground": "#000000", "road": "#ff0000"}, ignore="#000009")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"classes": {"ground": 0, "road": "#ff0000"}}, "numbers or colours, not both"),
        ({"classes": {"ground": 0, "road": 0}}, "belongs to one class"),
        ({"classes": {"ground": 0, "road": 1}, "ignore": 1}, "belongs to one class"),
        ({"classes": {"ground": 0, "road": "red"}}, "classes"),
    ],
)
def test_a_table_of_values_is_checked_when_it_is_configured(args: dict[str, Any], told: str) -> None:
    data = {"use": "images", "args": {"path": "photos", "masks": "masks", **args}}
    with pytest.raises(Exception, match=told):
        parse_config({"model": {"use": "unet"}, "data": data})


def test_a_mask_that_changed_after_all_were_read_is_named(tmp_path: Path) -> None:
    splits = splits_of(write(tmp_path, squares(1, 0)), NAMES)
    for number in range(12):
        Image.fromarray(squares(7, 0)).save(tmp_path / "masks" / f"{number}.png")
    with pytest.raises(DataError, match=r"The mask of \d+.png cannot be read: it has 7, which is no class's"):
        first(splits)


def test_validation_takes_no_name_of_a_mask_for_a_class(tmp_path: Path) -> None:
    root = write(tmp_path, squares(1, 0))
    data = {"use": "images", "args": {"path": "photos", "masks": "masks", "classes": NAMES}}
    found = validation_of(parse_config({"model": {"use": "unet"}, "data": data}), root, {}, 0)
    assert found.problem is None
    assert found.report.worst_first() == []
    assert "shares are in `understood`" in next(
        one.why for one in found.report.not_checked if one.what == "class balance"
    )


@pytest.mark.parametrize(
    ("picture", "rename", "told"),
    [
        ("photos/{}.png", "masks/{}_mask.png", None),
        ("photos/img_{}.png", "masks/seg_{}.png", None),
        ("photos/{}.jpg", "photos/{}_mask.png", None),
        ("photos/img_{}.png", "masks/seg_0{}.png", "images have no mask in masks: img_0.png, .*masks of no image"),
        ("photos/{}.png", "masks/{}.bmp", "0.bmp and 0.png"),
    ],
    ids=["suffix", "both", "one folder", "other names", "two endings"],
)
def test_a_mask_goes_with_the_picture_of_its_name_but_for_what_all_names_share(
    picture: str, rename: str, told: str | None, tmp_path: Path
) -> None:
    write(tmp_path, squares(1, 0), picture=picture)
    for number in range(12):
        mask = tmp_path / "masks" / f"{number}.png"
        Image.fromarray(squares(1, 0) if number != 3 else squares(0, 1)).save(mask)
        (shutil.copy if ".bmp" in rename else shutil.move)(mask, tmp_path / rename.format(number))
    folder = rename.partition("/")[0]
    if told is not None:
        with pytest.raises(DataError, match=told):
            splits_of(tmp_path, NAMES, masks=folder)
        return
    loaded = load_source("images", {"path": "photos", "masks": folder, "classes": NAMES}, tmp_path, SplitSection())
    assert len(loaded.samples) == 12
    third = next(row for row, name in enumerate(loaded.samples.pictures.names) if "3" in name)
    assert [row for row in range(12) if loaded.samples[row][1][0, 0] == 0] == [third]
    assert "with" in loaded.understood["paired_as"]


def turned(root: Path, orientation: int, size: tuple[int, int], mask: Any) -> Path:
    """Write pictures that a camera noted as turned, (height, width) as stored, with masks."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    for number in range(12):
        noise = np.random.default_rng(number).integers(0, 255, (*size, 3), dtype=np.uint8)
        for folder in ("photos", "masks"):
            (root / folder).mkdir(exist_ok=True)
        Image.fromarray(noise).save(root / "photos" / f"{number}.jpg", exif=exif)
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
    return root


def test_a_mask_is_turned_with_its_picture_where_it_was_drawn_as_the_file_has_it(tmp_path: Path) -> None:
    stored = np.zeros((8, 16), dtype=np.uint8)
    stored[0, 0] = 1
    upright = np.rot90(stored, -1)  # orientation 6: turned clockwise to be upright
    for name, mask in (("stored", stored), ("upright", np.ascontiguousarray(upright))):
        (tmp_path / name).mkdir()
        splits = splits_of(turned(tmp_path / name, 6, (8, 16), mask), NAMES)
        assert np.array_equal(splits.samples["train"][0][1].numpy(), upright)
        understood = data_evidence(splits, tmp_path / name).understood
        assert understood["turned_by_exif"] == 12
        assert ("masks_drawn" in understood) is (name == "stored")


def test_where_no_size_shows_how_masks_were_drawn_the_configuration_says_it(tmp_path: Path) -> None:
    mask = np.zeros((8, 8), dtype=np.uint8)
    mask[0, 0] = 1
    root = turned(tmp_path, 3, (8, 8), mask)
    with pytest.raises(DataError, match="EXIF turns 12 pictures, and no size shows") as refused:
        splits_of(root, NAMES)
    assert refused.value.details["changes"] == {"data.args.masks_drawn": "upright"}
    assert first(splits_of(root, NAMES, masks_drawn="upright")) == [1, 0]
    assert first(splits_of(root, NAMES, masks_drawn="stored")) == [0, 1]


def test_a_mask_of_another_size_is_named_with_its_picture(tmp_path: Path) -> None:
    root = write(tmp_path, squares(1, 0))
    Image.new("L", (4, 8)).save(root / "masks" / "5.png")
    with pytest.raises(DataError, match=r"5.png is 8 x 8 pixels high and wide, its mask 5.png 8 x 4"):
        splits_of(root, NAMES, size=4)


def test_an_object_that_some_masks_have_as_1_and_others_as_255_is_not_ignored_in_these(tmp_path: Path) -> None:
    root = write(tmp_path, squares(1, 0))
    for number in range(5):
        Image.fromarray(squares(255, 0)).save(root / f"masks/{number}.png")
    with pytest.raises(DataError, match="7 of 12 masks have 0 and 1, 5 have 0 and 255, and none both") as raised:
        splits_of(root, NAMES)
    (classes,) = raised.value.details["changes"].values()
    assert splits_of(root, classes).understood["masks"]["255"] == "road, 10.4 %"
    assert splits_of(root, NAMES, ignore=255).understood["masks"]["255"] == "ignored, 10.4 %"
    Image.fromarray(np.array([[0, 1, 255, 0] * 2] * 8, np.uint8)).save(root / "masks/7.png")
    assert splits_of(root, NAMES).understood["masks"]["255"].startswith("ignored"), "a border, beside the object"
