"""What must never stand in a tracked file."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 400


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


@pytest.mark.parametrize(
    "secret", [r"sk-[A-Za-z0-9]{20,}", r"AKIA[A-Z0-9]{16}", r"ghp_[A-Za-z0-9]{30,}", r"hf_[A-Za-z]{30,}"]
)
def test_no_secret_stands_in_a_file(secret):
    assert not _found(secret)


def test_environment_files_are_ignored_and_examples_are_not():
    def ignored(name):
        return subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False).returncode == 0

    _tracked()
    assert ignored(".env")
    assert ignored(".env.production")
    assert not ignored(".env.example")


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
