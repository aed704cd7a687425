"""The example projects: complete folders, honest cards, copies that lose nothing, and one run through all gates."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from tests.worlds.warm import trainwright_command

from trainwright.server.commands.example_run import creation
from trainwright.server.surface import TOOLS
from trainwright.tools.examples import (
    Example,
    Outcome,
    copy_example,
    examples,
    missing_packages,
    outcome_of,
    read_example,
)
from trainwright.tools.examples.catalogue import FOLDER, Package
from trainwright.tools.examples.outcome import may_end
from trainwright.tools.projects import settled_values
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.config import parse_config

pytestmark = pytest.mark.requirement("SKILL-3", "SKILL-4")

ROOT = Path(__file__).parents[2]
FILES = {"README.md", "config.yaml", "example.yaml", "prepare.py"}
MAX_ADAPTER_LINES = 10
QUICKEST = "churn"
EXAMPLES = pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)


def command(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `trainwright example …` as a user would."""
    return subprocess.run(
        [*trainwright_command(os.environ), "example", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def lines_of_code(path: Path) -> int:
    """Return a file's lines that are neither blank, nor comment, nor docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return len(ast.unparse(tree).replace("\n\n", "\n").strip().splitlines())


@EXAMPLES
def test_a_folder_is_complete_and_its_configuration_is_one(example: Example) -> None:
    found = {path.name for path in example.folder.iterdir() if path.name != "__pycache__"}
    page = (example.folder / "README.md").read_text(encoding="utf-8")
    further = found - FILES - {"adapter.py"}
    assert found >= FILES
    assert [name for name in further if f"python {name}" not in page] == [], "the page says what a script is for"
    assert example.name == example.folder.name
    made = creation(example, example.folder)
    (schema,) = (tool.parameters for tool in TOOLS if tool.name == "create_project")
    jsonschema.validate(made, schema)
    config = parse_config(settled_values(made["config"], made["goal"]))
    uses_adapter = "adapter.py:" in json.dumps(made["config"])
    assert (example.folder / "adapter.py").is_file() is uses_adapter, "an adapter stands there where it is used"
    assert config.selection.metric == example.goal.metric == example.expected.metric


@EXAMPLES
def test_an_adapter_has_at_most_ten_lines_of_code(example: Example) -> None:
    path = example.folder / "adapter.py"
    assert not path.is_file() or lines_of_code(path) <= MAX_ADAPTER_LINES


@EXAMPLES
def test_a_card_is_honest(example: Example) -> None:
    """Source and licence are said, and the expected figures lie in their spread and beat the naive one throughout."""
    expected, naive = example.expected, example.naive.value
    assert len(example.data.source) > 20
    assert len(example.data.licence) > 5
    assert expected.low < expected.mean < expected.high
    assert len(set(expected.seeds)) == len(expected.seeds) >= 3
    maximize = example.goal.direction == "maximize"
    beats = (expected.low > naive) if maximize else (expected.high < naive)
    assert beats is not example.may_miss
    assert not example.may_miss or expected.low < naive < expected.high
    assert example.minutes <= 15


@EXAMPLES
def test_what_an_example_needs_is_in_the_extra_that_it_names(example: Example) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for package in example.packages:
        assert package.extra is None or package.requirement in extras[package.extra]


@EXAMPLES
def test_a_page_shows_the_project_that_the_folder_makes(example: Example) -> None:
    spec = importlib.util.spec_from_file_location("house_documents", ROOT / "tests" / "house" / "documents.py")
    assert spec is not None
    assert spec.loader is not None
    reader = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = reader
    spec.loader.exec_module(reader)
    page = (FOLDER / example.name / "README.md").resolve()
    blocks = [block for block in reader.blocks(ROOT / page.relative_to(ROOT.resolve())) if block.language == "python"]
    calls = [call for block in blocks for call in reader.parse_calls(block.text, str(block))]
    made = [call.arguments for call in calls if call.tool == "create_project"]
    assert made == [creation(example, example.folder)]
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert f"{example.expected.mean:g}" in text
    assert f"{example.naive.value:g}" in text
    heads = [line.removeprefix("## ") for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert heads == ["Data", "Step by step", "What to expect", "What to look at", "Deploying it", "Limits"]
    assert f"({example.name}/README.md)" in (FOLDER / "SKILL.md").read_text(encoding="utf-8")


@pytest.mark.long
@EXAMPLES
def test_data_are_the_same_bytes_twice(example: Example, tmp_path: Path) -> None:
    if missing := missing_packages(example):
        pytest.skip(f"{missing[0].requirement} is not installed: {missing[0].install}")
    found = []
    for name in ("one", "two"):
        copy_example(example, tmp_path / name)
        before = digests(tmp_path / name)
        made = subprocess.run(
            [sys.executable, "prepare.py"], cwd=tmp_path / name, stderr=subprocess.PIPE, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if made.returncode == os.EX_UNAVAILABLE:
            pytest.skip(f"its data are downloaded, and there is no network: {made.stderr}")
        assert made.returncode == 0, made.stderr
        after = digests(tmp_path / name)
        assert before.items() < after.items(), "data are made, and nothing else is changed"
        found.append(after)
    assert found[0] == found[1]


@EXAMPLES
def test_a_copy_has_the_same_bytes(example: Example, tmp_path: Path) -> None:
    if missing := missing_packages(example):
        pytest.skip(f"{missing[0].requirement} is not installed: {missing[0].install}")
    copy_example(example, tmp_path / "deep" / "copy")
    assert digests(tmp_path / "deep" / "copy") == digests(example.folder)
    assert read_example(tmp_path / "deep" / "copy") == example


def test_the_list_names_every_example_and_what_it_needs(tmp_path: Path) -> None:
    done = command(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [example.name for example in examples() if f"{example.name}: {example.summary}" not in done.stdout] == []
    listed = {one["name"]: one for one in json.loads(command("--json", cwd=tmp_path).stdout)}
    assert listed.keys() == {example.name for example in examples()}
    assert {name: one["missing"] for name, one in listed.items()} == {
        example.name: [package.requirement for package in missing_packages(example)] for example in examples()
    }
    assert json.loads(command(QUICKEST, "--json", cwd=tmp_path).stdout) == [listed[QUICKEST]]
    card = command(QUICKEST, cwd=tmp_path).stdout
    assert "licence" in card
    assert "naive" in card
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_example_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = command("chrun", "--into", "there", cwd=tmp_path)
    assert done.returncode == 1
    assert f"`trainwright example {QUICKEST}`" in done.stderr
    assert "No example is named" in command("--into", "there", cwd=tmp_path).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_refused_with_its_command_before_anything_is_copied(tmp_path: Path) -> None:
    package = Package(requirement="no-such-package-of-digits>=3,<4", extra="examples")
    needy = examples()[0].model_copy(update={"packages": [package]})
    with pytest.raises(NotFoundError) as refused:
        copy_example(needy, tmp_path / "there")
    assert "pip install 'no-such-package-of-digits>=3,<4'" in refused.value.remedy
    assert package.requirement in refused.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_a_page_has_no_link_that_a_copy_of_it_would_break(example: Example) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", (example.folder / "README.md").read_text(encoding="utf-8"))
    inside = {path.relative_to(example.folder).as_posix() for path in example.folder.rglob("*")}
    assert [link for link in links if "://" not in link and link not in inside] == []


def test_a_folder_in_use_is_refused_and_keeps_what_it_has(tmp_path: Path) -> None:
    into = tmp_path / "mine"
    into.mkdir()
    (into / "thesis.md").write_text("years of work")
    done = command(QUICKEST, "--into", into, cwd=tmp_path)
    assert done.returncode == 1
    assert "thesis.md" in done.stderr
    assert f"--into {into}-2" in done.stderr
    assert digests(tmp_path) == {"mine/thesis.md": hashlib.sha256(b"years of work").hexdigest()}
    again = command(QUICKEST, "--into", f"{into}-2", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    with pytest.raises(ConflictError, match="is a file"):
        copy_example(examples()[0], into / "thesis.md")


def test_a_copy_of_another_example_and_a_broken_card_are_refused(tmp_path: Path) -> None:
    first, second = examples()[:2]
    (tmp_path / "copy").mkdir()
    card = (second.folder / "example.yaml").read_text(encoding="utf-8")
    (tmp_path / "copy" / "example.yaml").write_text(card)
    done = command(first.name, "--into", "copy", "--run", cwd=tmp_path)
    assert done.returncode == 1
    assert f"holds the example {second.name}, not {first.name}" in done.stderr
    (tmp_path / "copy" / "example.yaml").write_text(card.replace("licence:", "license:"))
    with pytest.raises(ConfigurationError, match=r"data.licence: Field required"):
        read_example(tmp_path / "copy")


def test_data_that_cannot_be_made_are_said_with_the_scripts_own_words(tmp_path: Path) -> None:
    copy_example(next(one for one in examples() if one.name == QUICKEST), tmp_path / "copy")
    (tmp_path / "copy" / "prepare.py").write_text("raise SystemExit('the tape is torn')")
    done = command(QUICKEST, "--into", "copy", "--run", cwd=tmp_path)
    assert done.returncode == 1
    assert "the tape is torn" in done.stderr
    assert "python prepare.py" in done.stderr
    with pytest.raises(NotFoundError, match="no workspace yet"):
        outcome_of(read_example(tmp_path / "copy"), tmp_path / "copy")
    assert not (tmp_path / "copy" / ".trainwright").exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_quickest_example_goes_through_all_gates_from_a_copy(tmp_path: Path) -> None:
    done = command(QUICKEST, "--into", "mine", "--run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    example = read_example(tmp_path / "mine")
    outcome = outcome_of(example, tmp_path / "mine")
    assert outcome.released
    assert outcome.within, outcome
    final_model = {path.name for path in outcome.final_model.iterdir()}
    assert {"model.onnx", "model.safetensors", "README.md", "metrics.json", "evaluate.py"} <= final_model
    runs = sorted(path.name for path in outcome.final_model.parent.joinpath("runs").iterdir())
    again = command(QUICKEST, "--into", "mine", "--run", cwd=tmp_path)
    assert again.returncode == 0, again.stdout[-2000:] + again.stderr[-2000:]
    assert sorted(path.name for path in outcome.final_model.parent.joinpath("runs").iterdir()) == runs


def test_only_a_card_that_says_so_may_end_below_its_goal() -> None:
    missed = "Goal not reached: 0.48 of 0.55 (validation auc, higher is better)"
    allowed = [example.name for example in examples() if may_end(example, missed)]
    assert allowed == ["trade"]
    assert all(may_end(example, "Goal reached: 0.6 of 0.55") for example in examples())


def test_a_figure_outside_of_its_spread_is_no_expected_one() -> None:
    expected = examples()[0].expected
    assert expected.holds(expected.low)
    assert expected.holds(expected.high)
    assert not expected.holds(expected.low - 1e-9)
    assert not expected.holds(expected.high + 1e-9)


def test_the_benchmark_counts_what_is_released_and_within(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "examples"))
    played = importlib.import_module("played")
    example = examples()[0]
    good = Outcome(True, "reached", example.expected.mean, 100, True, tmp_path)
    outside = dataclasses.replace(good, value=example.expected.high + 1, within=False)
    stuck = dataclasses.replace(good, released=False, value=None, within=False)
    found = [played.Played(example, None, outcome, 7.0) for outcome in (good, outside, stuck, None)]
    assert played.figures(found) == {"examples": 4, "released": 2, "within_figures": 1, "seconds_max": 7.0}
    assert "(outside)" in found[1].row()
    assert "NO" in found[3].row()
    sys.modules.pop("played")


def test_the_spread_for_a_card_is_an_interval_for_a_further_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three values of deviation 0.01: 4.303 x 0.01 x sqrt(4 / 3), as tables of Student's t have it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "examples"))
    played = importlib.import_module("played")
    mean, low, high = played.spread([0.79, 0.80, 0.81], "auc", 600)
    assert (mean, low, high) == pytest.approx((0.8, 0.75031, 0.84969), abs=1e-5)
    assert played.spread([0.8, 0.8, 0.8], "accuracy", 100)[1:] == pytest.approx((0.78, 0.82)), "two rows at least"
    sys.modules.pop("played")
