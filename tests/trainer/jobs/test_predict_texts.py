"""predict.py for texts: tags on words, answers in a context, choices, hidden words, and what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.trainer.jobs.test_predict import answers, released, run, used

from trainwright.trainer.data.text.turns import pieces_of
from trainwright.trainer.jobs.export.predict import use_lines
from trainwright.trainer.prediction.conversations import messages_in, rendered_with
from trainwright.trainer.prediction.frame import WrongInputError
from trainwright.trainer.prediction.questions import best_span

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-1")

BYTES = {"name": "bytes"}
COMMON = {"padding": 0, "tokenizer": BYTES}
CHATML = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "words": ({"column": "tokens", "max_length": 24}, {"kind": "tags", "classes": ["O", "B-PER", "I-PER"]}),
    "question": ({"question": "ask", "context": "text", "max_length": 24, "stride": 4}, {"kind": "span"}),
    "choices": ({"question": "ask", "choices": "all", "max_length": 24, "count": 2}, {"kind": "choice"}),
    "masked": ({"column": "text", "block_size": 24, "boundary": 256, "mask": 257, "mark": "[MASK]"},
               {"kind": "filled"}),
    "source": ({"column": "text", "prefix": "", "max_length": 24, "max_target_length": 5, "start": 256, "end": 33},
               {"kind": "rewritten"}),
    "conversation": ({"block_size": 64, "begin": [256], "ends": [256], "stop": "</>"}, {"kind": "written"}),
}  # fmt: skip


def told(kind: str, pairs: dict[int, tuple[int, float]], outputs: int, folder: Path) -> Path:
    """Write a model that scores tokens by themselves: of each token one output's score."""
    table = np.zeros((260, outputs), dtype=np.float32)
    for token, (place, score) in pairs.items():
        table[token, place] = score
    read = "decoder_input_ids" if kind == "source" else "input_ids"
    shape: list[Any] = ["rows", "choices", "tokens"] if kind == "choices" else ["rows", "tokens"]
    steps = [helper.make_node("Gather", ["table", read], ["scores"])]
    if kind == "choices":
        steps.append(helper.make_node("ReduceSum", ["scores", "axes"], ["output"], keepdims=0))
    else:
        steps.append(helper.make_node("Identity", ["scores"], ["output"]))
    sizes = ["rows", "choices"] if kind == "choices" else ["rows", "tokens", outputs]
    graph = helper.make_graph(
        steps, "g", [helper.make_tensor_value_info(read, TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, sizes)],
        [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(np.array([2, 3]), "axes")],
    )  # fmt: skip
    text, answer = KINDS[kind]
    schema = {
        "kind": kind, "text": text | COMMON, "answer": answer | {"target": "x"},
        "program": {"file": "model.onnx", "inputs": [read]},
    }  # fmt: skip
    program = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    return released(folder, schema, program)


def schema_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "schema.json").read_text()))


def test_words_get_tags_and_entities_and_those_beyond_the_tokens_none(tmp_path: Path) -> None:
    folder = told("words", {ord("A"): (1, 5.0), ord(" "): (0, 1.0), ord("b"): (2, 4.0)}, 3, tmp_path / "m")
    (found, other) = answers(run(folder, "--json", '["Ann", "sees"]', "Ann " + "x" * 30 + " late"))
    assert [(word["word"], word["tag"]) for word in found["answer"]["words"]] == [("Ann", "B-PER"), ("sees", "O")]
    assert found["answer"]["entities"] == [{"text": "Ann", "kind": "PER", "first": 0, "last": 0}]
    assert other["answer"]["words"][2]["tag"] is None
    assert other["notes"] == ["1 words are beyond 24 tokens: not tagged"]
    (folder / "rows.csv").write_text('id;tokens\n7;"Ann sees"\n')
    lines = run(folder, "rows.csv").stdout.splitlines()
    assert lines[0] == "row,id,word,tag,probability,note"
    assert lines[2].startswith("1,7,sees,O,")
    assert "tokens: [] holds no words" in run(folder, '{"tokens": []}').stderr


def test_an_answer_is_a_part_of_the_context_or_none(tmp_path: Path) -> None:
    folder = told("question", {ord("<"): (0, 9.0), ord(">"): (1, 9.0)}, 2, tmp_path / "m")
    row = {"ask": "<?>", "text": "see <it> there"}
    (found,) = answers(run(folder, "--json", json.dumps(row)))
    assert (found["answer"]["answer"], found["answer"]["from"], found["answer"]["to"]) == ("<it>", 4, 8)
    (far,) = answers(run(folder, "--json", json.dumps(row | {"text": "nothing in all this time, and then <it>!"})))
    assert far["answer"]["answer"] == "<it>"
    none = told("question", {256: (0, 9.0)}, 2, tmp_path / "none")
    assert answers(run(none, "--json", json.dumps(row)))[0]["answer"]["answer"] == ""
    assert "has no 'text'; it has ask" in run(folder, '{"ask": "?"}').stderr
    assert "no room beside its context" in run(folder, json.dumps(row | {"ask": "?" * 40})).stderr
    assert "it is no row, and no file" in run(folder, "who?").stderr


