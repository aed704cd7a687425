"""Hostile files for skills/validation-scripts: whatever a file holds, the answer is JSON with an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skills.test_validation_scripts import listed
from tests.skills.validation import FOUND, GOOD, SCRIPTS, UNCHECKED, run
from tests.variants import variants

pytestmark = pytest.mark.requirement("SKILL-7", "SKILL-3")

DEEP = "[" * 50_000
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9))
NO_FILE = "x" * 5000


def tensors(header: object, data: bytes = bytes(16)) -> bytes:
    """A safetensors file with a header of any content."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(content).to_bytes(8, "little") + content + data


def tensor(**changes: object) -> dict[str, object]:
    return {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | changes}


HEADERS: dict[str, object] = {
    "three offsets": tensor(data_offsets=[0, 8, 16]), "one offset": tensor(data_offsets=[0]),
    "offsets that are texts": tensor(data_offsets=["0", "16"]), "half an offset": tensor(data_offsets=[0, 15.5]),
    "offsets the wrong way round": tensor(data_offsets=[16, 0]), "a negative offset": tensor(data_offsets=[-16, 0]),
    "offsets that are true": tensor(data_offsets=[False, True]), "no offsets": {"a": {"dtype": "F32", "shape": [4]}},
    "a type that is a list": tensor(dtype=["F32"]), "no type": tensor(dtype=None),
    "a shape of a number": tensor(shape=4), "a shape of texts": tensor(shape=["4"]),
    "a negative size": tensor(shape=[-4]), "a tensor of a number": {"a": 5},
    "a list": [["a", {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}]], "a number": 5, "nothing": None,
    "no JSON": b"{", "no text": b"\xff\xfe\x00", "nesting": DEEP.encode(), "an empty header": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", variants(HEADERS, quick=list(HEADERS)[::3]))
def test_a_hostile_header_is_a_finding(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(tensors(HEADERS[name]))
    for options in (None, ("-S", "-P")):
        code, answer = run("checkpoint", tmp_path, options=options)
        assert (code, answer["checks_found"]) == (FOUND, ["header"]), answer


def test_a_name_that_no_terminal_shows_is_a_finding_like_others(tmp_path: Path) -> None:
    odd = {"\ud800": tensor(shape=[3])["a"]}
    (tmp_path / "m.safetensors").write_bytes(tensors(odd))
    code, answer = run("checkpoint", tmp_path)
    assert (code, answer["checks_found"]) == (FOUND, ["offsets"])


INDEX = "m.safetensors.index.json"
BESIDE: dict[str, tuple[str, bytes, list[str]]] = {
    "an index of a list": (INDEX, b"[]", ["index"]),
    "an index of numbers": (INDEX, b'{"weight_map": {"a": 5}}', ["index"]),
    "an index of lists": (INDEX, b'{"weight_map": {"a": ["m.safetensors"]}}', ["index"]),
    "an index of pairs": (INDEX, b'{"weight_map": [["a", "m.safetensors"]]}', ["index"]),
    "an index that is nested": (INDEX, DEEP.encode(), ["index"]),
    "an index that is no text": (INDEX, b"\xff\x00", ["index"]),
    "a shard that no file can be": (INDEX, json.dumps({"weight_map": {"a": NO_FILE}}).encode(), ["missing_shard"]),
    "digests that are no text": ("SHA256SUMS", b"\xff\xfe", ["sums"]),
    "a digest of nothing": ("SHA256SUMS", b"0123\n\n  \n", ["sums"]),
    "a digest of what no file can be": ("SHA256SUMS", f"0123  {NO_FILE}".encode(), ["missing_file"]),
    "a manifest of a list": ("manifest.json", b"[]", []),
    "a manifest of numbers": ("manifest.json", b'{"files": {"m.safetensors": 5}}', []),
    "a manifest that is nested": ("manifest.json", DEEP.encode(), []),
}


@pytest.mark.parametrize("name", variants(BESIDE, quick=list(BESIDE)[::3]))
def test_a_hostile_file_beside_weights_is_a_finding_or_left_out(name: str, tmp_path: Path) -> None:
    file, content, checks = BESIDE[name]
    (tmp_path / "m.safetensors").write_bytes(tensors(tensor()))
    (tmp_path / file).write_bytes(content)
    code, answer = run("checkpoint", tmp_path)
    assert (code, answer["checks_found"]) == (FOUND if checks else GOOD, checks), answer
    assert checks or any("manifest" in one for one in answer["not_checked"])


LISTS = ("deps", "outs", "metrics", "plots", "params")
STAGED: dict[str, tuple[str, str]] = {
    **{f"{key} of a number": (f"{{cmd: 'true', {key}: 5}}", "stage") for key in LISTS},
    "deps of numbers": ("{cmd: 'true', deps: [5]}", "stage"),
    "deps of lists": ("{cmd: 'true', deps: [[a]]}", "stage"),
    "outs of nothing": ("{cmd: 'true', outs: [null]}", "stage"),
    "a path of a number": ("{cmd: 'true', outs: [{5: {}}]}", "stage"),
    "a folder of a number": ("{cmd: 'true', wdir: 5}", "stage"),
    "a folder of a list": ("{cmd: 'true', wdir: [a]}", "stage"),
    "a stage of a number": ("5", "stage"),
    "a stage of a list": ("[cmd]", "stage"),
    "no stage": ("null", "stage"),
    "a command of a number": ("{cmd: 5}", "no_command"),
    "commands of numbers": ("{cmd: [5]}", "no_command"),
    "keys of a number": ("{cmd: 'true', params: [{params.yaml: 5}]}", "stage"),
    "keys of a text": ("{cmd: 'true', params: [{params.yaml: rate}]}", "stage"),
    "parameters that are no YAML": ("{cmd: 'true', params: [{torn.yaml: [rate]}]}", "parameters"),
    "parameters that are no text": ("{cmd: 'true', params: [{binary.yaml: [rate]}]}", "parameters"),
    "what no file can be": (f"{{cmd: 'true', deps: [{NO_FILE}]}}", "missing_dependency"),
    "a script that no file can be": (f"{{cmd: 'python {NO_FILE}.py'}}", "missing_script"),
    "a zero byte": ('{cmd: "true", deps: ["a\\0b"]}', "missing_dependency"),
}


@pytest.mark.parametrize("name", variants(STAGED, quick=list(STAGED)[::3]))
def test_a_hostile_stage_is_a_finding(name: str, tmp_path: Path) -> None:
    stage, check = STAGED[name]
    (tmp_path / "params.yaml").write_text("rate: 0.1\n")
    (tmp_path / "torn.yaml").write_text("rate: [")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "dvc.yaml").write_text(f"stages:\n  odd: {stage}\n  7: {{cmd: 'true', outs: [b]}}\n")
    code, answer = run("pipeline", tmp_path)
    assert (code, answer["checks_found"]) == (FOUND, [check]), answer
    assert "odd" in answer["findings"][0]["found"]


CYCLE = b"stages: {1: {cmd: a, deps: [x], outs: [y]}, 2: {cmd: a, deps: [y], outs: [x]}}"
DOCUMENTS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", FOUND), "a number": (b"5", FOUND), "a list": (b"[1, 2]", FOUND),
    "stages of a list": (b"stages: [a]", FOUND), "stages of a number": (b"stages: 5", FOUND),
    "a cycle of numbers": (CYCLE, FOUND), "binary": (bytes(range(256)), UNCHECKED),
    "nesting": (b"stages: " + DEEP.encode(), UNCHECKED), "no day": (b"stages: 2001-99-99", UNCHECKED),
    "a bomb": (BOMB.encode() + b"stages: {a: {cmd: *a9}}", UNCHECKED),
    "itself": (b"stages: {a: &a {cmd: [*a]}}", UNCHECKED), "two documents": (b"a: 1\n---\nb: 2", UNCHECKED),
}  # fmt: skip


