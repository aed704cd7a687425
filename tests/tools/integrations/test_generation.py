"""Generation of a deployment: from the released model alone, all files or none, refused where something is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper
from tests.worlds.warm import trainwright_command

from trainwright.tools.integrations import PARTS, deploy, is_signed, read_signature
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.model_signature import ModelKey
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.text import transform
from trainwright.trainer.data.text.tokenizers import ByteTokenizer, CharacterTokenizer, TrainedTokenizer
from trainwright.trainer.prediction.assembly import assembled

pytestmark = pytest.mark.requirement("SKILL-5")

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG = {"data": {"use": "digits"}, "model": {"use": "mlp", "args": {"hidden": [8]}}}
RESOLVED: dict[str, Any] = {
    "class_names": ["no", "yes"], "feature_names": None, "input_shapes": [[2]], "text": None, "preprocessing": None,
    "onnx_includes_preprocessing": False, "loss": "cross_entropy",
}  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """Return each file's bytes, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_model(folder: Path, resolved: dict[str, Any], data: dict[str, Any], width: int = 2, **files: str) -> Path:
    """Write a final model by hand: a program that gives `width` numbers, and what the folder says of it."""
    folder.mkdir(parents=True)
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", size]) for name, size in
                   (("input", 2), ("output", width)))  # fmt: skip
    weights = onnx.numpy_helper.from_array(np.ones((2, width), dtype=np.float32), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input", "weights"], ["output"])], "g", [given], [made], [weights]
    )
    onnx.save(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx"
    )
    (folder / "resolved.json").write_text(json.dumps(RESOLVED | resolved))
    (folder / "metrics.json").write_text(
        json.dumps({"project": "shop", "run": "final-1", "test": {"metrics": {"f1": 0.5}}})
    )
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    (folder / "README.md").write_text("# shop\n")
    for name, text in ({"predict_py": assembled("array", "numbers", "")} | files).items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