def test_no_answer_is_said_where_the_first_token_is_likeliest() -> None:
    scores = np.zeros((3, 2))
    scores[0] = 5.0
    span, share, none = best_span(scores, [None, (0, 1), (1, 2)])
    assert span in {(0, 1), (0, 2), (1, 2)}
    assert none > share


def test_the_likeliest_choice_is_answered_and_another_number_of_them_refused(tmp_path: Path) -> None:
    folder = told("choices", {ord("z"): (0, 2.0)}, 1, tmp_path / "m")
    (found,) = answers(run(folder, "--json", '{"ask": "which?", "all": ["a", "zz"]}'))
    assert (found["answer"]["choice"], found["answer"]["number"]) == ("zz", 1)
    done = run(folder, '{"ask": "which?", "all": ["a", "b", "c"]}')
    assert "all: 3 choices.\nGive a list of 2 texts" in done.stderr


def test_hidden_words_are_filled_with_the_likeliest(tmp_path: Path) -> None:
    folder = told("masked", {257: (ord("t"), 9.0)}, 258, tmp_path / "m")
    (found,) = answers(run(folder, "--json", "ca[MASK] and ha[MASK]"))
    assert found["answer"]["text"] == "cat and hat"
    assert [one[0]["word"] for one in found["answer"]["words"]] == ["t", "t"]
    assert "hides nothing within 24 tokens.\nWrite [MASK]" in run(folder, "cat").stderr


def test_a_text_is_written_up_to_its_end_or_the_most_tokens(tmp_path: Path) -> None:
    ends = told("source", {256: (ord("h"), 9.0), ord("h"): (ord("i"), 9.0), ord("i"): (33, 9.0)}, 260, tmp_path / "m")
    (found,) = answers(run(ends, "--json", "a text"))
    assert found["answer"] == {"text": "hi", "tokens": 2, "ended": "document"}
    loops = told("source", {256: (ord("h"), 9.0), ord("h"): (ord("h"), 9.0)}, 260, tmp_path / "loops")
    assert answers(run(loops, "--json", "a text"))[0]["answer"]["text"] == "hhhhh"


def test_a_conversation_is_answered_up_to_the_mark_of_its_end(tmp_path: Path) -> None:
    text = "yes</>"
    follows = {ord(one): (ord(two), 9.0) for one, two in zip("\n" + text, text, strict=False)}
    folder = told("conversation", follows, 260, tmp_path / "m")
    asked = json.dumps([{"from": "human", "value": "is it?"}])
    for given in ("is it?", asked, json.dumps({"messages": json.loads(asked)})):
        (found,) = answers(run(folder, "--json", "--temperature", "0", given))
        assert (found["answer"]["text"], found["answer"]["ended"]) == ("yes", "answer")
    done = run(folder, json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]))
    assert "The last message is the assistant's" in done.stderr
    with pytest.raises(WrongInputError, match="message 1: 'robot' is no role"):
        messages_in([{"role": "robot", "content": "a"}])


def test_a_template_renders_a_conversation_in_pieces_up_to_the_answer_it_invites() -> None:
    said = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))]
    found = pieces_of(said, rendered_with(CHATML, {}), invites=True)
    assert found == [("<user>a</><assistant>", False), ("b</>", True), ("<user>c</><assistant>", False)]
    with pytest.raises(ValueError, match="2"):
        pieces_of(said, lambda messages, invites: f"{len(messages)}{invites}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_lines_of_use_of_texts_run_as_they_stand(kind: str, tmp_path: Path) -> None:
    outputs = {"words": 3, "question": 2, "choices": 1}.get(kind, 260)
    folder = told(kind, {256: (0, 1.0)}, outputs, tmp_path / "m")
    command, in_python = use_lines(schema_of(folder))
    assert answers(used(folder, command))[0]["answer"]
    assert kind != "choices" or used(folder, in_python).stdout.startswith("[{'input': {")


@pytest.mark.parametrize(
    "content", ["one text\nanother\n", '{"text": "one text"}\n{"text": "another"}\n', '["one text", "another"]']
)
def test_standard_input_is_read_as_a_file_of_what_it_holds(content: str, tmp_path: Path) -> None:
    folder = told("source", {256: (33, 9.0)}, 260, tmp_path / "m")
    command = [sys.executable, "-I", "-B", "predict.py", "--json", "-"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, input=content)
    assert [one["input"] for one in answers(done)] == [{"row": 1, "text": "one text"}, {"row": 2, "text": "another"}]