@pytest.mark.parametrize("name", variants(DOCUMENTS, quick=list(DOCUMENTS)[::3]))
def test_a_hostile_pipeline_is_a_finding_or_not_checked(name: str, tmp_path: Path) -> None:
    content, expected = DOCUMENTS[name]
    (tmp_path / "dvc.yaml").write_bytes(content)
    code, answer = run("pipeline", tmp_path)
    assert code == expected, answer


TEXT, TOML = "requirements.txt", "pyproject.toml"
PACKAGES: dict[str, tuple[str, bytes, int]] = {
    "an empty list": (TEXT, b"", FOUND), "binary": (TEXT, bytes(range(256)), UNCHECKED),
    "nesting": (TEXT, DEEP.encode(), FOUND), "no condition": (TEXT, b"pip; os_name ~= 'x'", FOUND),
    "a project of a number": (TOML, b"project = 5", FOUND), "a project of a list": (TOML, b"project = ['pip']", FOUND),
    "packages of a number": (TOML, b"[project]\ndependencies = 5", FOUND),
    "packages of a table": (TOML, b"[project.dependencies]\npip = '*'", FOUND),
    "packages of numbers": (TOML, b"[project]\ndependencies = [[5], {a = 1}]", FOUND),
    "no packages": (TOML, b"", FOUND), "no TOML": (TOML, b"[project", UNCHECKED),
    "nested TOML": (TOML, b"a = " + DEEP.encode(), UNCHECKED), "binary TOML": (TOML, b"\xff", UNCHECKED),
}  # fmt: skip


@pytest.mark.parametrize("name", variants(PACKAGES, quick=list(PACKAGES)[::3]))
def test_a_hostile_list_of_packages_is_a_finding_or_not_checked(name: str, tmp_path: Path) -> None:
    file, content, expected = PACKAGES[name]
    (tmp_path / file).write_bytes(content)
    code, answer = run("dependencies", tmp_path / file)
    assert code == expected, answer