NPZ = {"use": "npz", "args": {"path": "a.npz"}}
TEXT = {"use": "csv", "args": {"path": "a.csv", "text": "text", "target": "topic"}}
WRITING = {"use": "text", "args": {"path": "a.txt"}}
WRITES = json.dumps(
    {"text": {"block_size": 32, "boundary": 256, "ends": [256], "padding": 0, "tokenizer": {"name": "bytes"}}}
)
TOKENS = {"block_size": None, "longest": 5}
SCHEMA = json.dumps({"text": {"max_length": 8, "padding": 0, "target": "topic", "tokenizer": {"name": "bpe"}}})
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = {
    "preprocessing outside the program": (
        {"preprocessing": {"kind": "standardize"}}, NPZ, {}, "preprocessing is not inside model.onnx", "export_model(",
    ),
    "rows of the user's code": ({}, {"use": "data.py:rows"}, {}, r"your code \(data.py:rows\)", "--as-samples"),
    "a table without its schema": (
        {"feature_names": ["a", "b"]}, {"use": "csv"}, {}, "no schema.json", "begin_release=True",
    ),
    "pictures without their decoding": ({}, {"use": "images"}, {}, "no schema.json", "export_model("),
    "an early export of texts": ({"text": TOKENS}, TEXT, {}, "no predict.py and schema.json", "export_model("),
    "a learned tokenizer that is not there": (
        {"text": TOKENS}, TEXT, {"schema_json": SCHEMA, "predict_py": ""}, r"tokenizer \(bpe\)", "export_model(",
    ),
    "an early export of a model that writes": (
        {"text": TOKENS | {"block_size": 32}}, WRITING, {}, "no predict.py and schema.json", "export_model(",
    ),
    "a program of one length": (
        {"text": TOKENS | {"block_size": 32}}, WRITING, {"schema_json": WRITES, "predict_py": ""}, "any length the n",
        "model card",
    ),
    "a model that translates": ({"text": TOKENS}, {"use": "seq2seq"}, {}, "of another kind", "README.md"),
    "several labels at once": (
        {"class_names": ["a", "b", "c"], "loss": "bce_with_logits"}, NPZ, {"width": 3}, "hold at once", "model card",
    ),
    "several scores of a loss of the user's": (
        {"class_names": None, "loss": "own.py:loss"}, NPZ, {"width": 3}, "3 scores", "--classes class_0,class_1",
    ),
    "class names": ({"class_names": None}, NPZ, {"width": 3}, "3 scores and .* names no classes", "--classes class_0,"),
    "a score without classes": (
        {"class_names": None, "loss": "bce_with_logits"}, NPZ, {"width": 1}, "1 scores", "--classes",
    ),
    "other outputs than classes": ({}, NPZ, {"width": 5}, "any x 5 for 2 classes", "model card"),
    "several inputs": ({"input_shapes": [[2], [3]]}, NPZ, {}, "takes 2 inputs", "model card"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_missing_is_refused_with_its_remedy(name: str, tmp_path: Path) -> None:
    resolved, data, files, rule, remedy = REFUSED[name]
    model = write_model(tmp_path / "final_model", resolved, data, **files)
    with pytest.raises(TrainwrightError, match=rule) as caught:
        deploy(model, tmp_path / "parts")
    assert remedy in caught.value.remedy
    assert not (tmp_path / "parts").exists()


def test_names_of_classes_can_be_given_where_the_data_has_none(tmp_path: Path) -> None:
    model = write_model(tmp_path / "final_model", {"class_names": None}, NPZ, width=3)
    assert read_signature(model, classes=["a", "b", "c"]).classes == ["a", "b", "c"]
    for wrong in (["a", "b"], ["a", "b", "c", "d"]):
        with pytest.raises(TrainwrightError, match="any x 3 for"):
            read_signature(model, classes=wrong)
    named = write_model(tmp_path / "named" / "final_model", {}, NPZ)
    with pytest.raises(TrainwrightError, match="the classes no, yes of its data; a, b are others"):
        read_signature(named, classes=["a", "b"])
    users = write_model(tmp_path / "users" / "final_model", {}, {"use": "data.py:rows"})
    assert read_signature(users, as_samples=True).inputs.shape == [2]


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _never_released(folder: Path) -> None:
    (folder / "metrics.json").write_text("{}")


def _swapped(folder: Path) -> None:
    record = {"order": {"program": {"form": "onnx", "digest": "0" * 64, "path": "model.onnx"}}}
    (folder / "evaluation.json").write_text(json.dumps(record))


def _torn(folder: Path) -> None:
    (folder / "resolved.json").write_text("{")


NO_MODEL = {
    "nothing": (shutil.rmtree, "is no final_model: it has no resolved.json", "export_model("),
    "no figures": (_without("metrics.json"), "it has no metrics.json", "pass_gate("),
    "an export before its gate": (_never_released, "no gate has released", "pass_gate("),
    "no program": (_without("model.onnx"), "holds no model.onnx", "'deployment.formats': ['safetensors', 'onnx']"),
    "another program": (_swapped, "not the one that was certified", "trainwright verify"),
    "a torn file": (_torn, "resolved.json is no JSON", "backup"),
}


@pytest.mark.parametrize("name", list(NO_MODEL))
def test_a_folder_that_is_no_released_model_is_refused(name: str, tmp_path: Path) -> None:
    spoil, rule, remedy = NO_MODEL[name]
    model = write_model(tmp_path / "final_model", {}, NPZ)
    spoil(model)
    with pytest.raises(TrainwrightError, match=re.escape(rule)) as caught:
        deploy(model, tmp_path / "parts")
    assert remedy in caught.value.remedy
    assert not (tmp_path / "parts").exists()


def sign(folder: Path) -> None:
    """Sign a final model, as the last gate does."""
    key = ModelKey(None)
    key.write_public(folder)
    key.sign(folder)


@pytest.mark.parametrize("name", ["model.onnx", "schema.json", "predict.py", "tokenizer.json", "resolved.json"])
def test_a_file_that_is_not_the_signed_one_is_refused(name: str, tmp_path: Path) -> None:
    given = {"schema_json": SCHEMA, "predict_py": "", "tokenizer_json": "{}"}
    model = write_model(tmp_path / "final_model", {"text": TOKENS}, TEXT, **given)
    sign(model)
    assert is_signed(model)
    assert is_signed(tmp_path)
    read_signature(model)
    with (model / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(TrainwrightError, match=f"not the released one: model.sig has another {name}") as caught:
        deploy(model, tmp_path / "parts")
    assert "trainwright verify" in caught.value.remedy
    (model / name).unlink()
    with pytest.raises(TrainwrightError, match=r"not the released one|is no final_model|holds no model"):
        deploy(tmp_path, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_a_file_that_was_added_and_a_signature_that_is_none_are_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "final_model", {}, NPZ)
    assert not is_signed(model)
    sign(model)
    (model / "tokenizer.json").write_text("{}")
    with pytest.raises(TrainwrightError, match=r"model\.sig has another tokenizer\.json"):
        read_signature(model)
    (model / "tokenizer.json").unlink()
    (model / "__pycache__").mkdir()
    (model / "__pycache__" / "load.cpython-311.pyc").write_bytes(b"compiled")
    read_signature(model)
    ModelKey(None).write_public(model)
    with pytest.raises(TrainwrightError, match=r"model\.sig does not fit it"):
        read_signature(model)
    for text in ("{", "{}", "[]", "null"):
        (model / "model.sig").write_text(text)
        with pytest.raises(TrainwrightError, match=r"model\.sig does not fit it"):
            read_signature(model)


def run_deploy(*arguments: Any, cwd: Path) -> tuple[int, str]:
    """Run `trainwright deploy …` where a person would; return how it ended and what it said."""
    command = [*trainwright_command(os.environ), "deploy", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def test_a_folder_of_the_projects_name_that_holds_no_model_is_passed_over(tmp_path: Path) -> None:
    workspace = tmp_path / "churn" / ".trainwright"
    opened = Workspace.open(workspace)
    create_project(opened, "churn", intent="a test", goal=GOAL, template="baseline", config=CONFIG)
    write_model(opened.project_folder("churn") / "final_model", {}, NPZ)
    opened.close()
    code, said = run_deploy("churn", "--into", "parts", "--as", "client", "-w", workspace, cwd=tmp_path)
    assert code == 0, said
    assert (tmp_path / "parts" / "client" / "client.py").is_file()
    assert "no model.sig" in said, "what was compared is told"
    for text in ("./churn", "churn/"):
        code, said = run_deploy(text, "--into", "other", "-w", workspace, cwd=tmp_path)
        assert code != 0
        assert "is no final_model" in said
    sign(write_model(tmp_path / "shop" / "final_model", {}, NPZ))
    for number, text in enumerate(("shop", "final_model")):
        at = tmp_path if text == "shop" else tmp_path / "shop"
        code, said = run_deploy(text, "--into", f"of-{number}", "--as", "client", cwd=at)
        assert code == 0, said
        assert "model.sig" not in said


def test_all_parts_are_written_or_none(tmp_path: Path) -> None:
    model = write_model(tmp_path / "final_model", {}, NPZ)
    into = tmp_path / "deep" / "parts"
    (into / "form").mkdir(parents=True)
    (into / "form" / "mine.tsx").write_text("mine")
    with pytest.raises(TrainwrightError, match="form is there already; generated files never replace others") as caught:
        deploy(model, into)
    assert "--into" in caught.value.remedy
    assert [path.name for path in into.iterdir()] == ["form"]
    assert deploy(model, into, ["service", "client"]) == [into / "service", into / "client"]
    assert {path.name for path in into.iterdir()} == {"form", "service", "client"}
    with pytest.raises(TrainwrightError, match="no part 'servis'") as caught:
        deploy(model, tmp_path / "other", ["servis"])
    assert "service" in caught.value.remedy
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainwrightError, match="cannot be written"):
        deploy(model, tmp_path / "file")


def test_generated_parts_make_way_for_another_version_and_back_and_nothing_else_does(tmp_path: Path) -> None:
    first, second = (
        write_model(tmp_path / name / "final_model", {"class_names": names}, NPZ)
        for name, names in (("v1", ["no", "yes"]), ("v2", ["down", "up"]))
    )
    into = tmp_path / "parts"
    (into / "form").mkdir(parents=True)
    (into / "form" / "mine.tsx").write_text("mine")
    deploy(first, into, ["service"])
    before = contents(into / "service")
    with pytest.raises(TrainwrightError, match="form is there already, and no generated part") as caught:
        deploy(second, into, ["service", "form"], replace=True)
    assert "--replace" not in caught.value.remedy
    assert contents(into / "service") == before, "nothing is replaced where one part is not ours"
    deploy(second, into, ["service"], replace=True)
    assert contents(into / "service") != before
    assert contents(into / "service.before") == before
    deploy(first, into, ["service"], replace=True)
    assert contents(into / "service") == before, "one call leads back"
    shutil.rmtree(into / "service.before")
    (into / "service.before").write_text("mine")
    for again in ("one", "two"):
        deploy(second, into, ["service"], replace=True)
        deploy(first, into, ["service"], replace=True)
        assert (into / "service.before").read_text() == "mine", again
    assert {one.name for one in into.iterdir()} == {"form", "service", "service.before", "service.before-2"}


@pytest.mark.requirement("SKILL-8")
def test_a_secret_among_the_names_stops_everything(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    model = write_model(tmp_path / "final_model", {"class_names": [key, "no"]}, NPZ)
    with pytest.raises(TrainwrightError, match="secret|token"):
        deploy(model, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_the_same_release_gives_the_same_files_and_names_no_key(tmp_path: Path) -> None:
    model = write_model(tmp_path / "final_model", {}, NPZ)
    first, second = (
        {path.relative_to(into).as_posix(): path.read_bytes() for path in sorted(into.rglob("*")) if path.is_file()}
        for into in (tmp_path / "one", tmp_path / "two")
        if deploy(model, into)
    )
    assert first == second
    assert {name.partition("/")[0] for name in first} == set(PARTS)
    assert first["service/model/model.onnx"] == (model / "model.onnx").read_bytes()
    examples = {name: text.decode() for name, text in first.items() if name.endswith(".env.example")}
    assert examples.keys() == {f"{part}/.env.example" for part in PARTS}
    assert all("_KEY=shop_prod_your_key_here" in text for text in examples.values())
    pages = [text.decode() for name, text in first.items() if name.startswith("form/") and "/api/" not in name]
    code = [text for text in pages if "SERVICE_KEY" in text and not text.startswith("#")]
    assert not code, "only the route on the server may read the key"


def test_names_that_would_break_out_of_code_stay_text(tmp_path: Path) -> None:
    wild = ["it's; drop table runs --", 'say "hi" ${x} </script> `\\']
    model = write_model(tmp_path / "final_model", {"class_names": wild}, NPZ)
    deploy(model, tmp_path / "parts")
    [path] = (tmp_path / "parts" / "database" / "supabase" / "seeds").iterdir()
    seed = path.read_text()
    assert "array['it''s; drop table runs --', 'say \"hi\" ${x} </script> `\\']::text[]" in seed
    lines = (tmp_path / "parts" / "form" / "lib" / "signature.ts").read_text().splitlines()
    [label] = [line for line in lines if line.startswith("export type Label")]
    assert [json.loads(name) for name in label.removeprefix("export type Label = ").rstrip(";").split(" | ")] == wild
    compile((tmp_path / "parts" / "client" / "client.py").read_text(), "client.py", "exec")


def test_a_release_has_the_number_that_its_place_in_the_project_says(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_model(project / "final_model", {}, NPZ)
    release = read_signature(project).release
    assert (release.number, release.name) == (None, release.program_sha256[:12]), "a copy does not say it"
    write_model(project / "releases" / "1" / "final_model", {}, NPZ)
    assert read_signature(project).release.number is None, "a folder `releases` is anybody's without the ledger"
    assert read_signature(project / "releases" / "1").release.number is None
    (project / "ledger.jsonl").write_text("")
    for folder, number in ((project, 2), (project / "final_model", 2), (project / "releases" / "1", 1)):
        found = read_signature(folder).release
        assert (found.number, found.name) == (number, str(number))
    shutil.rmtree(project / "releases")
    assert read_signature(project).release.number == 1


def test_the_database_goes_into_a_project_without_replacing_what_is_there(tmp_path: Path) -> None:
    """By the page's own line, for two releases after another."""
    project = tmp_path / "project"
    write_model(project / "final_model", {}, NPZ)
    (project / "ledger.jsonl").write_text("")
    theirs = {"seed.sql": "-- mine", "tests/policies.sql": "-- mine too", "seeds/mine.sql": "-- and mine"}
    supabase = tmp_path / "application" / "supabase"
    for name, text in theirs.items():
        (supabase / name).parent.mkdir(parents=True, exist_ok=True)
        (supabase / name).write_text(text)
    for number in (1, 2):
        [folder] = deploy(project, tmp_path / str(number), ["database"])
        [line] = re.findall(r"^cp .*$", (folder / "README.md").read_text(), re.MULTILINE)
        command = line.partition("#")[0].replace("YOUR_PROJECT", str(supabase.parent))
        subprocess.run(["bash", "-c", command], cwd=folder, check=number == 1, capture_output=True)
        (project / "releases" / "1").mkdir(parents=True, exist_ok=True)
    assert {name: (supabase / name).read_text() for name in theirs} == theirs
    digest = read_signature(project).release.program_sha256[:12]
    seeds = {path.name for path in (supabase / "seeds").iterdir()}
    assert seeds == {"mine.sql", f"shop-1-{digest}.sql", f"shop-2-{digest}.sql"}
    assert [path.name for path in (supabase / "migrations").iterdir()] == ["20261125000000_predictions.sql"]
    assert 'sql_paths = ["./seed.sql", "./seeds/*.sql"]' in (folder / "README.md").read_text()


TEXTS = ("Rechnung über 30 €", "hello", "漢字 and 🙂", "", "x" * 40)


@pytest.mark.requirement("CKPT-5")
@pytest.mark.parametrize("name", ["bytes", "characters", "bpe"])
def test_shipped_tokenization_gives_the_tokens_of_training(name: str, tmp_path: Path) -> None:
    made: Any = {
        "bytes": ByteTokenizer, "characters": lambda: CharacterTokenizer.fit(TEXTS),
        "bpe": lambda: TrainedTokenizer.fit([*TEXTS, "hello hello", "Rechnung"], 270),
    }[name]()  # fmt: skip
    if name == "bpe":
        (tmp_path / "tokenizer.json").write_text(made.inner.backend_tokenizer.to_str())
    kept = {key: value for key, value in made.as_dict().items() if key != "merges"}
    encode = transform.encoder({"max_length": 12, "tokenizer": kept}, tmp_path)
    assert [encode(text) for text in TEXTS] == [made.encode_whole(text, 12).tolist() for text in TEXTS]
    whole = transform.encoder({"boundary": made.boundary, "tokenizer": kept}, tmp_path)
    assert [whole(text) for text in TEXTS] == [[made.boundary, *made.encode(text).tolist()] for text in TEXTS]
    if name == "bpe":
        assert made.boundary not in whole("[SEP]")[1:], "a mark within a prompt is words"
    decode = transform.decoder({"tokenizer": kept}, tmp_path)
    assert [decode(whole(text)) for text in TEXTS] == [made.decode(whole(text)) for text in TEXTS]
    found = transform.encode_texts(TEXTS[:2], encode, made.padding)
    assert found["input_ids"].shape == found["attention_mask"].shape == (2, 12)
    short = len(encode("hello"))
    assert found["attention_mask"][1].tolist() == [1] * short + [0] * (12 - short)
    assert set(found["input_ids"][1, short:].tolist()) == {made.padding}


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        transform.encoder({"max_length": 12, "tokenizer": {"name": "bpe"}}, tmp_path)
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        transform.decoder({"tokenizer": {"name": "bpe"}}, tmp_path)
