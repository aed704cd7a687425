"""Tokens in the cache: made once for the same text and tokenizer, and the same wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.data import cache
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text import tokens
from trainwright.trainer.data.text.blocks import cut_into_blocks, tokenize_rows
from trainwright.trainer.data.text.tokenizers import ByteTokenizer, CharacterTokenizer
from trainwright.trainer.evidence.data import data_evidence

LONG = [f"document {number} about é and 中文 " * 90 for number in range(40)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    cache.use(cache.DataCache(tmp_path / "cache"))
    yield
    cache.use(None)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names the tokenizers in the order in which they encode something; any text counts as long."""
    calls: list[str] = []

    def watch(kind: type[Any], name: str) -> None:
        real = getattr(kind, name)

        def watched(self: Any, *args: Any) -> Any:
            calls.append(kind.__name__)
            return real(self, *args)

        monkeypatch.setattr(kind, name, watched)

    for kind in (ByteTokenizer, CharacterTokenizer):
        for name in ("encode", "encode_whole"):
            watch(kind, name)
    monkeypatch.setattr(tokens, "MAPPED_FROM_CHARACTERS", 100)
    return calls


def load(root: Path, **args: Any) -> Splits:
    splits = load_source("text", {"path": "*.txt", "block_size": 32, **args}, root, SplitSection())
    assert isinstance(splits, Splits)
    return splits


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
@pytest.mark.parametrize("tokenizer", ["bytes", "characters"])
def test_a_second_run_tokenizes_nothing_again(tokenizer: str, tmp_path: Path, counted: list[str]) -> None:
    for number, text in enumerate(LONG):
        (tmp_path / f"{number:02d}.txt").write_text(text)
    first = load(tmp_path, tokenizer=tokenizer, split_by="position")
    assert counted
    counted.clear()
    again = load(tmp_path, tokenizer=tokenizer, split_by="position")
    train = again.samples["train"]
    assert not counted
    assert data_evidence(again, tmp_path) == data_evidence(first, tmp_path)
    assert all(torch.equal(one, other) for one, other in zip(train[0], first.samples["train"][0], strict=True))
    (tmp_path / "00.txt").write_text(LONG[0] + "!")
    changed = load(tmp_path, tokenizer=tokenizer, split_by="position")
    assert counted
    assert data_evidence(changed, tmp_path).fingerprint != data_evidence(first, tmp_path).fingerprint


@pytest.mark.requirement("TRAIN-1")
def test_mapped_tokens_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [[(text, False), (text[::-1], True)] for text in LONG]
    mapped = cut_into_blocks(pieces, ByteTokenizer(), 50)
    rows = tokenize_rows(LONG, torch.zeros(len(LONG)), ByteTokenizer(), 20)
    monkeypatch.setattr(tokens, "MAPPED_FROM_CHARACTERS", 1 << 30)
    kept = cut_into_blocks(pieces, ByteTokenizer(), 50)
    places = range(len(kept))
    assert len(mapped) == len(kept)
    assert all(torch.equal(one, other) for one, other in zip(mapped.gather(places), kept.gather(places), strict=True))
    assert mapped.bytes_per_token == kept.bytes_per_token == 1.0
    other = tokenize_rows(LONG, torch.zeros(len(LONG)), ByteTokenizer(), 20)
    assert torch.equal(rows.gather([0, 39])["input_ids"], other.gather([0, 39])["input_ids"])
