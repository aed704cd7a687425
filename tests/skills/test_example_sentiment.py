"""The sentiment example: texts of one review stay together, and moods follow the ratings."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.skills.example_scripts import archive_of, script

pytestmark = pytest.mark.requirement("SKILL-4")


@pytest.fixture(scope="module")
def prepare() -> Any:
    return script("sentiment", "prepare")


@pytest.fixture
def sdist(tmp_path: Path, prepare: Any) -> Path:
    """A source package of the same build with texts of ours: 40 product reviews of three sentences, and others."""
    reviews = "".join(f"{n}_{s}\t{rating}\tproduct {n} says {s}\r\n" for n in range(1, 41) for s, rating in
                      ((1, "2.5"), (2, "-0.5"), (3, "0.49")))  # fmt: skip
    others = "1\t1.0\tsalt &amp; pepper\r\n2\t-3.2\tno\r\n3\t-3.0\tNo\r\n"
    inner = archive_of({f"hutto_ICWSM_2014/{name}_GroundTruth.txt": reviews if source == "product" else others
                      for name, source in prepare.SOURCES.items()})  # fmt: skip
    path = tmp_path / "vaderSentiment-3.3.2.tar.gz"
    path.write_bytes(archive_of({f"vaderSentiment-3.3.2/additional_resources/{prepare.INNER}": inner}))
    return path


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "texts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_texts_of_one_review_are_in_one_split(prepare: Any, sdist: Path, tmp_path: Path) -> None:
    prepare.write(tmp_path / "data", sdist)
    splits = defaultdict(set)
    for row in _rows(tmp_path / "data"):
        if row["source"] == "product":
            splits[row["text"].rpartition(" says ")[0]].add(row["split"])
    assert len(splits) == 40
    assert all(len(found) == 1 for found in splits.values())
    assert set.union(*splits.values()) == {"train", "validation", "test"}


def test_ratings_become_moods_and_equal_texts_are_kept_once(prepare: Any, sdist: Path, tmp_path: Path) -> None:
    prepare.write(tmp_path / "data", sdist)
    moods = {row["text"]: row["mood"] for row in _rows(tmp_path / "data")}
    assert moods["product 1 says 1"] == "positive"
    assert moods["product 1 says 2"] == "negative"
    assert moods["product 1 says 3"] == "neutral"
    assert moods["salt & pepper"] == "positive"
    assert [text for text in moods if text.casefold() == "no"] == ["No"], "by any spelling"


def test_the_data_are_the_same_each_time(prepare: Any, sdist: Path, tmp_path: Path) -> None:
    assert prepare.write(tmp_path / "one", sdist) == prepare.write(tmp_path / "two", sdist)
    assert (tmp_path / "one" / "texts.csv").read_bytes() == (tmp_path / "two" / "texts.csv").read_bytes()


def test_padding_changes_no_answer() -> None:
    import torch

    model = script("sentiment", "adapter").TextCNN(50).eval()
    tokens, mask = torch.tensor([[5, 9, 3]]), torch.ones(1, 3, dtype=torch.long)
    padded = torch.tensor([[5, 9, 3, 0, 0, 0]]), torch.tensor([[1, 1, 1, 0, 0, 0]])
    assert torch.allclose(model(tokens, mask), model(*padded), atol=1e-6)


def test_the_comparison_knows_the_most_frequent_class_and_words() -> None:
    compare = script("sentiment", "compare")
    assert compare.majority(["a", "a", "b"], ["a", "b"]) == {"accuracy": 0.5, "f1": 0.3333}
    rows = [{"text": f"{word} number {n % 3}", "mood": mood} for n in range(9) for word, mood in
            (("fine", "positive"), ("awful", "negative"))]  # fmt: skip
    assert compare.words(rows, rows)["accuracy"] == 1.0


def test_the_prediction_reads_a_text_as_training_did(tmp_path: Path) -> None:
    from trainwright.trainer.data.text.tokenizers import TrainedTokenizer
    from trainwright.trainer.prediction.assembly import assembled

    texts = ["A fine film, a fine day!", "It was not fine :( at all", "Schöne Grüße & 100 % 🙂", "fine " * 100]
    trained = TrainedTokenizer.fit(texts, 320)
    schema = {"max_length": 64, "padding": trained.padding, "tokenizer": {"name": "bpe"}}
    (tmp_path / "predict.py").write_text(assembled("text", "classes", ""))
    (tmp_path / "schema.json").write_text(json.dumps({"text": schema}))
    (tmp_path / "tokenizer.json").write_text(trained.inner.backend_tokenizer.to_str())
    inputs = script("sentiment", "predict").inputs_of(tmp_path, texts)
    for text, tokens, mask in zip(texts, inputs["input_ids"], inputs["attention_mask"], strict=True):
        assert tokens[mask == 1].tolist() == trained.encode_whole(text, 64).tolist()
    assert {path.name for path in tmp_path.iterdir()} == {"predict.py", "schema.json", "tokenizer.json"}
