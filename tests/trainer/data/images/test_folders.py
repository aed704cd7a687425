"""Folders of images: classes by folder, sizes and channels as asked, decoded late or at once with the same bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.assemble import from_loaded, withhold_test
from trainwright.trainer.data.images import loading
from trainwright.trainer.data.images.samples import DecodedImages, ImageSamples
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.looked_at import looked_at_evidence
from trainwright.trainer.evidence.split_rows import rows_of

Write = Callable[..., Path]


def splits_of(root: Path, **args: Any) -> Splits:
    loaded = load_source("images", {"path": "photos", **args}, root, SplitSection())
    return from_loaded(loaded, SplitSection(), source="images")


def batches(splits: Splits, workers: int = 0, epoch: int = 0, offset: int = 0) -> list[torch.Tensor]:
    loader = BatchLoader(splits.samples["train"], 8, seed=1, shuffle=True, num_workers=workers)
    return [batch[0] for batch in loader.batches(epoch, offset)]


@pytest.mark.requirement("TRAIN-1")
def test_pixels_and_classes_are_those_of_the_files_and_the_measure_is_the_train_splits(photos: Write) -> None:
    root = photos()
    loaded = load_source("images", {"path": "photos"}, root, SplitSection())
    assert loaded.class_names == ["a", "b"]
    pixels, label = loaded.samples.raw[0]
    expected = np.array(Image.open(root / "photos" / "a" / "000.png")).transpose(2, 0, 1)
    assert pixels.dtype == torch.uint8
    assert np.array_equal(pixels.numpy(), expected)
    assert label == 0
    splits = splits_of(root)
    train = torch.stack([splits.samples["train"][row][0] for row in range(len(splits.samples["train"]))])
    assert train.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert train.std(dim=(0, 2, 3)).tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    grey = load_source("images", {"path": "photos", "channels": 1, "size": [6, 4]}, root, SplitSection())
    assert grey.samples[0][0].shape == (1, 6, 4)


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_decoded_late_in_workers_or_at_once_the_same_bits_come_and_the_same_record(
    photos: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = photos()
    at_once = splits_of(root)
    assert isinstance(at_once.samples["train"], DecodedImages)
    monkeypatch.setattr(loading, "DECODED_BYTES", 0)
    late = splits_of(root)
    assert type(late.samples["train"]) is ImageSamples
    for found in (batches(late), batches(late, workers=2)):
        assert all(torch.equal(one, two) for one, two in zip(batches(at_once), found, strict=True))
    assert data_evidence(late, root).fingerprint == data_evidence(at_once, root).fingerprint
    assert looked_at_evidence(late, 1).not_compared is None


@pytest.mark.requirement("REPRO-4")
def test_pictures_are_split_and_fingerprinted_without_decoding_more_than_a_few(
    photos: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.trainer.data.images import samples

    root = photos(120)
    monkeypatch.setattr(loading, "DECODED_BYTES", 0)
    monkeypatch.setattr(samples, "SKETCHED", 10)
    monkeypatch.setattr(samples, "MEASURED", 20)
    decoded: list[int] = []
    read = samples.Pictures.raw
    monkeypatch.setattr(samples.Pictures, "raw", lambda self, row: decoded.append(row) or read(self, row))
    found = data_evidence(splits_of(root), root)
    assert found.sampled
    assert len(decoded) <= 20 + 3 * 10 + 1
    assert found.splits["train"].classes == {"0": 42, "1": 42}
    before = found.fingerprint
    Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(root / "photos" / "a" / "000.png")
    assert data_evidence(splits_of(root), root).fingerprint != before, "every file's bytes are in the fingerprint"


@pytest.mark.requirement("TRAIN-1")
def test_equal_files_are_in_one_split_and_the_test_pictures_are_withheld(photos: Write) -> None:
    root = photos(40)
    for number in range(0, 40, 4):
        shutil.copy(root / "photos" / "a" / f"{number:03d}.png", root / "photos" / "a" / f"copy {number}.png")
    splits = splits_of(root)
    evidence = data_evidence(splits, root)
    assert evidence.disjoint
    of = {digest: name for name, part in splits.samples.items() for digest in part.inputs}
    assert all(of[digest] == name for name, part in splits.samples.items() for digest in part.inputs)
    test, pictures = splits.samples["test"].rows, splits.samples["test"].pictures
    withhold_test(splits, is_built_in=True)
    assert not any(pictures.files[row] for row in test)
    assert not pictures.pixels[test].any()
    with pytest.raises(DataError, match="withheld"):
        pictures.raw(int(test[0]))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_an_archive_is_unpacked_once_and_holds_the_same_data(photos: Write, kind: str) -> None:
    root = photos(12)
    made = Path(shutil.make_archive(str(root / "photos"), kind, root, "photos"))
    from_archive = load_source("images", {"path": made.name}, root, SplitSection())
    from_folder = load_source("images", {"path": "photos"}, root, SplitSection())
    assert from_archive.samples.inputs == from_folder.samples.inputs
    assert from_archive.files == [made]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("args", "error", "told"),
    [
        ({"path": "photos/a"}, DataError, "has 0 folders: it is one class; beside it: b"),
        ({"path": "torn"}, DataError, "2 of 4 images cannot be read: a/0.png: .*; a/1.png: .*empty"),
        ({"path": "uneven"}, DataError, "b/1.png is 4 x 5 pixels high and wide, the first image 3 x 3; 1 of 4 differ"),
        ({"path": "linked"}, ConfigurationError, "a/1.png is a link to .*outside.*: outside the code root"),
        ({"path": "hollow"}, DataError, "2 folder.s. with images; c has none"),
        ({"path": "bomb"}, DataError, "The image a/0.png cannot be read: it promises more than 64,000,000 pixels"),
    ],
)
def test_a_bad_image_or_argument_is_told_with_its_path(
    args: dict[str, Any], error: type[Exception], told: str, photos: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = photos(4)
    outside = tmp_path_factory.mktemp("outside") / "1.png"
    Image.new("L", (3, 3)).save(outside)
    for name in ("torn", "uneven", "linked", "hollow", "bomb"):
        for number in range(4):
            place = root / name / "ab"[number // 2] / f"{number % 2}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (5, 4) if (name, number) == ("uneven", 3) else (3, 3), number).save(place)
    torn = root / "torn" / "a" / "0.png"
    torn.write_bytes(torn.read_bytes()[:40])
    (root / "torn" / "a" / "1.png").write_bytes(b"")
    (root / "linked" / "a" / "1.png").unlink()
    (root / "linked" / "a" / "1.png").symlink_to(outside)
    (root / "hollow" / "c").mkdir()
    if args["path"] == "bomb":  # which takes most of a second to write
        Image.new("1", (20000, 20000)).save(root / "bomb" / "a" / "0.png")
    with pytest.raises(error, match=told) as caught:
        load_source("images", args, root, SplitSection())
    assert caught.value.remedy


@pytest.mark.requirement("TRAIN-1")
def test_the_folder_of_one_class_is_refused_with_the_change_to_its_parent(photos: Write) -> None:
    root = photos(4)
    with pytest.raises(DataError, match="it is one class") as caught:
        load_source("images", {"path": "photos/a"}, root, SplitSection())
    assert "its parent, 'photos'" in caught.value.remedy
    (path,) = caught.value.details["changes"].values()
    assert load_source("images", {"path": path}, root, SplitSection()).class_names == ["a", "b"]


@pytest.mark.requirement("TRAIN-1")
def test_unreadable_images_are_left_out_and_counted_where_the_configuration_allows_it(photos: Write) -> None:
    root = photos(40)
    for number in (0, 2):
        file = root / "photos" / "a" / f"{number:03d}.png"
        file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"2 of 40 images cannot be read: a/000.png") as caught:
        splits_of(root)
    changes = {"data.args.skip_unreadable": True}
    assert caught.value.details == {"files": ["a/000.png", "a/002.png"], "count": 2, "changes": changes}
    evidence = data_evidence(splits_of(root, skip_unreadable=True), root)
    assert (evidence.skipped, evidence.skipped_files) == (2, ["a/000.png", "a/002.png"])
    assert sum(split.size for split in evidence.splits.values()) == 38


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("bound", [0, 256 << 20], ids=["late", "at once"])
def test_damage_between_header_and_end_is_left_out_too_and_looked_for_once(
    photos: Write, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.trainer.data.images import header_scan
    from trainwright.trainer.data.sources.images import Images

    monkeypatch.setattr(loading, "DECODED_BYTES", bound)
    root = photos(40)
    file = root / "photos" / "a" / "004.png"
    content = bytearray(file.read_bytes())
    content[60] ^= 255  # of its pixels; header and end stay
    file.write_bytes(content)
    with pytest.raises(DataError, match="The image a/004.png cannot be read") as caught:
        list(splits_of(root).samples["train"])
    assert "'data.args.skip_unreadable': true" in str(caught.value.remedy)
    found = splits_of(root, skip_unreadable=True)
    assert data_evidence(found, root).skipped_files == ["a/004.png"]
    assert sum(len([*batches]) for batches in (found.samples[name] for name in found.samples)) == 39
    frame = Images(path="photos", skip_unreadable=True).scan(root).collect()
    assert frame["path"].to_list()[-1] == "a/004.png", "row i is sample i, then the rest"
    monkeypatch.setattr(header_scan, "decode", None)
    assert splits_of(root, skip_unreadable=True).skipped == ["a/004.png"]


@pytest.mark.requirement("PIPE-2")
def test_a_scan_has_a_row_for_every_picture_with_what_is_wrong_with_it(photos: Write) -> None:
    from trainwright.trainer.data.sources.images import Images

    root = photos(6)
    (root / "photos" / "b" / "003.png").write_bytes(b"no picture")
    frame = Images(path="photos").scan(root).collect()
    assert frame.columns == ["path", "label", "height", "width", "mode", "bytes", "digest", "problem"]
    assert frame["label"].to_list() == ["a"] * 3 + ["b"] * 3
    assert frame.filter(frame["problem"].is_not_null())["path"].to_list() == ["b/003.png"]
    assert frame["width"].to_list() == [8, 8, 8, 8, 0, 8]
    skipping = Images(path="photos", skip_unreadable=True)
    names = skipping.load(root, SplitSection()).samples.pictures.names
    assert skipping.scan(root).collect()["path"].to_list() == [*names, "b/003.png"], "row i is sample i, then the rest"


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("skips", "severity"), [(False, "error"), (True, "warning")])
def test_images_that_are_left_out_on_purpose_are_no_error_of_validation(
    photos: Write, skips: bool, severity: str
) -> None:
    from trainwright.trainer.data.sources.images import Images
    from trainwright.trainer.data.validation.expectations import Expectations
    from trainwright.trainer.data.validation.frames import scanned
    from trainwright.trainer.data.validation.validate import validate

    root, args = photos(6), {"path": "photos", "skip_unreadable": skips}
    (root / "photos" / "b" / "003.png").write_bytes(b"no picture")
    frame = Images.model_validate(args).scan(root)
    checks = validate(scanned(frame, Expectations(), use="images", args=args)).checks
    found = next(check for check in checks if check.name == "corrupt")
    assert (found.passed, found.severity, found.count) == (False, severity, 1)


@pytest.mark.requirement("REPRO-4")
def test_a_split_by_a_column_reports_equal_files_on_both_sides_and_every_row_is_recorded(
    photos: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.trainer.data.images import samples

    root = photos(40)
    files = sorted(file.relative_to(root).as_posix() for file in (root / "photos").rglob("*.png"))
    shutil.copy(root / files[0], root / files[-1])
    splits, labels = ("test", "validation", "train", "train"), ["xy"[row % 2] for row in range(39)] + ["x"]
    lines = [f"{file},{labels[row]},{splits[row * 4 // 40]}" for row, file in enumerate(files)]
    (root / "labels.csv").write_text("\n".join(["file,label,split", *lines]))
    monkeypatch.setattr(samples, "SKETCHED", 3)
    monkeypatch.setattr(loading, "DECODED_BYTES", 0)
    section = SplitSection(by="given", column="split")
    loaded = load_source("images", {"path": "labels.csv", "target": "label"}, root, section)
    found = from_loaded(loaded, section, source="images")
    evidence = data_evidence(found, root)
    assert (evidence.shared_samples, evidence.disjoint) == (1, False)
    recorded = rows_of(found)
    assert recorded is not None
    rows, level, _ = recorded
    assert level == 0
    assert [len(rows[name]) for name in ("train", "validation", "test")] == [20, 10, 10]
