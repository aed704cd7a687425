"""Tasks of models of the Transformers library: each learns, resumes with the same bits, and is read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.releases import needs
from tests.trainer.models.tasks import (
    BERT,
    CASES,
    NAMES,
    PACKED,
    T5,
    WORDS,
    Case,
    root,
)
from tests.variants import variants

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.choices import read_choices
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow
assert root, "a fixture of the other file"
NEWER = {"causal_lm": releases.PACKED}
"""What is needed of transformers beyond its oldest supported release: its documents are packed."""


@pytest.fixture(params=variants(CASES, quick=["causal_lm"], newer=NEWER))
def case(request: pytest.FixtureRequest) -> Case:
    """Every task in turn."""
    return CASES[request.param]


@pytest.mark.requirement("ARCH-5", "TRAIN-1", "CKPT-5")
def test_each_task_learns_and_is_read_back(case: Case, root: Path, make_run: Any, work: Any, open_session: Any) -> None:
    values = case.values(root)
    leaves = case is not PACKED  # whose program takes a quarter of a minute to write
    whole = make_run(root / "runs" / "whole", values, code_root=str(root), exports_program=leaves)
    assert work(whole) == 0, whole.log.read_text()[-3000:]
    assert not leaves or whole.evidence("program")["form"] == "onnx", whole.evidence("program")
    export = make_run(
        root / "runs" / "export", values, code_root=str(root), kind=RunKind.EXPORT, source_run=str(whole.path)
    )
    assert work(export) == 0, export.log.read_text()[-3000:]
    found = export.evidence("export")
    assert found["library"]["max_abs_difference"] <= 1e-4
    assert found["loaded"]["kind"] == "from_library", found["loaded"]
    assert not leaves or found["skew"]["rows_compared"] >= 1
    assert {"transformers/config.json", "transformers/model.safetensors"} <= set(found["files"])
    assert ("transformers/tokenizer.json" in found["files"]) == ("tokenizer" in values["data"].get("args", {}))
    session = open_session(values)
    start = evaluate_split(session, session.validation_loader)[case.metric]
    end = whole.metrics().series(f"validation/{case.metric}")[-1].value
    assert end < start / 1.5 if case.falls else end > start + 0.2


@pytest.mark.requirement("ARCH-5")
def test_the_first_piece_of_a_word_has_its_label_and_no_other(root: Path, open_session: Any) -> None:
    case = CASES["token_classification"]
    values = case.values(root)
    row = {"tokens": ["sees", "anna", "berlin", "."], "tags": ["O", "B-PER", "I-PER", "O"]}
    rows = [json.loads(line) for line in (root / "rows.jsonl").read_text().splitlines()]
    (root / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [row, *rows]))
    session = open_session(values)
    assert session.work.splits.class_names == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert session.model.config.id2label[3] == "B-PER"
    every = [each for part in session.work.splits.samples.values() for each in part.each(range(len(part)))]
    found = [each["labels"].tolist() for each in every if each["labels"].tolist()[1:5] == [0, 3, -100, 4]]
    assert [-100, 0, 3, -100, 4, -100, 0, -100] in found


@needs(releases.PACKED)
@pytest.mark.requirement("ARCH-5", "TRAIN-1")
def test_a_document_has_the_same_logits_alone_and_packed(root: Path, open_session: Any) -> None:
    session = open_session(PACKED.values(root))
    samples, model = session.work.splits.samples["train"], session.model.eval()
    assert samples.filled > 0.9
    assert sorted(part for group in samples.groups for part in group) == list(range(len(samples.parts)))
    block = samples.gather([0])
    assert len(samples.groups[0]) > 1
    with torch.no_grad():
        packed = model(input_ids=block["input_ids"], position_ids=block["position_ids"]).logits[0]
        start = 0
        for part in samples.groups[0]:
            length = int(samples.parts.lengths[part])
            inputs, targets = (value[:, :length] for value in samples.parts.gather([part]))
            torch.testing.assert_close(packed[start : start + length], model(inputs).logits[0], atol=1e-5, rtol=1e-5)
            assert block["labels"][0, start : start + length].tolist() == targets[0].tolist()
            start += length
    assert (block["labels"][0, start:] == -100).all()


@pytest.mark.requirement("ARCH-5", "CONF-1")
def test_a_model_in_which_packed_documents_see_each_other_is_refused(root: Path, open_session: Any) -> None:
    values = PACKED.values(root)
    config = {"model_type": "opt", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32,
              "word_embed_proj_dim": 32}  # fmt: skip
    with pytest.raises(ConfigurationError, match="OPTForCausalLM lets a document see") as caught:
        open_session({**values, "model": {"use": "transformers", "args": {"config": config}}})
    assert caught.value.details["changes"] == {"data.args.packed": False}


@pytest.mark.requirement("ARCH-5", "GATE-6")
def test_a_question_has_the_same_loss_alone_and_filled_up(root: Path, open_session: Any) -> None:
    session = open_session(CASES["question_answering"].values(root))
    samples, model = session.work.splits.samples["validation"], session.model.eval()
    whole = samples.gather(range(8))
    assert (whole["attention_mask"] == 0).any()
    with torch.no_grad():
        alone = [session.objective(model, samples.gather([row])).loss for row in range(8)]
        torch.testing.assert_close(session.objective(model, whole).loss, torch.stack(alone).mean())


@pytest.mark.requirement("ARCH-5", "REPRO-6")
def test_batches_by_length_hold_less_filling_and_every_sample_once(root: Path, open_session: Any) -> None:
    values = CASES["question_answering"].values(root)
    values["data"]["args"]["max_length"] = 64

    def filling(shuffle: str) -> float:
        session = open_session({**values, "loader": {"batch_size": 8, "shuffle": shuffle}}, shuffle)
        loader = session.train_loader
        rows = [row for batch in range(len(loader)) for row in loader.indices(1, batch)]
        assert sorted(rows) == list(range(len(loader.samples)))
        assert [loader.indices(1, batch) for batch in range(2)] != [loader.indices(0, batch) for batch in range(2)]
        masks = torch.cat([batch["attention_mask"].flatten() for batch in loader.batches(1)])
        return 1.0 - masks.float().mean().item()

    assert filling("length") < filling("full") / 2


@pytest.mark.requirement("REPRO-6", "ARCH-5")
def test_tokens_are_hidden_anew_in_every_epoch_and_alike_in_every_run(root: Path, open_session: Any) -> None:
    values = CASES["masked_lm"].values(root)
    first, again = (open_session({**values, "loader": {"num_workers": n}}, f"run-{n}").train_loader for n in (0, 1))
    batches = {epoch: next(first.batches(epoch)) for epoch in (0, 1)}
    for epoch, batch in batches.items():
        other = next(again.batches(epoch))
        assert all(torch.equal(value, other[name]) for name, value in batch.items())
        hidden = batch["labels"] != -100
        assert (hidden.sum(1) > 0).all()
        assert not (hidden & (batch["attention_mask"] == 0)).any()
    share = (batches[0]["labels"] != -100).sum() / batches[0]["attention_mask"].sum()
    assert 0.1 < share < 0.35
    assert not torch.equal(batches[0]["labels"], batches[1]["labels"])


WRONG: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "tags": ("token_classification", {"tokens": ["red", "cat"], "tags": ["O"]}, {}, "line 1 has 2 words and 1 tags"),
    "tag names": ("token_classification", {"tokens": ["red"], "tags": [7]}, {"tag_names": ["O", "B-X"]}, "the tag 7"),
    "a column": ("token_classification", {"tokens": ["red"], "tag": ["O"]}, {}, "line 1 has no 'tags'"),
    "an answer": (
        "question_answering", {"question": "red?", "context": "the cat", "answers": "dog"}, {}, "'dog' is not in the",
    ),
    "choices": ("multiple_choice", {"question": "red?", "choices": ["one"], "answer": 0}, {}, "no two choices"),
    "a choice": ("multiple_choice", {"question": "red?", "choices": ["a", "b"], "answer": "Z"}, {}, "'Z', which is"),
    "a target": ("seq2seq", {"text": "red", "target": " "}, {}, "column 'target': the text is empty"),
}  # fmt: skip


@pytest.mark.requirement("ARCH-5", "PIPE-2")
@pytest.mark.parametrize("kind", WRONG)
def test_a_row_that_does_not_fit_its_task_is_named(kind: str, root: Path, open_session: Any) -> None:
    use, row, args, told = WRONG[kind]
    values = CASES[use].values(root)
    rest = (root / "rows.jsonl").read_text()
    (root / "rows.jsonl").write_text(json.dumps(row) + "\n" + rest)
    values["data"]["args"] |= args
    with pytest.raises(DataError, match=told) as caught:
        open_session(values)
    assert caught.value.remedy


@pytest.mark.requirement("ARCH-5", "CONF-1")
@pytest.mark.parametrize(
    ("use", "changes", "told"),
    [
        ("seq2seq", {"model.args": {"task": "causal_lm", "config": T5}}, "the data are made for seq2seq_lm"),
        ("masked_lm", {"loss": "next_token"}, "task masked_lm is trained with loss masked_token"),
        ("seq2seq", {"model.args": {"config": {**T5, "decoder_start_token_id": 2}}}, "set data.args.decoder_start 2"),
        ("multiple_choice", {"metrics": ["entity_f1"]}, "entity_f1 is of entities"),
        ("masked_lm", {"metrics": ["rouge_l"]}, "rouge_l compares texts that a model writes"),
        (
            "seq2seq",
            {"adapter": {"name": "prompt", "tokens": 2, "init": "random"}},
            "behind the learned vectors of `adapter`",
        ),
        ("image_classification", {"model.args": {"config": {**BERT, "model_type": "vit"}}}, "patch_size 16 is larger"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_to_set(
    use: str, changes: dict[str, Any], told: str, root: Path, open_session: Any
) -> None:
    values = CASES[use].values(root)
    model = {"use": "transformers", "args": changes.pop("model.args", values["model"]["args"])}
    with pytest.raises(ConfigurationError, match=told):
        open_session({**values, "model": model, **changes})


@pytest.mark.requirement("ARCH-5")
def test_the_words_that_a_model_writes_do_not_depend_on_the_batch(
    root: Path, open_session: Any, take_steps: Any
) -> None:
    """A model that does not know yet when to end wrote as many tokens as the longest text of the batch had."""
    values = CASES["seq2seq"].values(root)
    rows = [{"text": " ".join(WORDS[: 1 + number % 9]), "target": "red " * (1 + number % 7)} for number in range(120)]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    session = open_session(values)
    take_steps(session, 4)
    found = [
        evaluate_split(session, replace(session.validation_loader, batch_size=size))["rouge_l"] for size in (1, 64)
    ]
    assert found[0] > 0.0
    assert found[0] == found[1]


@pytest.mark.requirement("PIPE-2", "ARCH-5")
def test_all_questions_on_a_context_are_in_one_split(root: Path) -> None:
    """SQuAD has five questions on each text: with the text in train, its other questions would test what was read."""
    texts = [f"{name} sees the {word} house" for name in NAMES for word in WORDS[:5]]
    rows = [
        {"question": f"who {word}?", "context": text, "answers": text.split()[0]} for text in texts for word in "ab"
    ]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = {"path": "rows.jsonl", "tokenizer": "tokenizer"}
    splits = load_source("question_answering", args, root, SplitSection())
    assert isinstance(splits, Splits)
    seen: dict[tuple[int, ...], set[str]] = {}
    for split, samples in splits.samples.items():
        for index in range(len(samples)):
            tokens = samples[index]["input_ids"].tolist()
            seen.setdefault(tuple(tokens[tokens.index(3) :]), set()).add(split)  # behind the question
    assert len(seen) == len(texts)
    assert {len(each) for each in seen.values()} == {1}
    assert set().union(*seen.values()) == {"train", "validation", "test"}


def answered(rows: list[tuple[Any, Any]]) -> list[str]:
    """Return the right choices of rows of (choices, answer)."""
    made = [
        (f"line {number}", {"question": "which?", "choices": choices, "answer": answer})
        for number, (choices, answer) in enumerate(rows, 1)
    ]
    return [each.choices[each.right] for each in read_choices(made, "question", "choices", "answer")]


@pytest.mark.requirement("PIPE-2", "ARCH-5")
def test_answers_of_a_file_are_read_in_one_way() -> None:
    assert answered([(["x", "y"], "B"), (["x", "z"], "A")]) == ["y", "x"]
    assert answered([(["0", "2", "1"], "1"), (["4", "5", "7"], "7")]) == ["1", "7"], "the second row: texts"
    assert answered([(["0", "2", "1"], 1)]) == ["2"], "a number is no text"
    labelled = {"text": ["0", "2", "1"], "label": ["1", "2", "3"]}
    assert answered([(labelled, "1"), (labelled, "3")]) == ["0", "1"]
    with pytest.raises(DataError, match="as a number from 0 it is '2', as a text '1', and no row tells") as caught:
        answered([(["9", "1"], "0"), (["0", "2", "1"], "1")][1:])
    assert "as letters" in caught.value.remedy
    with pytest.raises(DataError, match="line 1 names the right choice by its letter, and line 2 in another way: 'z'"):
        answered([(["x", "y"], "B"), (["x", "z"], "z")])
