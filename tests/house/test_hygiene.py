"""What must never stand in a tracked file."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from trainwright.trainer.base.secret_scan import found_secrets

ROOT = Path(__file__).parents[2]
MOST_LINES = 400
MADE_UP = {
    ("tests/data_servers.py", "password"): 1,
    ("tests/tools/alerts/test_notices.py", "password in a URL"): 1,
    ("tests/tools/data/test_validating.py", "password in a URL"): 1,
    ("tests/tools/tracking/test_following.py", "password in a URL"): 1,
    ("tests/tools/training_orchestrator/test_launch.py", "password in a URL"): 1,
}
"""Passwords in tests that are none: file and kind."""
RECORDS = {
    "server/commands/pipeline.py",  # a stage's digests
    "server/generate.py",  # the index of the tools
    "tools/data/requests.py",  # orders to workers
    "tools/estimation/asking.py",
    "tools/launchers/launcher.py",  # processes, and why a run was stopped
    "tools/launchers/local.py",
    "tools/launchers/outer.py",
    "tools/ledger/jsonl_mirror.py",  # an entry's number
    "tools/provenance/attesting.py",  # a signed statement: digests and parameters
    "tools/provenance/model_signature.py",  # a public key
    "tools/reports/shipped_evaluation.py",  # a script of ours, and digests
    "tools/tracking/follower.py",  # positions
    "tools/tracking/position.py",
    "tools/tracking/wandb_tracker.py",
    "tools/training_architect/inspecting.py",  # orders to workers
    "tools/workspace/settings.py",  # the owner's own file
}
"""Files that write what the product itself reads, in its own form, and why."""


def _tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git repository, so there is no list of tracked files")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _found(pattern, suffixes=None):
    texts = ((path, path.read_text(encoding="utf-8", errors="ignore")) for path in _tracked())
    return [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in texts
        if suffixes is None or path.suffix in suffixes
        for match in re.finditer(pattern, text)
    ]


def test_no_path_of_one_machine_stands_in_a_file():
    assert not _found(r"(?<![\w.])/(?:work|farm|root|home|Users)/(?!me\b)[\w.]+")


@pytest.mark.requirement("SKILL-8")
def test_no_secret_stands_in_a_file():
    """By the scan that generated files pass; listed are made-up passwords of tests, by file."""
    found = Counter()
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a model
        found.update((str(path.relative_to(ROOT)), finding.kind) for finding in found_secrets(text))
    assert found == Counter(MADE_UP)


@pytest.mark.requirement("SKILL-8")
def test_what_is_written_for_the_user_is_scanned():
    """Server and tools write by `write_generated`, `write_report` or `masked`; listed are the files with records."""
    found = set()
    for path in [*(ROOT / "tools").rglob("*.py"), *(ROOT / "server").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
            if called in {"write_text", "write_bytes", "write_atomically"} and "masked(" not in ast.unparse(node):
                found.add(str(path.relative_to(ROOT)))
    assert found == RECORDS


@pytest.mark.requirement("SKILL-8", "SKILL-10")
def test_environment_files_are_ignored_and_examples_are_not():
    def ignored(name):
        return subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False).returncode == 0

    _tracked()
    assert ignored(".env")
    assert ignored(".env.production")
    assert not ignored(".env.example")
    example = dict(line.split("=", 1) for line in (ROOT / ".env.example").read_text().splitlines() if "=" in line)
    assert all(re.fullmatch(r"[a-z]+_[a-z]+_your_\w+_here", value) for value in example.values())
    rules = (ROOT / "docs" / "security" / "SECURITY-RULES.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in rules for name in example)


def test_nothing_reads_or_writes_pickles():
    for path in _tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in {"server", "tools", "trainer"}:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
                module = getattr(node, "module", None) or ""
                assert not {"pickle", "cloudpickle", "dill", "joblib"} & {module, *names}, path
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                assert called not in {"torch.load", "torch.save"}, f"{path}: {called}"


def test_files_can_be_read_in_one_go():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in _tracked()
        if path.suffix == ".py" and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def test_the_requirement_ids_in_the_code_are_known():
    import yaml

    known = yaml.safe_load((ROOT / "tests" / "requirements.yaml").read_text(encoding="utf-8"))["requirements"]
    families = "|".join(sorted({name.split("-")[0] for name in known}))
    named = _found(rf"\b(?:{families})-\d+\b", {".py", ".md"})
    unknown = [hit for hit in named if hit.rsplit(" ", 1)[1] not in known and "test_requirements" not in hit]
    assert not unknown
