"""Conversations as samples: every format of the field, and the assistant's tokens alone as targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, open_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.data.text.blocks import TokenBlocks
from trainwright.trainer.data.text.chat import messages_of
from trainwright.trainer.data.text.turns import rendered_plainly
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.evidence.data import data_evidence

TEXT_PARTS = [{"type": "text", "text": "a\n\n"}, {"type": "text", "text": "b"}]
ASKED = "What is 2 + 2?"
HALVES = SplitSection(validation=0.25, test=0.25)


def conversation(number: int) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"{ASKED} ({number})"},
        {"role": "assistant", "content": f"It is {number}."},
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def chats(root: Path, **args: Any) -> Splits:
    splits = load_source("chat", args, root, HALVES)
    assert isinstance(splits, Splits)
    return splits


def learned(blocks: TokenBlocks) -> list[str]:
    """Return what is to be predicted in each block of bytes."""
    _, targets = blocks.gather(range(len(blocks)))
    return [bytes(row[row != IGNORED].tolist()).decode() for row in targets]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "a\n\nb"}, {"role": "assistant", "content": "c"}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a\n\nb"}]},
                {"role": "model", "content": "c"},
            ]
        },
        {"conversations": [{"from": "human", "value": "a\n\nb"}, {"from": "gpt", "value": "c"}]},
        {"conversations": json.dumps([{"from": "human", "value": "a\n\nb"}, {"from": "gpt", "value": "c"}])},
        {"instruction": "a", "input": "b", "output": "c"},
        {"prompt": "a\n\nb", "completion": "c"},
        {"prompt": [{"role": "user", "content": "a\n\nb"}], "completion": [{"role": "assistant", "content": "c"}]},
    ],
)
def test_the_formats_of_the_field_are_one_conversation(row: dict[str, Any]) -> None:
    found = messages_of(row, lambda: "here")
    assert found == [{"role": "user", "content": "a\n\nb"}, {"role": "assistant", "content": "c"}]
    assert rendered_plainly(found) == [("<|user|>\na\n\nb<|end|>\n<|assistant|>\n", False), ("c<|end|>\n", True)]


@pytest.mark.requirement("TRAIN-1")
def test_only_the_assistants_tokens_are_targets_each_exactly_once(tmp_path: Path) -> None:
    write(tmp_path / "chats.jsonl", [{"messages": conversation(number)} for number in range(24)])
    splits = chats(tmp_path, path="chats.jsonl", block_size=256)
    texts = [text for blocks in splits.samples.values() for text in learned(blocks)]
    assert sorted(texts) == sorted(f"It is {number}.<|end|>\nYes.<|end|>\n" for number in range(24))
    assert splits.text is not None
    assert splits.text.tokens["train"] == sum(map(len, learned(splits.samples["train"])))
    assert splits.text.tokenizer["chat_template"].startswith("<|ROLE|>")
    assert data_evidence(splits, tmp_path).disjoint
    cut = chats(tmp_path, path="chats.jsonl", block_size=16)
    assert "".join(learned(cut.samples["train"])) == "".join(learned(splits.samples["train"]))
    assert all(learned(cut.samples["train"]))


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_a_language_model_learns_the_answers(tmp_path: Path, open_session: Any) -> None:
    write(tmp_path / "chats.jsonl", [{"messages": conversation(number)} for number in range(24)])
    values: dict[str, Any] = {
        "model": {"use": "gpt", "args": {"layers": 1, "heads": 1, "width": 16}},
        "data": {"use": "chat", "args": {"path": "chats.jsonl", "block_size": 160}},
        "loss": "next_token",
        "optimizer": {"name": "adamw", "learning_rate": 0.03},
        "loader": {"batch_size": 4},
        "logging": {"tensorboard": False},
    }
    session = open_session(values, "chats")
    losses = [take_step(session, group).loss.item() for group in session.groups()]
    assert len(losses) > 3
    assert losses[-1] < losses[0]


@pytest.mark.requirement("TRAIN-1")
def test_parquet_json_and_arrow_hold_conversations_too(tmp_path: Path) -> None:
    rows = [{"messages": conversation(number)} for number in range(24)]
    write(tmp_path / "chats.jsonl", rows)
    (tmp_path / "chats.json").write_text(json.dumps(rows))
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "chats.parquet")
    write_folder(tmp_path / "folder", rows)
    found = [
        data_evidence(chats(tmp_path, path=name, block_size=128), tmp_path).fingerprint
        for name in ("chats.jsonl", "chats.json", "chats.parquet", "folder")
    ]
    assert len(set(found)) == 1
    frame = open_source("chat", {"path": "chats.jsonl"}).scan(tmp_path)
    assert frame is not None
    assert frame.collect()["messages"].to_list() == [5] * 24


def write_folder(folder: Path, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    with ipc.new_stream(str(folder / "data-0.arrow"), table.schema) as writer:
        writer.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"text": "a"}, "line 2 holds no conversation; its columns: text"),
        ({"messages": [{"role": "user", "content": "a"}]}, "line 2 has no message of the assistant"),
        ({"messages": [{"role": "narrator", "content": "a"}]}, "line 2, message 1 names no known role"),
        ({"messages": [{"role": "assistant", "content": ""}]}, "line 2, message 1 has no text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "line 2, message 1 has no text"),
        ([1], "line 2 is not an object, but list"),
    ],
)
def test_a_row_that_is_no_conversation_is_named(row: Any, told: str, tmp_path: Path) -> None:
    write(tmp_path / "chats.jsonl", [{"messages": conversation(1)}, row])
    with pytest.raises(DataError, match=told) as caught:
        chats(tmp_path, path="chats.jsonl")
    assert caught.value.remedy


@pytest.mark.requirement("TRAIN-1")
def test_a_table_is_no_conversation_and_the_source_that_reads_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "posts.csv").write_text("id,body\n1,a\n")
    with pytest.raises(DataError, match=r"is a table \(columns: id, body\)") as caught:
        chats(tmp_path, path="posts.csv")
    assert "{use: csv, args: {path: posts.csv, text: COLUMN}}" in caught.value.remedy


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }} [end]{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}{% if loop.last or m.role == 'user' %}[{{ m.role }}] {{ m.content }}{% endif %}{% endfor %}"
)
UNKNOWN = "<unk>"
REFUSING = "{{ raise_exception('roles must alternate') }}"


def tokenizer_folder(folder: Path, template: str | None) -> None:
    """Write a tokenizer of words as the Transformers library does."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    text = "<s> <pad> <unk> [assistant] [user] [system] [end] It is Yes . What Sure ? Be brief ( ) 2 +"
    words = text.split()
    numbers = {str(number): len(words) + number for number in range(30) if str(number) not in words}
    vocabulary = {word: place for place, word in enumerate([*words, *numbers])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>", "pad_token": "<pad>", "unk_token": UNKNOWN}
    made = PreTrainedTokenizerFast(tokenizer_object=inner, **marks)
    made.add_tokens(["[assistant]", "[user]", "[system]", "[end]"], special_tokens=True)
    made.chat_template = template
    made.save_pretrained(folder)


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_a_tokenizers_own_template_says_where_answers_begin(tmp_path: Path) -> None:
    write(tmp_path / "chats.jsonl", [{"messages": conversation(number)} for number in range(24)])
    tokenizer_folder(tmp_path / "words", TEMPLATE)
    splits = chats(tmp_path, path="chats.jsonl", tokenizer="words", block_size=64)
    from transformers import AutoTokenizer

    known = AutoTokenizer.from_pretrained(str(tmp_path / "words"))
    inputs, targets = splits.samples["train"].gather([0])
    said = known.decode(targets[targets != IGNORED])
    assert said.count("[end]") == 2
    assert "[assistant]" not in said
    assert "[user]" not in said
    assert known.decode(inputs[0]).startswith("<s>")
    refused = {FORGETFUL: "otherwise once the answer follows", REFUSING: "must alternate", None: "no chat template"}
    for number, (template, told) in enumerate(refused.items()):
        tokenizer_folder(tmp_path / f"other-{number}", template)
        with pytest.raises(DataError, match=told):
            chats(tmp_path, path="chats.jsonl", tokenizer=f"other-{number}")


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
@pytest.mark.parametrize("args", [{"text": "text"}, {"features": ["width"]}, {"text": "text", "target": None}])
def test_the_splits_of_a_hugging_face_data_set_are_kept(args: dict[str, Any], tmp_path: Path) -> None:
    sizes = {"train": 30, "validation": 12, "test": 12}
    for name, offset in (("train", 0), ("validation", 30), ("test", 42)):
        rows = range(offset, offset + sizes[name])
        write_folder(
            tmp_path / "set" / name,
            [{"text": f"text {row} of it", "width": row * 0.5, "kind": f"k{row % 2}"} for row in rows],
        )
    (tmp_path / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["test", "train", "validation"]}))
    given = {key: value for key, value in {"path": "set", "target": "kind", **args}.items() if value is not None}
    data = {"use": "arrow", "args": given, "split": {"by": "given", "column": "split"}}
    evidence = data_evidence(build_data(parse_config({"model": {"use": "mlp"}, "data": data}), tmp_path), tmp_path)
    assert {name: split.size for name, split in evidence.splits.items()} == sizes
    assert len(evidence.files) == 7
    assert evidence.feature_names in (None, ["width"])


@pytest.mark.requirement("TRAIN-1")
def test_a_given_split_of_another_name_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "set" / "extra", [{"text": "a", "kind": "b"}])
    (tmp_path / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["extra"]}))
    with pytest.raises(DataError, match="known are train, validation and test") as caught:
        load_source("arrow", {"path": "set", "text": "text", "target": "kind"}, tmp_path, HALVES)
    assert "set/extra" in caught.value.remedy