@pytest.mark.parametrize("content", [
    b"", b"5", b"[5]", b"{a: 1}", b"\xff", DEEP.encode(), b"- {package: numpy, why: x, versions: 5}",
    b"- {package: numpy, why: x, versions: abc}", b"- {package: numpy, why: x, versions: [[a]]}",
], ids=range(9))  # fmt: skip
def test_a_hostile_list_of_withdrawn_releases_cannot_be_used(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    code, answer = run("dependencies", listed(tmp_path, "numpy"), "--known-bad", tmp_path / "bad.yaml")
    assert code == UNCHECKED, answer


CONFIGURATIONS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", FOUND), "a number": (b"5", FOUND), "a list": (b"[1]", FOUND),
    "sections of numbers": (b"{model: 5, data: 5}", FOUND), "keys of numbers": (b"{5: {6: 7}}", FOUND),
    "names of lists": (b"model: {use: [a]}\ndata: {use: {a: 1}}", FOUND),
    "arguments of a number": (b"model: {use: mlp, args: 5}\ndata: {use: csv, args: [1]}", FOUND),
    "what no file can be": (f"model: {{use: mlp}}\ndata: {{use: csv, args: {{path: {NO_FILE}}}}}".encode(), FOUND),
    "nesting": (DEEP.encode(), FOUND), "binary": (b"\xff\xfe\x00", UNCHECKED),
}  # fmt: skip


@pytest.mark.parametrize("name", variants(CONFIGURATIONS, quick=list(CONFIGURATIONS)[::3]))
def test_a_hostile_configuration_is_a_finding_or_not_checked(name: str, tmp_path: Path) -> None:
    content, expected = CONFIGURATIONS[name]
    (tmp_path / "config.yaml").write_bytes(content)
    code, answer = run("config", tmp_path / "config.yaml", "--code-root", tmp_path)
    assert code == expected, answer


TABLES: dict[str, tuple[str, bytes]] = {
    "nothing": ("rows.csv", b""), "no rows": ("rows.csv", b"a,b\n"), "binary": ("rows.csv", bytes(range(256)) * 9),
    "a cell of a megabyte": ("rows.csv", b"a,b\n" + b"x" * 1_000_000 + b",1\n"),
    "an open quote": ("rows.tsv", b'a\tb\n"1\t2\n'), "no parquet": ("rows.parquet", b"PAR1" + bytes(64) + b"PAR1"),
    "no arrow": ("rows.arrow", b"ARROW1" + bytes(64)), "lines of lists": ("rows.jsonl", b"[1]\n5\nnull\n"),
    "nested lines": ("rows.jsonl", DEEP.encode()), "empty lines": ("rows.jsonl", b""),
    "a file of no kind": ("rows", b"a,b\n1,2\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", variants(TABLES, quick=list(TABLES)[::3]))
def test_a_hostile_table_cannot_be_used(name: str, tmp_path: Path) -> None:
    file, content = TABLES[name]
    (tmp_path / file).write_bytes(content)
    code, answer = run("dataset", tmp_path / file, "--target", "b", options=("-P",))
    assert code == UNCHECKED, answer


NAMES = {
    "checkpoint": "m.safetensors",
    "pipeline": "dvc.yaml",
    "dataset": "a.csv",
    "config": "c.yaml",
    "dependencies": "p.toml",
}


@pytest.mark.parametrize("script", list(NAMES))
def test_what_cannot_be_opened_is_not_checked(script: str, tmp_path: Path) -> None:
    """A link to itself, and a folder where a file is expected."""
    path = tmp_path / NAMES[script]
    path.symlink_to(path)
    assert run(script, path, options=("-P",))[0] == UNCHECKED, "as a user runs it"
    path.unlink()
    path.mkdir()
    assert run(script, path)[0] == UNCHECKED


BREAKS_OFF = """\
import sys, findings

def check(outcome):
    if sys.argv[1:]:
        outcome.found("a", "b", "c")
    raise KeyError("odd")

sys.exit(findings.run("x", check))
"""


def test_what_a_script_did_not_foresee_is_said_and_findings_are_kept() -> None:
    """By the scripts' common part alone: a check that breaks off."""
    for arguments, code, word in (([], UNCHECKED, "not_checked"), (["found"], FOUND, "found")):
        command = [sys.executable, "-c", BREAKS_OFF, *arguments]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        done = subprocess.run(command, cwd=SCRIPTS, env=kept, capture_output=True, text=True, check=False)
        answer = json.loads(done.stdout.splitlines()[-1])
        assert (done.returncode, answer["verdict"], done.stderr) == (code, word, "")
        assert "KeyError: 'odd'" in str(answer.get("error") or answer["not_checked"])
