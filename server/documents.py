"""Documents of the skills: listing them, reading one, and the nearest ones to a wrong path.

Only Markdown and YAML files below `skills/` can be read, whatever the path looks like. Paths are relative to
`skills/ml-trainer/`; those of another skill begin with its name: `training-patterns/lora.md`.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

from trainwright.tools.documents import SKILL
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, near

URI_PREFIX = "trainwright://documents/"
SUFFIXES = {".md", ".yaml"}
PAGE_CHARACTERS = 2800
"""Of one answer: about 700 tokens; the headings of what follows are named beside it."""
MENTION_CHARACTERS = 1600
"""Of all passages about one key."""
KEY = re.compile(r"[a-z_]+(?:\.[a-z_*]+)+")
"""A key of a configuration, which documents speak of: `search.pruning.name`."""
HEADING = re.compile(r"^##+ +(.+)$", re.MULTILINE)
COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
"""What tells the tests how an example is run."""
NEAREST = 6
"""Documents that free words are answered with."""
WORD = re.compile(r"[a-z][a-z0-9]{2,}")
INDEX, BEGIN = "SKILL.md", "begin.md"


@cache
def document_paths() -> tuple[str, ...]:
    """Return the paths of all documents, those of the main skill first, in order."""
    others = sorted(folder for folder in SKILL.parent.iterdir() if (folder / INDEX).is_file() and folder != SKILL)
    return (*_below(SKILL, SKILL), *(path for folder in others for path in _below(folder, SKILL.parent)))


def _below(skill: Path, base: Path) -> list[str]:
    root = skill.resolve()
    found = (path for path in skill.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    inside = (path for path in found if path.resolve().is_relative_to(root))  # no link leads out
    return sorted(path.relative_to(base).as_posix() for path in inside)


def _file(path: str) -> Path:
    """Return the file of one of `document_paths`."""
    file = SKILL / path
    return file if file.is_file() else SKILL.parent / path


def title_of(path: str) -> str:
    """Return the document's first heading, or its path."""
    for line in _file(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return path


def read_text(path: str) -> str:
    """Return a document's full text, as it is for readers. Raises NotFoundError."""
    return COMMENT.sub("", _file(resolve(path)).read_text(encoding="utf-8"))


def resolve(path: str) -> str:
    """Return a document's path, for any form of it: a URI, from the repository's root, as another skill links to it.

    Its bare name, where no other document has it: `ablation`.

    The path is looked up among the documents that exist, never joined to a folder, so nothing else can be read.

    Raises:
        NotFoundError: no document has this path; the remedy names the nearest ones.
    """
    name = re.sub(r"^(\./|(\.\./)?(skills/)?(ml-trainer/)?)", "", path.strip().removeprefix(URI_PREFIX))
    if name not in document_paths():
        if len(named := [known for known in document_paths() if Path(known).stem == name]) == 1:
            return named[0]
        wanted = name.strip("./")
        first, *others = nearest = near_paths(wanted)
        rest = f"; also near: {', '.join(others)}" if others else ""
        if not wanted:
            rest = f", the index; the documents are {', '.join(document_paths())}"
        raise NotFoundError(
            f"There is no document {path[:120]!r}.",
            remedy=f'read_document(path="{first}"){rest}.',
            details={"near": nearest, "instead": {path: first}},
        )
    return name


def read_page(path: str, offset: int) -> tuple[str, int, int | None]:
    """Return a page of the document, its length, and the offset of the next page, in characters.

    Raises:
        NotFoundError: no document has this path.
        ConfigurationError: the offset is beyond the end.
    """
    text = read_text(path)
    if offset > len(text):
        raise ConfigurationError(
            f"offset {offset} is beyond the document's end ({len(text)} characters).",
            remedy=f"read_document(path='{path}', offset=0)",
        )
    end = offset + PAGE_CHARACTERS
    if end >= len(text):
        return text[offset:], len(text), None
    starts = [start for start in sections(text).values() if offset + PAGE_CHARACTERS // 2 <= start <= end]
    end = max(starts, default=0) or text.rfind("\n", offset + PAGE_CHARACTERS // 2, end) + 1 or end
    return text[offset:end], len(text), end


def sections(text: str) -> dict[str, int]:
    """Return where the headings of a document begin, by their anchors: `several-objectives`."""
    code = [(found.start(), found.end()) for found in re.finditer(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)]
    found = [one for one in HEADING.finditer(text) if not any(low <= one.start() < high for low, high in code)]
    return {anchor_of(one.group(1)): one.start() for one in found}


def anchor_of(heading: str) -> str:
    """Return a heading as links name it."""
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).strip().replace(" ", "-")


def section_at(path: str, anchor: str) -> int:
    """Return where a section begins. Raises NotFoundError with the nearest ones."""
    known = sections(read_text(path))
    if anchor_of(anchor) in known:
        return known[anchor_of(anchor)]
    nearest = near(anchor, known) or list(known)
    first = f"{path}#{nearest[0]}" if nearest else path
    raise NotFoundError(
        f"{path} has no section {anchor[:80]!r}.",
        remedy=f'read_document(path="{first}"); its sections: {", ".join(known) or "none"}.',
        details={"near": nearest[:3]},
    )


def passages(key: str) -> str:
    """Return what the documents say of a configuration's key, with their paths; nothing where none speaks of it.

    Of a table its rows about the key; else the paragraph. Those of `configs/` first, where keys are explained.
    """
    word, left = re.compile(rf"(?<![\w.]){re.escape(key)}(?![\w])"), 0
    found: list[str] = []
    for path in sorted(document_paths(), key=lambda path: not path.startswith("configs/")):
        if not path.endswith(".md") or not word.search(text := read_text(path)):
            continue
        blocks = [block for block in re.split(r"\n\s*\n", text) if word.search(block)]
        said = f"{path}:\n" + "\n".join(_about(word, block) for block in blocks)
        if sum(map(len, found)) + len(said) > MENTION_CHARACTERS and found:
            left += 1
        else:
            found.append(said[:MENTION_CHARACTERS])
    more = [f"{left} more documents name it."] if left else []
    return "\n\n".join(found + more)


def _about(word: re.Pattern[str], block: str) -> str:
    lines = block.splitlines()
    if not lines[-1].lstrip().startswith("|"):
        return block
    return "\n".join([*lines[:2], *(line for line in lines[2:] if word.search(line))])


def is_question(path: str) -> bool:
    """Return whether these are words to look for, and no path: several, or one that names no document."""
    return " " in path.strip() or (
        re.fullmatch(r"\w+", path) is not None and not any(path in Path(known).stem for known in document_paths())
    )


def sections_about(question: str) -> list[str]:
    """Return sections that free words are about, one a document, `path#section: title`; none where no word is met.

    A word counts by how few sections have it, in a heading three times.
    """
    parts = _all_sections()
    words = {_stem(word) for word in WORD.findall(question.lower())}
    scores = dict.fromkeys(parts, 0.0)
    for word in words:
        has = [name for name, (heading, text) in parts.items() if word in text or word in heading]
        for name in has:
            scores[name] += math.log(len(parts) / len(has)) * (3 if word in parts[name][0] else 1)
    best = sorted((name for name in parts if scores[name] > 0), key=lambda name: -scores[name])
    of_each: dict[str, str] = {}
    for name in best:
        of_each.setdefault(name.partition("#")[0], name)
    return [f"{name}: {title_of(path)}" for path, name in [*of_each.items()][:NEAREST]]


@cache
def _all_sections() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return of each section, by `path#anchor`, the stems of its headings' words and of its text's."""
    found = {}
    for path in (path for path in document_paths() if path.endswith(".md")):
        text = read_text(path)
        starts = {"": 0, **sections(text)}
        ends = [*[*starts.values()][1:], len(text)]
        for (anchor, start), end in zip(starts.items(), ends, strict=True):
            heading = f"{title_of(path)} {anchor.replace('-', ' ')} {path}".lower()
            name = f"{path}#{anchor}" if anchor else path
            found[name] = (_stems(heading), _stems(text[start:end].lower()))
    return found


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(_stem, WORD.findall(text)))


def _stem(word: str) -> str:
    return re.sub(r"(?<=\w{3})(?:isons?|ings?|ed|es|s|e)$", "", word)


def near_paths(name: str) -> list[str]:
    """Return up to three paths that are nearest to a name; the index if none is similar."""
    words = [word for word in re.sub(r"\.\w*$", "", name).lower().split("/") if len(word) > 2]
    by_word = [path for word in reversed(words) for path in document_paths() if word in path]
    found = [*near(name, document_paths()), *by_word, INDEX]
    return list(dict.fromkeys(found))[:3]


def paths_beginning(text: str) -> list[str]:
    """Return the paths that begin with the text, then those that contain it."""
    begins = [path for path in document_paths() if path.startswith(text)]
    return begins + [path for path in document_paths() if text in path and path not in begins]
