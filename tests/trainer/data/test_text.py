"""Text as samples: every token predicted once, no text in two splits, nothing learned from what is held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.blocks import TokenBlocks, cut_into_blocks
from trainwright.trainer.data.text.tokenizers import BOUNDARY, ByteTokenizer, CharacterTokenizer
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.evidence.data import data_evidence

HALVES = SplitSection(validation=0.25, test=0.25)


def text_of(root: Path, **args: Any) -> Splits:
    splits = load_source("text", args, root, HALVES)
    assert isinstance(splits, Splits)
    return splits


def targets_of(blocks: TokenBlocks) -> list[int]:
    _, targets = blocks.gather(range(len(blocks)))
    return targets[targets != -100].tolist()


@pytest.mark.requirement("TRAIN-1")
def test_every_byte_is_a_target_once_and_no_block_reaches_over_a_documents_end() -> None:
    texts = ["abcdefg", "hé", "x"]
    blocks = cut_into_blocks(texts, ByteTokenizer(), block_size=4)
    assert targets_of(blocks) == list("".join(texts).encode())
    inputs, targets = blocks.gather([0, 1, 2])
    assert inputs.tolist() == [[BOUNDARY, 97, 98, 99], [100, 101, 102, 0], [BOUNDARY, 104, 195, 0]]
    assert targets.tolist() == [[97, 98, 99, 100], [101, 102, 103, -100], [104, 195, 169, -100]]
    assert all(torch.equal(one, many) for one, many in zip(blocks[1], (inputs[1], targets[1]), strict=True))


@pytest.mark.requirement("TRAIN-1")
def test_characters_are_those_of_the_training_text_and_others_are_spelled_in_bytes() -> None:
    tokenizer = CharacterTokenizer.fit(["naïve 中文"])
    assert tokenizer.vocabulary_size == 257 + 3
    assert tokenizer.encode("中ï").tolist() == [258, 257]
    assert tokenizer.encode("é").tolist() == list("é".encode())
    blocks = cut_into_blocks(["中文中文"], tokenizer, block_size=4)
    assert blocks.bytes_per_token == 3.0


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_documents_go_to_one_split_each_and_their_copies_with_them(tmp_path: Path) -> None:
    documents = [f"document {number} " * 3 for number in range(40)]
    (tmp_path / "all.txt").write_text("\n---\n".join([*documents, *documents[:10]]))
    splits = text_of(tmp_path, path="all.txt", separator="\n---\n", block_size=16)
    assert splits.text is not None
    assert splits.text.split_by == "document"
    found = {name: bytes(targets_of(blocks)).decode() for name, blocks in splits.samples.items()}
    for document in documents:
        assert sum(document in text for text in found.values()) == 1
    evidence = data_evidence(splits, tmp_path)
    assert evidence.disjoint
    assert evidence.text["tokens"] == {name: len(text) for name, text in found.items()}
    assert list(evidence.files) == ["all.txt"]


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_few_documents_are_split_by_position(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} line {number}\n" for number in range(100)))
    splits = text_of(tmp_path, path="*.txt", block_size=16)
    assert splits.text is not None
    assert splits.text.split_by == "position"
    found = {name: bytes(targets_of(blocks)).decode() for name, blocks in splits.samples.items()}
    whole = [(tmp_path / f"{name}.txt").read_text() for name in ("one", "two")]
    assert found["train"] == "".join(text[: len(text) // 2] for text in whole)
    assert found["test"].endswith(whole[1][-100:])


@pytest.mark.requirement("REPRO-4")
def test_a_block_that_training_has_word_for_word_is_left_out_of_validation_and_test(tmp_path: Path) -> None:
    header = "the same header!"
    rows = [header + chr(97 + number % 26) * 10 + chr(97 + number // 26) * 6 for number in range(60)]
    (tmp_path / "all.txt").write_text("\n".join(rows))
    splits = text_of(tmp_path, path="all.txt", separator="\n", block_size=16)
    assert splits.text is not None
    assert splits.text.dropped_blocks == 30
    assert data_evidence(splits, tmp_path).disjoint
    assert header.encode() not in bytes(targets_of(splits.samples["validation"]))


@pytest.mark.requirement("TRAIN-2", "TRAIN-1")
def test_accumulated_blocks_of_uneven_length_make_the_update_of_the_large_batch(
    tmp_path: Path, open_session: Any
) -> None:
    generator = np.random.default_rng(0)
    letters = generator.choice(list("abcdefgh"), size=(300, 40))
    words = ["".join(row[:size]) for row, size in zip(letters, generator.integers(1, 40, 300), strict=True)]
    (tmp_path / "all.txt").write_text("\n".join(words))
    values: dict[str, Any] = {
        "model": {"use": "gpt", "args": {"layers": 1, "heads": 1, "width": 8}},
        "data": {"use": "text", "args": {"path": "all.txt", "separator": "\n", "block_size": 24}},
        "loss": "next_token",
        "optimizer": {"name": "sgd", "learning_rate": 1.0},
        "logging": {"tensorboard": False},
    }
    large = open_session({**values, "loader": {"batch_size": 32}}, "large")
    small = open_session({**values, "loader": {"batch_size": 8}, "training": {"accumulation_steps": 4}}, "small")
    results = [take_step(session, next(session.groups())) for session in (large, small)]
    assert results[0].loss.item() == pytest.approx(results[1].loss.item(), rel=1e-5)
    for ours, theirs in zip(small.model.parameters(), large.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("args", "error", "told"),
    [
        ({"path": "bad.txt"}, DataError, "bad.txt cannot be read as UTF-8 text: line 1 has the byte 0x"),
        ({"path": "empty.txt"}, DataError, "no text in the files"),
        ({"path": "short.txt"}, DataError, "too short for the split"),
        ({"path": "*.doc"}, ConfigurationError, "matches no file"),
        ({"path": "short.txt", "tokenizer": "byte"}, ConfigurationError, "no built-in tokenizer. Near: bytes"),
        ({"path": "short.txt", "tokenizer": "folder"}, ConfigurationError, "no folder at"),
    ],
)
def test_bad_text_and_bad_arguments_are_told(
    args: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.txt").write_bytes(b"abc\xff\xfe")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "short.txt").write_text("a")
    with pytest.raises(error, match=told):
        text_of(tmp_path, **args)
