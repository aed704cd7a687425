"""The product's files: what must never stand in one, imports that run one way, words of the field."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter

import pytest
import yaml
from tests.house.sources import ROOT, called, named, nodes_of, parsed, sources, tracked

from trainwright.trainer.base.secret_scan import found_secrets

MAX_LINES = 500
MADE_UP = {
    ("tests/data_servers.py", "password"): 1,
    ("tests/tools/alerts/test_notices.py", "password in a URL"): 1,
    ("tests/tools/data/test_validating.py", "password in a URL"): 1,
    ("tests/tools/launchers/test_jobs.py", "password in a URL"): 1,
    ("tests/tools/tracking/test_following.py", "password in a URL"): 1,
    ("tests/tools/training_orchestrator/test_launch.py", "password in a URL"): 1,
}
"""Passwords in tests that are none: file and kind."""
RECORDS = {
    "server/commands/pipeline.py",  # a stage's digests
    "server/commands/status.py",  # a page whose answers were masked before they were written
    "server/http/pushes.py",  # a client's own files, whose secrets stay there
    "server/http/tokens.py",  # digests of tokens
    "tools/data/requests.py",  # what was told
    "tools/environments/containers.py",  # what an image's Python has
    "tools/environments/overlays.py",  # what an overlay holds
    "tools/estimation/asking.py",  # estimates
    "tools/launchers/jobs.py",  # orders to workers
    "tools/launchers/launcher.py",  # processes, and why a run was stopped
    "tools/launchers/local.py",
    "tools/launchers/outer.py",
    "tools/ledger/jsonl_mirror.py",  # an entry's number
    "tools/reports/final_model.py",  # a script of ours, and digests
    "tools/tracking/follower.py",  # positions
    "tools/tracking/wandb_tracker.py",
    "tools/training_orchestrator/snapshots.py",  # the user's code, as runs import it
    "tools/workspace/model_signature.py",  # a public key
    "tools/workspace/settings.py",  # the owner's own file
}
"""Files that write what the product itself reads, in its own form, and why."""
HEAVY = ("torch", "transformers", "accelerate", "peft", "lightning", "tensorflow")
DONE = ("README.md", "CHANGELOG.md", "docs", "skills", "agents", "prompts", "server", "tools", "trainer")
"""Files and folders without the glossary's refused words. Add a folder of trainer/ or tools/ when it is done."""
OLD_PAGES = ("docs/benchmarks.md",)
STORED_KEYS = re.compile(r'"wish"|\bwish=|\.wish\b|\bwish: Values')
"""Keys of ledger entries, and the events' fields of that name: existing workspaces hold them."""
QUESTION = re.compile(r"(What|Where|Whether|How|Which|Whose)\b")


