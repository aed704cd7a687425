"""Programs of torch.export: evaluated like any other, and refused where loading one could run code."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.releases import needs
from tests.worlds.environments import make_environment, site_of

from trainwright.tools.evaluation.process import place_of, run_clean_room
from trainwright.trainer.base import releases
from trainwright.trainer.clean_room.archives import rewritten
from trainwright.trainer.clean_room.rows import RefusalError

pytestmark = [pytest.mark.requirement("GATE-6"), needs(releases.PROGRAM)]
MODEL = "models/model.json"


def read(path: Path) -> io.BytesIO:
    """Read an archive as the clean room does."""
    return rewritten(path, path.read_bytes())


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program of several layers with a free batch and a free length."""

    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
            self.last = torch.nn.Linear(4, 3)

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            mixed = self.attention(given, given, given)[0]
            half = mixed[:, : mixed.shape[1] // 2 + 1]
            scores: torch.Tensor = self.last(half.mean(1)) + torch.tensor([1.0, 2.0, 3.0])
            return scores

    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim.AUTO}
    torch.manual_seed(0)
    program = torch.export.export(Layers().eval(), (torch.zeros(3, 6, 4),), dynamic_shapes=((free,)), strict=False)
    torch.export.save(program, path)
    return path


def altered(path: Path, change: Callable[[dict[str, bytes]], None], folder: Path) -> Path:
    """Return the archive with its parts changed."""
    with zipfile.ZipFile(path) as given:
        parts = {name.partition("/")[2]: given.read(name) for name in given.namelist()}
    change(parts)
    with zipfile.ZipFile(folder / "altered.pt2", "w") as written:
        for name, content in parts.items():
            written.writestr(f"model/{name}", content)
    return folder / "altered.pt2"


def in_model(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    """Return a change of one text in the program's JSON; it must be there."""

    def change(parts: dict[str, bytes]) -> None:
        text = parts[MODEL].decode()
        assert re.search(old, text), old
        parts[MODEL] = re.sub(old, new, text, count=1).encode()

    return change


def pickled_weight(parts: dict[str, bytes]) -> None:
    name = "data/weights/model_weights_config.json"
    parts[name] = parts[name].replace(b'"use_pickle": false', b'"use_pickle": true')


def part(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.update({name: b"cos\nsystem\n(S'touch sprung'\ntR."})


ATTACKS: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "an operator outside torch.ops": (in_model(r"torch\.ops\.aten\.add\.Tensor", "torch.os.system"), "torch.os.system"),
    "a method of an operator's object": (
        in_model(r"torch\.ops\.aten\.add\.Tensor", "torch.ops.aten.__class__.__init__"), "__class__",
    ),
    "an operator that opens files": (
        in_model(r"torch\.ops\.aten\.add\.Tensor", "torch.ops.aten.from_file.default"), "from_file",
    ),
    "a caller of attributes": (in_model(r"torch\.ops\.aten\.add\.Tensor", "_operator.methodcaller"), "methodcaller"),
    "a size that is evaluated": (
        in_model(r'"expr_str": "Symbol\([^"]*"', '''"expr_str": "__import__('os').system('touch sprung')"'''), "size",
    ),
    "a size with an attribute": (in_model(r'"expr_str": "Symbol\([^"]*"', '"expr_str": "Symbol.mro"'), "size"),
    "a builtin in a size": (in_model(r'"expr_str": "Symbol\([^"]*"', '''"expr_str": "open('sprung')"'''), "size"),
    "pickled weights": (pickled_weight, "pickled"),
    "a pickled constant": (part("data/constants/opaque_obj_0"), "opaque_obj_0"),
    "an object of a library": (part("data/constants/custom_obj_0"), "custom_obj_0"),
    "a compiled library": (part("data/aotinductor/model/model.so"), "aotinductor"),
    "weights of the former format": (part("data/weights/model.pt"), "model.pt"),
    "inputs of a class": (in_model(r"builtins\.tuple", "os.PathLike"), "os.PathLike"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_could_run_code_is_refused_before_torch_reads_it(attack: str, archive: Path, tmp_path: Path) -> None:
    change, told = ATTACKS[attack]
    with pytest.raises(RefusalError, match="could run code") as caught:
        read(altered(archive, change, tmp_path))
    assert told in caught.value.problem
    assert "ONNX" in caught.value.remedy


def test_guards_are_dropped_and_never_executed(archive: Path, tmp_path: Path) -> None:
    guard = f'"guards_code": ["open({str(tmp_path / "sprung")!r}, \'w\')"'.replace("\\", "/")
    path = altered(archive, in_model(r'"guards_code": \[("[^"]*")?', guard.replace("\\", r"\\")), tmp_path)
    again = read(path)
    with zipfile.ZipFile(again) as parts:
        assert json.loads(parts.read(f"model/{MODEL}"))["guards_code"] == []


def test_two_parts_of_one_name_are_refused(archive: Path, tmp_path: Path) -> None:
    path = altered(archive, lambda parts: None, tmp_path)
    with zipfile.ZipFile(path, "a") as parts, pytest.warns(UserWarning, match="Duplicate name"):
        parts.writestr(f"model/{MODEL}", "{}")
    with pytest.raises(RefusalError, match="one name each"):
        read(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"no archive")
    with pytest.raises(RefusalError, match="cannot be read"):
        read(tmp_path / "model.pt2")


def test_a_rewritten_archive_is_the_same_program(archive: Path) -> None:
    again = read(archive)
    assert isinstance(again, io.BytesIO)
    given = torch.randn(5, 6, 4)
    first, second = (torch.export.load(each).module()(given) for each in (archive, again))  # type: ignore[arg-type]
    assert torch.equal(first, second)


@pytest.mark.long
def test_the_clean_room_evaluates_it(room: Any, archive: Path) -> None:
    inputs = torch.randn(90, 6, 4, generator=torch.Generator().manual_seed(0))
    room.fix(inputs.numpy(), room.targets)
    room.order["program"] = room.written("model.pt2", archive.read_bytes()) | {"form": "torch_export"}
    answer = room.answer()
    assert "problem" not in answer, answer
    with torch.no_grad():
        outputs = torch.export.load(archive).module()(inputs)
    wanted = torch.from_numpy(room.targets)
    found = answer["splits"]["validation"]["metrics"]
    assert found["accuracy"] == pytest.approx(float((outputs.argmax(1) == wanted).float().mean()))
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(outputs, wanted)), rel=1e-5)
    assert "torch" in answer["versions"]


@pytest.mark.long
def test_the_torch_of_a_projects_environment_runs_it_where_the_server_has_none(
    room: Any, archive: Path, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "environment", "torch", "numpy", "onnxruntime")
    room.order["program"] = room.written("model.pt2", archive.read_bytes()) | {"form": "torch_export"}
    room.fix(torch.randn(90, 6, 4).numpy(), room.targets)
    site = str(site_of(tmp_path / "environment"))
    here = run_clean_room(room.order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)  # as where nothing of it is installed
        there = place_of("torch_export", str(python), [site])
    assert there["python"] == str(python)
    assert run_clean_room(room.order | there)["splits"] == here["splits"]
