"""The scripts of skills/validation-scripts, each run as it is on a good case and on broken ones.

That of tables lets polars work in this process.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file
from tests.skills.validation import FOUND, GOOD, SCRIPTS, UNCHECKED, run

from trainwright.tools.documents import SKILL

pytestmark = pytest.mark.requirement("SKILL-7", "SKILL-3")

# Weights


def weights(folder: Path) -> Path:
    """A folder with two shards, their index and their digests."""
    folder.mkdir()
    parts = {"model-1.safetensors": {"a": np.ones((3, 4), np.float32), "b": np.arange(5, dtype=np.int64)},
             "model-2.safetensors": {"c": np.full(7, 0.5, np.float16)}}  # fmt: skip
    for name, tensors in parts.items():
        save_file(tensors, folder / name)
    places = {tensor: name for name, tensors in parts.items() for tensor in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in parts]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


def truncated(folder: Path) -> None:
    path = folder / "model-1.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    (folder / "SHA256SUMS").unlink()


def torn_header(folder: Path) -> None:
    path = folder / "model-1.safetensors"
    path.write_bytes(path.read_bytes()[:20])
    (folder / "SHA256SUMS").unlink()


def burst(folder: Path) -> None:
    values = np.ones((3, 4), np.float32)
    values[1, 2], values[2, 0] = np.nan, np.inf
    save_file({"a": values, "b": np.arange(5, dtype=np.int64)}, folder / "model-1.safetensors")
    (folder / "SHA256SUMS").unlink()


def shard_gone(folder: Path) -> None:
    (folder / "model-2.safetensors").unlink()
    (folder / "SHA256SUMS").unlink()


def one_bit(folder: Path) -> None:
    path = folder / "model-1.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def other_shard(folder: Path) -> None:
    save_file({"d": np.ones(2, np.float32)}, folder / "model-2.safetensors")
    (folder / "SHA256SUMS").unlink()


def pickled(folder: Path) -> None:
    (folder / "optimizer.pt").write_bytes(b"\x80\x04.")


def test_good_weights_are_good_with_and_without_numpy(tmp_path: Path) -> None:
    folder = weights(tmp_path / "model")
    code, answer = run("checkpoint", folder)
    assert (code, answer["files"], answer["tensors"], answer["not_checked"]) == (GOOD, 2, 3, [])
    assert run("checkpoint", folder, options=("-S", "-P"))[0] == GOOD
    file = folder / "model-1.safetensors"
    assert run("checkpoint", file, "--sha256", hashlib.sha256(file.read_bytes()).hexdigest())[0] == GOOD
    assert run("checkpoint", file, "--sha256", "0" * 64)[1]["checks_found"] == ["digest"]


@pytest.mark.parametrize(("break_it", "check", "word"), [
    (truncated, "truncated", "model-1"), (torn_header, "truncated", "header"), (burst, "not_finite", "2 values"),
    (shard_gone, "missing_shard", "model-2"), (one_bit, "digest", "model-1"),
    (other_shard, "shard_content", "2 tensors"), (pickled, "pickle", "optimizer.pt"),
])  # fmt: skip
def test_broken_weights_are_named(tmp_path: Path, break_it: Callable[[Path], None], check: str, word: str) -> None:
    folder = weights(tmp_path / "model")
    break_it(folder)
    for options in (None, ("-S", "-P")):
        code, answer = run("checkpoint", folder, options=options)
        assert (code, answer["checks_found"]) == (FOUND, [check]), answer
        assert word in answer["findings"][0]["found"]


def test_a_checkpoint_of_a_run_is_held_to_its_manifest(tmp_path: Path) -> None:
    from trainwright.trainer.base.canonical import digest_file

    folder = tmp_path / "step-00000003"
    folder.mkdir()
    save_file({"a": np.ones(3, np.float32)}, folder / "model.safetensors")
    recorded = {"bytes": 1, "digest": digest_file(folder / "model.safetensors")}
    (folder / "manifest.json").write_text(json.dumps({"files": {"model.safetensors": recorded}}))
    assert run("checkpoint", folder)[0] == GOOD
    left_out = run("checkpoint", folder, options=("-S", "-P"))[1]["not_checked"]
    assert any("blake3" in one for one in left_out)
    save_file({"a": np.zeros(3, np.float32)}, folder / "model.safetensors")
    assert run("checkpoint", folder)[1]["checks_found"] == ["digest"]


def test_what_is_no_checkpoint_cannot_be_checked(tmp_path: Path) -> None:
    assert run("checkpoint", tmp_path / "nowhere")[0] == UNCHECKED
    assert run("checkpoint", tmp_path)[0] == UNCHECKED


# Tables

TABLE = ["size,colour,kind"] + [
    f"{n / 7:.3f},{'red' if n % 3 else 'blue'},{'cat' if n % 2 else 'dog'}" for n in range(60)
]


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("options", [("-P",), ("-S", "-P")], ids=["with Trainwright", "without"])
def test_a_good_table_is_good(tmp_path: Path, options: tuple[str, ...]) -> None:
    path, held_out = written(tmp_path / "rows.csv", TABLE[:50]), written(tmp_path / "test.csv", [TABLE[0], *TABLE[50:]])
    code, answer = run(
        "dataset", path, "--target", "kind", "--held-out", held_out, "--labels", "cat,dog", options=options
    )
    assert code == GOOD, answer
    assert any("Trainwright" in one for one in answer["not_checked"]) is ("-S" in options)


@pytest.mark.parametrize(("lines", "check", "word"), [
    ([*TABLE, "1.5,red"], "ragged_row", "lines 62"),
    ([*TABLE, TABLE[3], TABLE[4]], "equal_rows", "2 rows"),
    ([*TABLE, "9.9,red,"], "no_target", "1 rows"),
    ([*TABLE, "9.9,red,horse"], "foreign_label", "'horse'"),
    (["size,size,kind", *TABLE[1:]], "repeated_column", "'size'"),
])  # fmt: skip
def test_a_broken_table_is_named(tmp_path: Path, lines: list[str], check: str, word: str) -> None:
    path = written(tmp_path / "rows.csv", lines)
    code, answer = run(
        "dataset", path, "--target", "kind", "--labels", "cat,dog", "--strict", "--plain", options=("-S", "-P")
    )
    assert (code, answer["checks_found"]) == (FOUND, [check])
    assert word in answer["findings"][0]["found"]


def test_rows_of_the_test_set_among_the_training_rows_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", TABLE)
    held_out = written(tmp_path / "test.tsv", [line.replace(",", "\t") for line in [TABLE[0], *TABLE[5:8], "4,x,cat"]])
    code, answer = run("dataset", path, "--held-out", held_out, "--plain", options=("-S", "-P"))
    assert (code, answer["checks_found"], answer["findings"][0]["lines"]) == (FOUND, ["leaked_row"], [6, 7, 8])


@pytest.mark.long
def test_what_gives_the_target_away_is_found_by_trainwrights_checks(tmp_path: Path) -> None:
    lines = ["size,answer,kind"] + [f"{n * 7 % 61},{5.5 * (n % 2)},{n % 2}" for n in range(300)]
    code, answer = run("dataset", written(tmp_path / "rows.csv", lines), "--target", "kind", "--strict")
    assert code == FOUND
    assert "leak_target" in answer["checks_found"]


def test_a_table_that_cannot_be_read_is_no_good_one(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", TABLE)
    assert run("dataset", path, "--target", "nothing")[0] == UNCHECKED
    assert run("dataset", tmp_path / "none.csv")[0] == UNCHECKED
    (tmp_path / "latin.csv").write_bytes("größe,kind\n1,cat\n".encode("latin-1"))
    assert run("dataset", tmp_path / "latin.csv", "--plain")[0] == UNCHECKED
    assert run("dataset", written(tmp_path / "empty.csv", []))[0] == UNCHECKED


# Pipelines

STAGES: dict[str, Any] = {
    "prepare": {"cmd": "python prepare.py", "deps": ["raw.csv", "prepare.py"], "outs": ["clean"]},
    "train": {"cmd": "python -c pass", "deps": ["clean/rows.csv"], "params": ["rate"], "outs": [{"model": {}}]},
    "report": {"cmd": ["true"], "deps": ["model"], "metrics": ["metrics.json"]},
}  # fmt: skip


def pipeline(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("raw.csv", "prepare.py"):
        (folder / name).write_text("")
    (folder / "params.yaml").write_text("rate: 0.1\n")
    stages = {name: {**STAGES.get(name, {}), **changes.get(name, {})} for name in {**STAGES, **changes}}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    return folder


def test_a_good_pipeline_is_good(tmp_path: Path) -> None:
    code, answer = run("pipeline", pipeline(tmp_path))
    assert (code, answer["stages"], answer["not_checked"]) == (GOOD, 3, []), answer
    unresolved = {
        "train": {"deps": ["${place}/rows.csv"]},
        "prepare": {"deps": [{"s3://bucket/raw.csv": {}}, "raw.csv"]},
    }
    code, answer = run("pipeline", pipeline(tmp_path, **unresolved) / "dvc.yaml")
    assert code == GOOD
    assert [one.split()[0] for one in answer["not_checked"]] == ["stage", "prepare:", "report:"]


@pytest.mark.parametrize(("changes", "check", "word"), [
    ({"train": {"deps": ["clear/rows.csv"]}}, "missing_dependency", "clear/rows.csv"),
    ({"prepare": {"deps": ["metrics.json"]}}, "cycle", "prepare"),
    ({"other": {"cmd": "true", "outs": ["model"]}}, "two_makers", "other"),
    ({"report": {"cmd": ""}}, "no_command", "report"),
    ({"prepare": {"cmd": "python prepair.py"}}, "missing_script", "prepair.py"),
    ({"train": {"params": ["rat"]}}, "missing_parameter", "rat of params.yaml"),
    ({"train": {"params": [{"other.yaml": ["rate"]}]}}, "missing_parameters", "other.yaml"),
])  # fmt: skip
def test_a_broken_pipeline_is_named(tmp_path: Path, changes: dict[str, Any], check: str, word: str) -> None:
    code, answer = run("pipeline", pipeline(tmp_path, **changes))
    assert (code, answer["checks_found"]) == (FOUND, [check]), answer
    assert word in answer["findings"][0]["found"]


@pytest.mark.long
def test_a_definition_beside_it_is_read_by_trainwright(tmp_path: Path) -> None:
    pipeline(tmp_path)
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    definition = {"project": "p", "goal": goal, "config": {"model": {"use": "mlp"}, "data": {"use": "iris"}}}
    (tmp_path / "trainwright.yaml").write_text(yaml.safe_dump(definition))
    assert run("pipeline", tmp_path)[0] == GOOD
    definition["config"] = {**definition["config"], "training": {"epochs": "many"}}
    (tmp_path / "trainwright.yaml").write_text(yaml.safe_dump(definition))
    answer = run("pipeline", tmp_path)[1]
    assert answer["checks_found"] == ["definition"]
    assert "training.epochs" in str(answer["findings"])


def test_what_is_no_pipeline_cannot_be_checked(tmp_path: Path) -> None:
    assert run("pipeline", tmp_path)[0] == UNCHECKED
    (tmp_path / "dvc.yaml").write_text("stages: [")
    assert run("pipeline", tmp_path)[0] == UNCHECKED
    (tmp_path / "dvc.yaml").write_text("steps: {}")
    assert run("pipeline", tmp_path)[1]["checks_found"] == ["no_stages"]


# Packages


def listed(folder: Path, *lines: str) -> Path:
    return written(folder / "requirements.txt", list(lines))


def test_a_list_that_fits_is_good(tmp_path: Path) -> None:
    numpy = f"numpy=={version('numpy')}"
    path = listed(tmp_path, "# ours", numpy, f"pyyaml>=5,<{int(version('pyyaml')[0]) + 1}  # a range",
                  "nothing==1; python_version < '3'", "-i https://example.invalid/simple",
                  "-r other.txt", f"numpy=={version('numpy')} \\", "    --hash=sha256:00")  # fmt: skip
    code, answer = run("dependencies", path)
    assert (code, [one["check"] for one in answer["notes"]]) == (GOOD, ["not_pinned"]), answer
    assert answer["not_checked"] == ["line 6: -r other.txt"]
    assert run("dependencies", path, "--strict")[1]["checks_found"] == ["not_pinned"]
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\ndependencies = ["{numpy}"]\n')
    assert run("dependencies", tmp_path / "pyproject.toml", "--strict")[0] == GOOD


@pytest.mark.parametrize(("line", "check"), [
    ("numpy==1.0", "version"), ("no-such-package-of-ours==1.0", "missing"), ("numpy >>= 2", "line"),
    ("lightning==2.6.3", "known_bad"), ("lightning>=2.6,<3", "known_bad"), ("litellm==1.82.8", "known_bad"),
])  # fmt: skip
def test_a_list_that_does_not_fit_or_admits_a_withdrawn_release_is_named(tmp_path: Path, line: str, check: str) -> None:
    code, answer = run("dependencies", listed(tmp_path, line))
    assert code == FOUND
    assert check in answer["checks_found"], answer


def test_an_installed_release_of_the_list_is_named(tmp_path: Path) -> None:
    bad = [{"package": "numpy", "versions": [version("numpy")], "why": "a test says so", "use": "another"}]
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(bad))
    code, answer = run("dependencies", listed(tmp_path, "numpy"), "--known-bad", tmp_path / "bad.yaml")
    assert (code, answer["checks_found"]) == (FOUND, ["known_bad_installed", "known_bad"])


def test_a_list_that_is_not_there_cannot_be_checked(tmp_path: Path) -> None:
    assert run("dependencies", tmp_path / "none.txt")[0] == UNCHECKED
    assert run("dependencies", listed(tmp_path, "numpy"), "--known-bad", tmp_path / "none.yaml")[0] == UNCHECKED


# Configurations


def test_every_template_is_a_good_configuration() -> None:
    for template in sorted((SKILL.parent / "training-patterns").glob("*.yaml"))[:3]:
        assert run("config", template)[0] == GOOD


@pytest.mark.parametrize(("text", "check", "word"), [
    ("model: {use: mlp}\ndata: {use: iris}\noptimizer: {lerning_rate: 0.1}\n", "schema", "optimizer.learning_rate"),
    ("model: {use: mlp}\ndata: {use: iris}\ntraining: {epochs: many}\n", "schema", "training.epochs"),
    ("model: {use: net.py:Net}\ndata: {use: csv, args: {path: rows.csv, target: y}}\n", "missing_file", "net.py"),
    ("model: {use: mlp\n", "schema", "YAML"),
])  # fmt: skip
def test_a_broken_configuration_is_named_with_its_correction(tmp_path: Path, text: str, check: str, word: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    code, answer = run("config", tmp_path / "config.yaml", "--code-root", tmp_path)
    assert code == FOUND
    assert set(answer["checks_found"]) == {check}
    assert word in answer["findings"][0]["found"]


def test_without_trainwright_a_configuration_cannot_be_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "config.yaml", ["model: {use: mlp}"])
    code, answer = run("config", path, options=("-S", "-P"))
    assert (code, "Trainwright" in answer["error"]) == (UNCHECKED, True)
    assert run("config", tmp_path / "none.yaml")[0] == UNCHECKED


def test_the_folder_works_where_it_is_copied_to(tmp_path: Path) -> None:
    copied = shutil.copytree(SCRIPTS, tmp_path / "scripts")
    folder = weights(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(copied / "validate_checkpoint.py"), str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["verdict"]) == (GOOD, "good"), done.stderr


def test_types_that_this_script_does_not_know_are_left_out_and_said(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\x00\x00")
    code, answer = run("checkpoint", tmp_path)
    assert (code, answer["not_checked"]) == (GOOD, ["m.safetensors: sizes and values of F4"])
