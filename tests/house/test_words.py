"""Words of the field: the glossary of CONTRIBUTING.md is enforced where a folder has been gone through."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DONE = ("README.md", "CHANGELOG.md", "docs", "skills", "agents", "prompts", "server", "tools", "trainer")
"""Files and folders without the glossary's refused words. Add a folder of trainer/ or tools/ when it is done."""
OLD_PAGES = ("docs/decisions.md", "docs/benchmarks.md")
STORED_KEYS = re.compile(r'"wish"|\bwish=|\.wish\b|\bwish: Values')
"""Keys of ledger entries, and the events' fields of that name: existing workspaces hold them."""
QUESTION = re.compile(r"(What|Where|Whether|How|Which|Whose)\b")


def _tracked(*places: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *places], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git repository, so there is no list of tracked files")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


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
    for path in _tracked(*DONE):
        name = path.relative_to(ROOT).as_posix()
        if name in OLD_PAGES or path.suffix not in {".md", ".py", ".yaml"}:
            continue
        text = STORED_KEYS.sub("", path.read_text(encoding="utf-8"))
        found += [f"{name}:{text[: match.start()].count(chr(10)) + 1}: {match[0]}" for match in pattern.finditer(text)]
    assert not found, "the glossary in CONTRIBUTING.md has the word to write instead"


def test_every_module_docstring_begins_with_its_noun() -> None:
    heads = ((path, ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))) for path in _modules())
    assert not [str(path.relative_to(ROOT)) for path, head in heads if head and QUESTION.match(head)]


def _modules() -> list[Path]:
    return [path for path in _tracked("server", "tools", "trainer") if path.suffix == ".py"]
