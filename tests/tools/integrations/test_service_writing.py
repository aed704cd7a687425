"""The generated service of a model that writes on: its texts are those that torch and Transformers write."""

from __future__ import annotations

import json
import runpy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.tools.integrations.conftest import Service, serving
from tests.tools.integrations.test_generation import WRITES, WRITING, write_model
from tests.tools.integrations.test_service import predicted, require_lock
from tests.variants import variants

from trainwright.tools.integrations import deploy
from trainwright.trainer.data.text.transform import BOUNDARY
from trainwright.trainer.prediction.assembly import assembled
from trainwright.trainer.prediction.prompts import chosen_token

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]

PROMPTS = ("the bill is", "", "the parcel is late today. the par", "über ")
TOKENS, SEEN = 24, 48


def written_by_torch(folder: Path, prompt: str) -> str:
    """Return the likeliest text after a prompt, by the weights of the released model and the tokenizer of training."""
    import torch
    from transformers import AutoModelForCausalLM

    from trainwright.trainer.data.text.tokenizers import (
        ByteTokenizer,
        CharacterTokenizer,
        LibraryTokenizer,
        TrainedTokenizer,
    )

    model = AutoModelForCausalLM.from_pretrained(folder / "transformers", local_files_only=True).eval()
    record = json.loads((folder / "resolved.json").read_text())["text"]["tokenizer"]
    if record["name"] == "library":
        made: Any = LibraryTokenizer(folder.parents[2] / "code" / "tokens")
    elif record["name"] == "bpe":
        made = TrainedTokenizer([tuple(merge.split(" ")) for merge in record["merges"]])
    else:
        made = CharacterTokenizer(record["characters"]) if record["name"] == "characters" else ByteTokenizer()
    tokens = [made.boundary, *made.encode(prompt).tolist()]
    begun = len(made.decode(tokens))
    for _ in range(TOKENS):
        with torch.no_grad():
            token = int(model(torch.tensor([tokens[-SEEN:]])).logits[0, -1].argmax())
        if token == made.boundary:
            break
        tokens.append(token)
    return str(made.decode(tokens)[begun:])


@pytest.mark.long
def test_the_marks_that_end_a_document_are_shipped(model_of: Any) -> None:
    schemas = {
        kind: json.loads((model_of(kind)[0] / "schema.json").read_text())["text"]
        for kind in ("writing", "packed_writing", "library_writing")
    }
    assert {kind: (text["boundary"], text["ends"]) for kind, text in schemas.items()} == {
        "writing": (3, [3]), "packed_writing": (256, [256]), "library_writing": (1, [1, 2]),
    }  # fmt: skip


@pytest.mark.parametrize("kind", variants(["writing", "packed_writing", "library_writing"], quick=["writing"]))
def test_it_writes_what_the_released_weights_write(
    kind: str, model_of: Any, service_of: Callable[[str], Service]
) -> None:
    rows = [{"prompt": prompt, "most_tokens": TOKENS, "temperature": 0} for prompt in PROMPTS]
    found = predicted(service_of(kind), rows)
    assert [one["text"] for one in found] == [written_by_torch(model_of(kind)[0], prompt) for prompt in PROMPTS]
    assert all(one["tokens"] <= TOKENS for one in found)
    assert len({one["text"] for one in found}) > 1


@pytest.mark.parametrize(("kind", "own"), [("writing", ["tokenizers"]), ("packed_writing", [])])
@pytest.mark.long
def test_its_packages_are_locked_and_its_example_is_a_row(
    kind: str, own: list[str], model_of: Any, service_of: Callable[[str], Service], tmp_path: Path
) -> None:
    deploy(model_of(kind)[0], tmp_path, ["service", "client"])
    require_lock(tmp_path / "service", own)
    client = runpy.run_path(str(tmp_path / "client" / "client.py"))
    assert client["predict"]([client["EXAMPLE"]], url=service_of(kind).url)[0]["tokens"] > 0


def test_a_drawn_text_is_the_same_for_the_same_seed_alone_and_among_others(
    service_of: Callable[[str], Service],
) -> None:
    service = service_of("writing")
    rows = [{"prompt": "the", "temperature": 1.5, "most_tokens": 20, "seed": seed} for seed in (1, 2, 1)]
    first, second, again = predicted(service, rows)
    alone = service.predict(row=rows[0]).json()["prediction"]
    assert first == again == alone
    assert first["text"] != second["text"]


def test_it_ends_before_the_words_that_it_was_given(service_of: Callable[[str], Service]) -> None:
    row = {"prompt": "the bill is", "temperature": 0, "most_tokens": TOKENS}
    whole = service_of("writing").predict(row=row).json()["prediction"]
    stop = whole["text"].strip()[2:5]
    found = service_of("writing").predict(row=row | {"stop": stop}).json()["prediction"]
    assert (found["ended"], found["text"]) == ("stop", whole["text"].partition(stop)[0])
    assert found["tokens"] < whole["tokens"]


