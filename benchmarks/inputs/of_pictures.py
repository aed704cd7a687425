"""Pictures and masks: what is seen is what the file means; a class that no mask has is named before training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from case import EITHER, REFUSED, Case, Right
from PIL import Image
from tables import CLASSES, LOSSES, NUMBER

SIDE, COUNT = 16, 72
Picture = Callable[[Path, Any, int], None]
"""Writes grey levels (side, side) of uint8 as a picture, for the file's number; the path has no ending."""


def png(mode: str = "L", **options: Any) -> Picture:
    """Return what writes a PNG in a mode of Pillow."""
    return lambda path, levels, _: Image.fromarray(levels).convert(mode).save(path.with_suffix(".png"), **options)


def levels(label: int, draw: Any) -> Any:
    """Return a dark or a bright picture whose upper half is the brighter one."""
    grey = draw.normal(60 + 110 * label, 12, (SIDE, SIDE))
    grey[: SIDE // 2] += 30
    return grey.clip(0, 255).astype(np.uint8)


def folders(
    write: Picture, *, names: tuple[str, ...] = ("bright", "dark"), base: str = "photos"
) -> Callable[[Path], object]:
    """Return what writes a folder of pictures for each class; the first is the bright one."""

    def made(folder: Path) -> None:
        draw = np.random.default_rng(0)
        for label, name in enumerate(names):
            (folder / base / name).mkdir(parents=True)
            for number in range(COUNT // len(names)):
                write(
                    folder / base / name / f"{number:03d}",
                    levels(1 - label if len(names) == 2 else label % 2, draw),
                    number,
                )

    return made


def is_seen(seen: Any) -> str:
    """Return what is wrong with pictures of two brightnesses, whose upper half is brighter."""
    names, grey = seen.data["class_names"], seen.inputs.astype(float).mean(1)
    means = [grey[seen.targets == label].mean() for label in range(2)]
    if means[names.index("bright")] < means[names.index("dark")] + 60:
        return f"mean levels are {dict(zip(names, means, strict=True))}"
    upper = grey[:, : SIDE // 2].mean() - grey[:, SIDE // 2 :].mean()
    return "" if upper > 10 else f"the upper half is not the brighter one ({upper:.0f})"


def pictures(
    name: str,
    source: str,
    write: Callable[[Path], object],
    *,
    args: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    goal: dict[str, Any] | None = None,
    **right: Any,
) -> Case:
    """Return an input of classified pictures."""
    whole = {
        "model": {"use": "mlp", "args": {"hidden": [8]}},
        "data": {"use": "images", "args": {"path": "photos", "size": SIDE, "channels": 1, **(args or {})}},
        "loss": CLASSES[0],
        "metrics": CLASSES[1],
        "training": {"epochs": 2},
        "loader": {"batch_size": 16},
        **(config or {}),
    }
    usual: dict[str, Any] = {"target": ["bright", "dark"], "rows": COUNT, "holds": is_seen}
    return Case(f"picture-{name}", source, write, whole, goal or CLASSES[2], Right(**(usual | right)))


def masked(
    name: str,
    source: str,
    write: Picture,
    *,
    classes: list[str] | int | None = None,
    values: tuple[int, ...] = (0, 1),
    args: dict[str, Any] | None = None,
    holds: Callable[[Any], str] | None = None,
    **right: Any,
) -> Case:
    """Return an input of pictures with masks of numbers; `write` gets the class numbers."""

    def made(folder: Path) -> None:
        draw = np.random.default_rng(1)
        for place in ("photos", "masks"):
            (folder / place).mkdir()
        for number in range(COUNT):
            numbers = np.zeros((SIDE, SIDE), np.uint8)
            row, column = draw.integers(0, 8, 2)
            numbers[row : row + 8, column : column + 8] = values[1 + number % (len(values) - 1)]
            grey = draw.normal(60, 10, (SIDE, SIDE)) + 40.0 * np.searchsorted(values, numbers)
            png()(folder / "photos" / f"{number:03d}", grey.clip(0, 255).astype(np.uint8), number)
            write(folder / "masks" / f"{number:03d}", numbers, number)

    def is_quarter(seen: Any) -> str:
        """Return what is wrong with masks whose object covers a quarter of each."""
        found = {int(value): float((seen.targets == value).mean()) for value in np.unique(seen.targets)}
        ours = sum(share for value, share in found.items() if value > 0)
        return "" if abs(ours - 0.25) < 0.02 and min(found) == 0 else f"shares of the classes are {found}"

    data = {
        "path": "photos",
        "masks": "masks",
        "classes": classes or ["background", "lesion"],
        "size": SIDE,
        "channels": 1,
        **(args or {}),
    }
    whole = {
        "model": {"use": "unet", "args": {"depth": 1, "width": 4}},
        "data": {"use": "images", "args": data},
        "loss": "cross_entropy",
        "metrics": ["mean_iou"],
        "training": {"epochs": 1},
        "loader": {"batch_size": 16},
    }
    goal = {"metric": "mean_iou", "direction": "maximize", "target": 0.1}
    return Case(
        f"mask-{name}", source, made, whole, goal, Right(**({"rows": COUNT, "holds": holds or is_quarter} | right))
    )


def palette(path: Path, numbers: Any, _: int) -> None:
    """Write class numbers as a palette picture of loud colours."""
    picture = Image.frombytes("P", numbers.shape[::-1], numbers.tobytes())
    picture.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    picture.save(path.with_suffix(".png"))


def colours(path: Path, numbers: Any, _: int) -> None:
    """Write class numbers as colours, each class another one."""
    Image.fromarray(np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], np.uint8)[numbers]).save(path.with_suffix(".png"))


def scaled(by: int, ending: str = ".png", **options: Any) -> Picture:
    """Return what writes class numbers times a factor."""
    return lambda path, numbers, _: Image.fromarray(numbers * np.uint8(by)).save(path.with_suffix(ending), **options)


def turned(path: Path, grey: Any, _: int) -> None:
    """Write a picture upside down, with the camera's note that says so."""
    picture = Image.fromarray(grey[::-1, ::-1].copy())
    exif = picture.getexif()
    exif[0x0112] = 3
    picture.save(path.with_suffix(".jpg"), exif=exif, quality=95)


def sixteen(path: Path, grey: Any, _: int) -> None:
    """Write a picture of 16 bits."""
    Image.fromarray(grey.astype(np.uint16) * 257).save(path.with_suffix(".png"))


def animated(path: Path, grey: Any, _: int) -> None:
    """Write a GIF of three frames, the first of which is the picture."""
    frames = [Image.fromarray(np.full_like(grey, level)) for level in (5, 250)]
    Image.fromarray(grey).save(path.with_suffix(".gif"), save_all=True, append_images=frames)


def transparent(path: Path, grey: Any, _: int) -> None:
    """Write a picture that is opaque throughout."""
    Image.fromarray(np.dstack([grey, grey, grey, np.full_like(grey, 255)])).save(path.with_suffix(".png"))


def beside(name: str, content: bytes) -> Callable[[Path], object]:
    """Return what writes the two folders, and a file more into the first."""
    return lambda folder: (folders(png())(folder), (folder / "photos" / "bright" / name).write_bytes(content))


def linked(folder: Path) -> None:
    """Write class folders that are links within the code root."""
    folders(png(), base="store")(folder)
    (folder / "photos").mkdir()
    for name in ("bright", "dark"):
        (folder / "photos" / name).symlink_to(folder / "store" / name)


def linked_outside(folder: Path) -> None:
    """Write a class folder that is a link to where no owner lets data be read."""
    folders(png())(folder)
    (folder / "photos" / "system").symlink_to("/usr/share")


def tabled(header: str, spell: Callable[[int, int], str]) -> Callable[[Path], object]:
    """Return what writes pictures and a table of their paths."""

    def made(folder: Path) -> None:
        draw = np.random.default_rng(0)
        (folder / "scans").mkdir()
        rows = [header]
        for number in range(COUNT):
            png()(folder / "scans" / f"{number:03d}", levels(number % 2, draw), number)
            rows.append(spell(number, number % 2))
        (folder / "rows.csv").write_text("\n".join(rows) + "\n")

    return made


ANY = {"target": None, "rows": None, "holds": None}
BRIGHT = ("dark", "bright")
DOSES = {"path": "rows.csv", "pictures": "scans", "target": "dose"}
CASES = [
    pictures("plain", "kind: nothing is odd", folders(png())),
    pictures("colours", "kind: RGB", folders(png("RGB"))),
    pictures("transparent", "kind: RGBA", folders(transparent)),
    pictures("printing-colours", "kind: CMYK", folders(lambda path, grey,
          _: Image.fromarray(grey).convert("CMYK").save(path.with_suffix(".jpg"), quality=95))),
    pictures("palette", "kind: 256 colours", folders(png("P"))),
    pictures("turned", "huggingface/diffusers#3465", folders(turned)),
    pictures("sixteen-bits", "microsoft/CNTK#961", folders(sixteen)),
    pictures("sixteen-bits-twelve-used", "kind: 12 bits in 16", folders(lambda path, grey,
          _: Image.fromarray(grey.astype(np.uint16) * 16).save(path.with_suffix(".png"))), may=EITHER,
          words=("bit|level",), named=("bit|level",), holds=None),
    pictures("animated", "kind: a GIF of three frames", folders(animated)),
    pictures("ending-in-capitals", "kind: .JPG", folders(lambda path, grey,
          _: Image.fromarray(grey).save(path.with_suffix(".JPG"), quality=95))),
    pictures("webp", "kind: WebP", folders(lambda path, grey,
          _: Image.fromarray(grey).convert("RGB").save(path.with_suffix(".webp"), quality=95))),
    pictures("tiff", "kind: TIFF", folders(lambda path, grey,
          _: Image.fromarray(grey).save(path.with_suffix(".tif")))),
    pictures("wrong-ending", "kind: a JPEG named png", folders(lambda path, grey,
          _: Image.fromarray(grey).save(path.with_suffix(".png"), "JPEG", quality=95))),
    pictures("other-sizes", "kind: sizes that differ, none said", folders(lambda path, grey,
          number: Image.fromarray(grey).resize((16, 16 + number % 3)).save(path.with_suffix(".png"))),
          args={"size": None}, may=REFUSED, words=("size",), **ANY),
    pictures("hidden-files", "pytorch/vision#2831", beside("._x.png", b"\0\5\26\7")),
    pictures("thumbnails", "pytorch/vision#109", beside("Thumbs.db", b"\xd0\xcf\x11\xe0")),
    pictures("broken", "kind: a file cut short", beside("broken.png", b"\x89PNG\r\n\x1a\n" + bytes(20)), may=REFUSED,
          words=(r"broken\.png",), **ANY),
    pictures("empty-file", "kind: a file of no byte", beside("none.png", b""), may=REFUSED, words=(r"none\.png",),
          **ANY),
    pictures("unknown-ending", "kind: HEIC, which is not read", beside("phone.heic", b"\0\0\0\x18ftypheic"),
          may=EITHER, words=("heic",), named=("heic",)),
    pictures("text-among-pictures", "kind: a label file among pictures", beside("notes.xml", b"<a/>"), may=EITHER,
          words=("xml",), named=("xml",)),
    pictures("linked", "huggingface/datasets#6853", linked),
    pictures("linked-outside", "kind: links out of the code root", linked_outside, may=REFUSED, words=("link",
          "outside"), **ANY),
    pictures("one-folder-deeper", "kind: pictures one folder deeper", folders(png(), names=("x/bright", "x/dark")),
          may=REFUSED, words=("photos/x|bright|dark",), **ANY),
    pictures("one-class", "kind: one class", folders(png(), names=("bright",)), may=REFUSED, words=("class",), **ANY),
    pictures("empty-class", "kind: a folder without pictures", lambda folder: (folders(png())(folder),
          (folder / "photos" / "grey").mkdir()), may=REFUSED, words=("grey",), **ANY),
    pictures("doses-of-a-table", "laresbernardo/lares#38", tabled("file,dose", lambda n,
          b: f"{n:03d}.png,{(0, 100)[b]}"), args=DOSES, config={"loss": "mse", "metrics": ["mae"]},
          goal=LOSSES[NUMBER][2], target="number",
          holds=lambda seen: "" if sorted(np.unique(seen.targets).tolist()) == [0,
          100] else f"targets are {np.unique(seen.targets)}"),
    pictures("classes-of-a-table", "kind: a table of paths", tabled("file,dose", lambda n,
          b: f"{n:03d}.png,{BRIGHT[b]}"), args=DOSES),
    pictures("paths-without-files", "kind: a row without its file", tabled("file,dose", lambda n,
          b: f"{n if n else 999:03d}.png,{BRIGHT[b]}"), args=DOSES, may=REFUSED, words=(r"999\.png",), **ANY),
    pictures("paths-without-ending", "kind: paths without their ending", tabled("file,dose", lambda n,
          b: f"{n:03d},{BRIGHT[b]}"), args=DOSES, may=EITHER, words=("000",), **ANY),
    pictures("paths-of-windows", "kind: backslashes in paths", tabled("file,dose", lambda n,
          b: f"scans\\{n:03d}.png,{BRIGHT[b]}"), args={**DOSES, "pictures": None}, may=EITHER, words=(r"\\|scans",),
          **ANY),
    masked("plain", "kind: nothing is odd", scaled(1)),
    masked("255", "open-mmlab/mmsegmentation#1609", scaled(255), may=EITHER, words=("lesion", "255")),
    masked("255-and-ignored", "huggingface/transformers#27224", lambda path, numbers, _: scaled(1)(path,
          np.where(np.arange(16)[:, None] == 15, 255, numbers).astype(np.uint8), 0),
          holds=lambda seen: "" if set(np.unique(seen.targets).tolist()) == {-100, 0,
          1} else f"values are {np.unique(seen.targets)}"),
    masked("palette", "nicolov/segmentation_keras#14", palette),
    masked("colours", "qubvel/segmentation_models#383", colours, may=EITHER, words=("colou?r|RGB",)),
    masked("colours-of-three", "NVIDIA/DIGITS#1605", colours, values=(0, 1, 2), classes=["background", "car",
          "person"], may=EITHER, words=("colou?r|RGB",)),
    masked("grey-as-colours", "milesial/Pytorch-UNet#401", lambda path, numbers,
          _: Image.fromarray(numbers).convert("RGB").save(path.with_suffix(".png")), may=EITHER, words=("colou?r|RGB",
          )),
    masked("jpeg", "heyoeyo/muggled_sam#14", scaled(255, ".jpg", quality=60), may=EITHER, words=("jpe?g|lesion|255",)),
    masked("jpeg-of-small-numbers", "heyoeyo/muggled_sam#14", scaled(1, ".jpg", quality=30), may=EITHER,
          words=("jpe?g",)),
    masked("sixteen-bits", "kind: class numbers of 16 bits", lambda path, numbers,
          _: Image.fromarray(numbers.astype(np.uint16)).save(path.with_suffix(".png"))),
    masked("one-bit", "kind: masks of one bit", lambda path, numbers,
          _: Image.fromarray(numbers * np.uint8(255)).convert("1", dither=0).save(path.with_suffix(".png")),
          may=EITHER, words=("255|lesion|bit",)),
    masked("from-one", "kind: class numbers from 1 on", lambda path, numbers, _: scaled(1)(path, numbers + np.uint8(1),
          0), may=REFUSED, words=("2", "class")),
    masked("spread-numbers", "kind: 0, 127 and 255", lambda path, numbers, _: scaled(127)(path, numbers, 0), values=(0,
          1, 2), classes=["background", "car", "person"], may=REFUSED, words=("127|254",)),
    masked("class-never-there", "PaddlePaddle/PaddleSeg#1110", scaled(1), classes=["background", "lesion", "vessel"],
          may=EITHER, words=("vessel",), named=("vessel",)),
    masked("more-than-said", "Nota-NetsPresso/netspresso-trainer#150", scaled(1), values=(0, 1, 2), may=REFUSED,
          words=(r"\b2\b", "class")),
    masked("of-other-sizes", "kind: masks half the pictures' size", lambda path, numbers,
          _: Image.fromarray(numbers[::2, ::2].copy()).save(path.with_suffix(".png")), may=EITHER, words=("size|8",)),
    masked("turned-sides", "kind: masks with the sides exchanged", lambda path, numbers, _: Image.fromarray(numbers[:,
          :12].copy()).save(path.with_suffix(".png")), args={"size": None}, may=REFUSED, words=("size|12",)),
    masked("one-missing", "kind: a picture without its mask", lambda path, numbers, number: scaled(1)(path, numbers,
          0) if number else None, may=REFUSED, words=(r"000\.png|\b000\b",)),
    masked("suffixed", "kind: 000_mask.png", lambda path, numbers, _: scaled(1)(path.with_name(path.name + "_mask"),
          numbers, 0), may=EITHER, words=("_mask|000",)),
    masked("no-object", "kind: empty masks throughout", lambda path, numbers, _: scaled(1)(path, numbers * np.uint8(0),
          0), may=EITHER, words=("lesion",), named=("lesion",), holds=lambda seen: ""),
]  # fmt: skip
