"""Folders of pictures as users have them: links, other endings, files that are none, deeper folders, odd pixels."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import allow_links
from trainwright.trainer.data.file_digests import FileDigests
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
Write = Callable[..., Path]


def loaded(root: Path, **args: Any) -> Loaded:
    found = load_source("images", {"path": "photos", **args}, root, SplitSection())
    assert isinstance(found, Loaded)
    return found


def elsewhere(root: Path, store: Path) -> None:
    """Move the class folders into a store, and leave links to them; of one class to each file."""
    store.mkdir(parents=True, exist_ok=True)
    for name in "ab":
        shutil.move(root / "photos" / name, store / name)
    (root / "photos" / "a").symlink_to(store / "a")
    (root / "photos" / "b").mkdir()
    for file in (store / "b").iterdir():
        (root / "photos" / "b" / file.name).symlink_to(file)


def test_links_within_the_code_root_are_followed_and_their_contents_are_in_the_digest(
    photos: Write, tmp_path: Path
) -> None:
    root = photos(8)
    plain, before = loaded(root).samples.inputs, digest_path(root / "photos")
    elsewhere(root, root / "store")
    found = loaded(root)
    assert found.samples.inputs == plain
    assert found.understood["links_followed"] == 5
    assert digest_path(root / "photos") == FileDigests(tmp_path / "cache").of(root / "photos") == before
    (root / "photos" / "a" / "back").symlink_to(root / "photos" / "a")  # leads in a circle
    assert digest_path(root / "photos") == before
    (root / "store" / "a" / "000.png").write_bytes(b"another picture")
    assert digest_path(root / "photos") != before


@pytest.mark.parametrize("table", [False, True], ids=["folders", "table"])
def test_links_out_of_the_code_root_are_followed_into_folders_that_the_owner_allows_alone(
    table: bool, photos: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root, store = photos(8), tmp_path_factory.mktemp("store")
    elsewhere(root, store)
    lines = [f"photos/{name}/00{number}.png,{name}" for number, name in enumerate("abab")]
    (root / "labels.csv").write_text("\n".join(["file,label", *lines]))
    args = {"path": "labels.csv", "target": "label"} if table else {}
    with pytest.raises(ConfigurationError, match=f"is a link to {store}.*: outside the code root") as refused:
        loaded(root, **args)
    assert "code_roots" in refused.value.remedy
    try:
        allow_links([str(store)])
        assert len(loaded(root, **args).samples) == (4 if table else 8)
    finally:
        allow_links([])


def test_pictures_are_known_by_what_they_are_and_what_is_none_is_counted_and_named(photos: Write) -> None:
    root = photos(8)
    folder = root / "photos" / "a"
    for number, name in ((0, "a.jpeg_large"), (2, "B.PNG"), (4, "no ending")):
        (folder / f"00{number}.png").rename(folder / name)
    for name in ("notes.txt", "Thumbs.db", "._000.png", ".DS_Store", "labels.xml", "more.xml"):
        (folder / name).write_text("no picture")
    (root / "photos" / "__MACOSX").mkdir()
    (root / "photos" / ".ipynb_checkpoints").mkdir()
    shutil.copy(folder / "B.PNG", root / "photos" / "beside.png")
    found = loaded(root)
    assert [Path(name).name for name in found.samples.pictures.names[:4]] == [
        "006.png", "B.PNG", "a.jpeg_large", "no ending"
    ]  # fmt: skip
    understood = found.understood
    assert understood["no_pictures"] == {".xml": 2, ".txt": 1}
    assert understood["no_pictures_first"] == ["a/labels.xml", "a/more.xml", "a/notes.txt"]
    assert (understood["classes"], understood["in_no_class_folder"]) == ({"a": 4, "b": 4}, 1)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("1.heic", b"\x00\x00\x00\x18ftypheic", "1.heic cannot be read: it is no picture of a known format"),
        ("1.png", b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS; `git lfs pull`"),
        ("1.jpg", b"<!DOCTYPE html><html>", "1.jpg cannot be read: it is a web page"),
        ("1.JPG", b"", "1.JPG cannot be read: the file is empty"),
        ("1.png", None, "1.png cannot be read: No such file"),
    ],
    ids=["heic", "lfs", "web page", "empty", "dangling link"],
)
def test_a_file_that_is_meant_as_a_picture_and_is_none_is_an_error(
    name: str, content: bytes | None, told: str, photos: Write
) -> None:
    root = photos(8)
    file = root / "photos" / "a" / name
    if content is None:
        file.symlink_to(root / "gone.png")
    else:
        file.write_bytes(content)
    with pytest.raises(DataError, match=told):
        loaded(root)
    assert loaded(root, skip_unreadable=True).skipped == [f"a/{name}"]


def test_pictures_in_deeper_folders_are_named_with_the_folder_that_has_the_classes(photos: Write) -> None:
    root = photos(8)
    (root / "photos").rename(root / "inner")
    (root / "photos").mkdir()
    (root / "inner").rename(root / "photos" / "inner")
    with pytest.raises(DataError, match=r"images lie deeper, in inner/a \(4\), inner/b \(4\)") as refused:
        loaded(root)
    (path,) = refused.value.details["changes"].values()
    assert loaded(root, path=path).class_names == ["a", "b"]
    (root / "photos" / "inner" / "a" / "old").mkdir()
    shutil.copy(root / "photos" / "inner" / "a" / "000.png", root / "photos" / "inner" / "a" / "old")
    with pytest.raises(DataError, match=r"inner has 2 folder\(s\) with images; images lie deeper, in a/old \(1\)"):
        loaded(root, path=path)


def test_what_of_pixels_is_not_used_is_stated(photos: Write) -> None:
    root = photos(8, ending="tif")
    grey = np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 3
    odd = {
        "rgba.png": Image.fromarray(np.stack([grey] * 4, axis=-1)),
        "cmyk.jpg": Image.fromarray(grey).convert("CMYK"),
        "16.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "turned.jpg": Image.fromarray(grey),
    }
    for name, image in odd.items():
        image.save(root / "photos" / "a" / name, **({"exif": exif} if name == "turned.jpg" else {}))
    frames = [Image.fromarray(grey), Image.fromarray(255 - grey)]
    for name in ("film.gif", "pages.tiff", "film.webp"):
        frames[0].save(root / "photos" / "b" / name, save_all=True, append_images=frames[1:])
    understood = loaded(root, channels=1).understood
    kept = ("pictures", "height_x_width", "turned_by_exif", "only_first_frame_of", "transparency_dropped",
            "upper_8_of_16_bits")  # fmt: skip
    assert [understood[name] for name in kept] == [
        15, "8 x 8", 1, 3, 1, f"1; values up to {257 * int(grey.max())} leave {int(grey.max()) + 1} levels"
    ]  # fmt: skip
    assert understood["pixels"]["CMYK"] == 1


def test_pictures_of_16_bits_whose_upper_8_hold_nothing_are_refused_before_they_are_black(photos: Write) -> None:
    root = photos(8)
    for number, file in enumerate(sorted((root / "photos").rglob("*.png"))):
        grey = np.random.default_rng(number).integers(0, 200, (8, 8)).astype(np.uint16)
        Image.fromarray(grey).save(file)
    with pytest.raises(DataError, match="8 pictures have 16 bits a pixel and, in 8 that were read, no value above 19"):
        loaded(root)


def test_masks_among_the_pictures_of_a_class_are_not_learned_as_pictures(photos: Write) -> None:
    root = photos(8)
    shutil.copy(root / "photos" / "a" / "000.png", root / "photos" / "a" / "000_mask.png")
    with pytest.raises(DataError, match=r"1 of 9 pictures are named as masks of others beside them: a/000_mask.png"):
        loaded(root)
    (root / "photos" / "a" / "000.png").unlink()
    assert len(loaded(root).samples) == 8