def follows(pairs: dict[int, int], size: int = BOUNDARY + 1) -> Any:
    """Return a program of bytes by hand, in which each token of `pairs` is followed by the other for certain."""
    scores = np.zeros((size, size), dtype=np.float32)
    for token, after in pairs.items():
        scores[token, after] = 50.0
    given = helper.make_tensor_value_info("input", TensorProto.INT64, ["batch", "tokens"])
    made = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", "tokens", size])
    node = helper.make_node("Gather", ["scores", "input"], ["output"])
    graph = helper.make_graph([node], "bigrams", [given], [made], [numpy_helper.from_array(scores, "scores")])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[Service]:
    """A service of bytes by hand: after a comes b, after b the end, x goes on for ever, z has no token after it."""
    files = {"schema_json": WRITES, "predict_py": assembled("prompt", "written", "")}
    model = write_model(tmp_path / "final_model", {"text": {"block_size": 32}}, WRITING, **files)
    pairs = {ord("a"): ord("b"), ord("b"): BOUNDARY, ord("x"): ord("x"), ord("z"): BOUNDARY + 4}
    onnx.save(follows(pairs, BOUNDARY + 5), model / "model.onnx")
    deploy(model, tmp_path / "parts", ["service"])
    with serving(tmp_path / "parts" / "service") as service:
        yield service


def test_it_ends_with_the_document_or_with_its_tokens(by_hand: Service) -> None:
    found = predicted(by_hand, [{"prompt": "xa"}, {"prompt": "x", "most_tokens": 5}, {"prompt": "z", "most_tokens": 1}])
    assert found == [
        {"text": "b", "tokens": 1, "ended": "document", "seed": 0},
        {"text": "xxxxx", "tokens": 5, "ended": "most_tokens", "seed": 0},
        {"text": "", "tokens": 1, "ended": "most_tokens", "seed": 0},
    ], "the model has more outputs than there are tokens"


def slowed(model: Any, size: int = 700) -> Any:
    """Return the program with work before each answer that no run can skip: its factors depend on the input."""
    graph = model.graph
    weights = numpy_helper.from_array(np.full((size, size), 1e-6, dtype=np.float32), "weights")
    graph.initializer.append(weights)
    graph.node[0].output[0] = "plain"
    graph.node.append(helper.make_node("Cast", ["input"], ["real"], to=TensorProto.FLOAT))
    graph.node.append(helper.make_node("ReduceMean", ["real"], ["mean"], keepdims=0))
    graph.node.append(helper.make_node("Mul", ["mean", "weights"], ["product-0"]))
    for place in range(3):
        graph.node.append(helper.make_node("MatMul", [f"product-{place}", "weights"], [f"product-{place + 1}"]))
    graph.node.append(helper.make_node("ReduceMin", ["product-3"], ["least"], keepdims=0))
    graph.node.append(helper.make_node("Add", ["plain", "least"], ["output"]))
    return model


@pytest.mark.long
def test_the_end_of_the_service_ends_what_is_being_written(tmp_path: Path) -> None:
    """Sixteen rows of a slow program would go on until the request's 25 seconds are over."""
    files = {"schema_json": WRITES, "predict_py": assembled("prompt", "written", "")}
    model = write_model(tmp_path / "final_model", {"text": {"block_size": 32}}, WRITING, **files)
    onnx.save(slowed(follows({ord("x"): ord("x")})), model / "model.onnx")
    deploy(model, tmp_path / "parts", ["service"])
    with serving(tmp_path / "parts" / "service", grace_seconds="1") as service:

        def ask() -> None:
            with suppress(httpx.TransportError):
                service.predict(rows=[{"prompt": "x", "most_tokens": 512}] * 16)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(1.0)
        began = time.monotonic()
        service.stop()
        assert time.monotonic() - began < 12
        asking.join(30)
        assert not asking.is_alive()


def test_a_prompt_that_is_longer_than_the_model_sees_is_noted(service_of: Callable[[str], Service]) -> None:
    long = (
        service_of("writing").predict(row={"prompt": "the bill is paid. " * 30, "most_tokens": 4}).json()["prediction"]
    )
    assert long["notes"] == ["prompt: only its last 48 tokens are seen"]
    assert long["tokens"] <= 4
    metrics = service_of("writing").client.get("/metrics").text
    assert 'inputs_odd_total{field="prompt",what="cut"}' in metrics
    assert 'predictions_total{label="text"}' in metrics


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({}, "row.prompt"),
        ({"prompt": 3}, "row.prompt"),
        ({"prompt": "a", "most_tokens": 0}, "row.most_tokens"),
        ({"prompt": "a", "most_tokens": 513}, "row.most_tokens"),
        ({"prompt": "a", "temperature": -1}, "row.temperature"),
        ({"prompt": "a", "seed": -1}, "row.seed"),
        ({"prompt": "a", "stop": ""}, "row.stop"),
        ({"prompt": "a", "model": "b"}, "row.model"),
        ({"prompt": "a", "most_tokens": "5"}, "row.most_tokens"),
        ({"prompt": "a", "most_tokens": True}, "row.most_tokens"),
        ({"prompt": "a" * 4801}, "row.prompt"),
    ],
)
def test_what_is_no_prompt_names_its_field(
    row: dict[str, Any], field: str, service_of: Callable[[str], Service]
) -> None:
    answer = service_of("writing").predict(row=row)
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == [field]


def test_more_prompts_than_are_written_at_once_are_refused(service_of: Callable[[str], Service]) -> None:
    answer = service_of("writing").predict(rows=[{"prompt": "a"}] * 17)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "rows"


def test_tokens_are_drawn_by_their_scores() -> None:
    """The function that draws, by itself: four thousand draws have the shares of the softmax."""
    draw, scores = np.random.default_rng(0), np.log(np.array([0.7, 0.2, 0.1]))
    counts = np.bincount([chosen_token(scores, 1.0, draw) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(counts, [0.7, 0.2, 0.1], atol=0.03)
    assert {chosen_token(scores, temperature, draw) for _ in range(5) for temperature in (0, 1e-300)} == {0}
    hot = np.bincount([chosen_token(scores, 10.0, draw) for _ in range(4000)], minlength=3) / 4000
    assert hot.max() < 0.42