def _found(pattern, suffixes=None):
    texts = ((path, path.read_text(encoding="utf-8", errors="ignore")) for path in tracked())
    return [
        f"{named(path)}: {match[0]}"
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
    for path in tracked():
        try:
            text = "" if path.name == "nightly.json" else path.read_text(encoding="utf-8")  # names of tests
        except UnicodeDecodeError:
            continue  # a picture or a model
        found.update((named(path), finding.kind) for finding in found_secrets(text))
    assert found == Counter(MADE_UP)


@pytest.mark.requirement("SKILL-8")
def test_what_is_written_for_the_user_is_scanned():
    """Server and tools write by `write_generated`, `write_report` or `masked`; listed are the files with records."""
    found = set()
    for path in sources("tools", "server"):
        for node in nodes_of(path):
            writes = called(node) in {"write_text", "write_bytes", "write_atomically"}
            if writes and "masked(" not in ast.unparse(node):
                found.add(named(path))
    assert found == RECORDS


@pytest.mark.requirement("SKILL-8", "SKILL-10")
def test_environment_files_are_ignored_and_examples_are_not():
    def ignored(name):
        return subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False).returncode == 0

    tracked()
    assert ignored(".env")
    assert ignored(".env.production")
    assert not ignored(".env.example")
    example = dict(line.split("=", 1) for line in (ROOT / ".env.example").read_text().splitlines() if "=" in line)
    assert all(re.fullmatch(r"[a-z]+_[a-z]+_your_\w+_here", value) for value in example.values())
    rules = (ROOT / "docs" / "security" / "SECURITY-RULES.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in rules for name in example)


def test_nothing_reads_or_writes_pickles():
    for path in sources():
        for node in nodes_of(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = getattr(node, "module", None) or ""
            assert not {"pickle", "cloudpickle", "dill", "joblib"} & {module, *names}, path
            dotted = ast.unparse(node.func) if called(node) in {"load", "save"} else ""
            assert dotted not in {"torch.load", "torch.save"}, f"{path}: {dotted}"


def test_files_can_be_read_in_one_go():
    long = {
        named(path): lines
        for path in tracked()
        if path.suffix == ".py" and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long


def test_the_requirement_ids_in_the_code_are_known():
    known = yaml.safe_load((ROOT / "tests" / "requirements.yaml").read_text(encoding="utf-8"))["requirements"]
    families = "|".join(sorted({name.split("-")[0] for name in known}))
    named = _found(rf"\b(?:{families})-\d+\b", {".py", ".md"})
    unknown = [hit for hit in named if hit.rsplit(" ", 1)[1] not in known and "test_requirements" not in hit]
    assert not unknown


def _modules(*parts: str) -> list[str]:
    folders = [ROOT / part for part in parts]
    files = [file for folder in folders for file in ([folder] if folder.is_file() else folder.rglob("*.py"))]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted(files)]
    return [f"trainwright.{name.removesuffix('.__init__')}" for name in names]


def _shared() -> list[str]:
    """Return the files and folders of the modules that a contract of pyproject.toml names as shared and light."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [names] = [contract["source_modules"] for contract in contracts if contract["name"].endswith("worker is light")]
    paths = [ROOT.joinpath(*name.split(".")[1:]) for name in names]
    return [str((path if path.is_dir() else path.with_suffix(".py")).relative_to(ROOT)) for path in paths]


def _loaded_after_importing(modules: list[str]) -> set[str]:
    """Import the modules in a fresh process and return the top-level names that it then holds."""
    code = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    process = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(modules)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.requirement("MCP-5")
def test_importing_all_of_server_and_tools_leaves_the_heavy_libraries_out():
    assert not _loaded_after_importing(_modules("server", "tools")) & set(HEAVY)


@pytest.mark.slow
def test_the_light_modules_of_the_engine_need_neither_torch_nor_the_server_side():
    light = _modules(*_shared())
    assert not _loaded_after_importing(light) & {*HEAVY, "mcp", "sqlalchemy", "numpy"}


@pytest.mark.slow
@pytest.mark.long
def test_importing_all_of_the_engine_leaves_the_server_side_out():
    loaded = _loaded_after_importing(_modules("trainer"))
    assert not loaded & {"mcp", "sqlalchemy"}


@pytest.mark.slow
def test_the_bare_names_cannot_be_imported():
    """`server`, `tools` and `trainer` belong to the users' own projects."""
    code = "import importlib.util as u; print([n for n in ('server', 'tools', 'trainer') if u.find_spec(n)])"
    process = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def refused_words() -> list[str]:
    """Return the words in bold in the second column of the glossary."""
    glossary = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Glossary")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in glossary.splitlines() if line.startswith("|")]
    return [word for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row[2])]


def test_the_glossary_refuses_words() -> None:
    assert {"wish", "mended", "taken up", "rests on", "came to"} <= set(refused_words())


def test_no_refused_word_is_written_where_the_words_were_replaced() -> None:
    pattern = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in refused_words()) + r")\b", re.I)
    found = []
    for path in tracked(*DONE):
        name = named(path)
        if name in OLD_PAGES or path.suffix not in {".md", ".py", ".yaml"}:
            continue
        text = STORED_KEYS.sub("", path.read_text(encoding="utf-8"))
        found += [f"{name}:{text[: match.start()].count(chr(10)) + 1}: {match[0]}" for match in pattern.finditer(text)]
    assert not found, "the glossary in CONTRIBUTING.md has the word to write instead"


def test_every_module_docstring_begins_with_its_noun() -> None:
    heads = ((path, ast.get_docstring(parsed(path))) for path in sources())
    assert not [named(path) for path, head in heads if head and QUESTION.match(head)]
