"""Every task of Transformers models is planned from its rows alone, and what is planned is taken, and runs."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.models.tasks import (
    BERT,
    SPECIAL,
    T5,
    choices,
    questions,
    reversals,
    root,
    sentences,
    tagged,
)
from tests.variants import variants

from trainwright.tools.projects import create_project
from trainwright.tools.training_architect.documents import load_rulebook
from trainwright.tools.training_architect.hardware import probed_device
from trainwright.tools.training_architect.inspecting import order_of
from trainwright.tools.training_architect.plan import Plan
from trainwright.tools.training_architect.planning import make_plan, proposed_goal
from trainwright.tools.training_architect.reading import Reading, read_task
from trainwright.tools.training_architect.request import read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.config import apply_changes
from trainwright.trainer.jobs import inspection
from trainwright.trainer.jobs.row_forms import form_of
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.forks]

assert root, "a fixture of the other file"
GPT = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 48}
VIT = {
    "model_type": "vit",
    "image_size": 16,
    "patch_size": 4,
    **{key: BERT[key] for key in BERT if "size" in key or "num" in key},
}
CASES: dict[str, tuple[Any, dict[str, Any], str, str, list[str]]] = {
    "token_classification": (tagged, BERT, "AutoModelForTokenClassification", "token_classification",
                             ["entity_f1", "accuracy"]),
    "question_answering": (questions, BERT, "AutoModelForQuestionAnswering", "question_answering",
                           ["span_f1", "exact_match"]),
    "multiple_choice": (choices, BERT, "AutoModelForMultipleChoice", "multiple_choice", ["accuracy"]),
    "seq2seq": (reversals, T5, "AutoModelForSeq2SeqLM", "seq2seq", ["perplexity", "rouge_l"]),
    "language_model": (sentences, GPT, "AutoModelForCausalLM", "jsonl", ["perplexity"]),
    "masked_language_model": (sentences, BERT, "AutoModelForMaskedLM", "jsonl", ["perplexity"]),
}  # fmt: skip
"""Task: rows, model, class of the library, source of the plan, metrics."""


def save_model(root: Path, config: dict[str, Any], auto: str) -> None:
    """Save a tiny model of the library in root/model, with the tokenizer beside it."""
    import transformers

    values = {"vocab_size": 64, "pad_token_id": 0, "decoder_start_token_id": 0, **config}
    made = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    getattr(transformers, auto).from_config(made).save_pretrained(root / "model")
    for path in (root / "tokenizer").iterdir():
        shutil.copy(path, root / "model")


def inspected(folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    """Return what the inspection finds, in a forked process: its threads of polars would not survive a later fork."""
    (folder / "order.json").write_text(json.dumps(order))
    if (child := os.fork()) == 0:
        inspection.main(folder)
        os._exit(0)
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def planned(root: Path, data: Any, **given: Any) -> tuple[Plan, Reading]:
    """Return the plan of data and root/model on this machine, as plan_training makes it."""
    request = read_request(intent="x", data=data, model="./model", **given).located(root)
    folder = root / "inspected"
    folder.mkdir(exist_ok=True)
    found = inspected(folder, order_of(request, root))
    assert "failure" not in found, found
    reading = read_task(request, found)
    assert not reading.questions, reading.questions
    device = probed_device(found["machine"])
    plan = make_plan(request, reading, found, device=device, book=load_rulebook(), memory_of=lambda _: None)
    return plan, reading


def smoke(root: Path, config: dict[str, Any], make_run: Any, work: Any) -> None:
    """Train a few steps with a plan's configuration."""
    values = apply_changes(config, {"logging.tensorboard": False})
    run = make_run(root / "runs" / "smoke", values, code_root=str(root), kind=RunKind.SMOKE, max_steps=2)
    assert work(run) == 0, run.log.read_text()[-3000:]


@pytest.mark.requirement("ARCH-1", "ARCH-5")
@pytest.mark.parametrize("task", variants(CASES, quick=["token_classification"]))
def test_a_task_is_recognised_by_its_rows_and_its_plan_is_taken_and_runs(task, root, make_run, work):
    write, config, auto, source, metrics = CASES[task]
    rows = write(random.Random(1))
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_model(root, config, auto)
    target = {"target": 5.0} if "perplexity" in metrics else {}
    plan, _ = planned(root, "rows.jsonl", **target)
    assert (plan.task, plan.config["data"]["use"], plan.config["metrics"]) == (task, source, metrics)
    assert all(one.why and one.source and "unknown" not in one.why for one in plan.decisions), plan.decisions
    longest = plan.config["data"]["args"].get("max_length") or plan.config["data"]["args"]["block_size"]
    assert 8 <= longest <= 64, "as long as the texts and the model are"
    workspace = Workspace.open(root / "workspace")
    status = create_project(workspace, "planned", intent="x", goal=proposed_goal(plan), config=plan.config)
    workspace.close()
    assert status.phase == "planning"
    smoke(root, plan.config, make_run, work)


@pytest.mark.long
@pytest.mark.requirement("ARCH-1", "ARCH-5")
def test_pictures_are_planned_in_the_size_that_their_model_was_made_for(root, make_run, work):
    from PIL import Image

    draw = random.Random(0)
    for name in ("cats", "dogs"):
        (root / "photos" / name).mkdir(parents=True)
        for number in range(40):
            colour = tuple(draw.randrange(256) for _ in range(3))
            Image.new("RGB", (20, 24), colour).save(root / "photos" / name / f"{number}.png")
    save_model(root, VIT, "AutoModelForImageClassification")
    plan, _ = planned(root, "photos")
    assert (plan.task, plan.config["data"]["args"]["size"]) == ("image_classification", [16, 16])
    smoke(root, plan.config, make_run, work)


@pytest.mark.long
@pytest.mark.requirement("ARCH-2")
@pytest.mark.parametrize("way", ["lora_bf16", "lora_bf16_recomputed"])
def test_a_base_in_bf16_that_memory_asks_for_runs_here_too(way, root, make_run, work):
    """Quantised ones need CUDA and bitsandbytes, and are refused here: tests/trainer/models/test_weight_types.py."""
    rows = [{"text": row["text"], "label": len(row["text"]) % 2} for row in sentences(random.Random(1))]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_model(root, BERT, "AutoModelForSequenceClassification")
    plan, _ = planned(root, "rows.jsonl")
    found = next(one for one in load_rulebook().ways if one.id == way)
    smoke(root, apply_changes(plan.config, found.changes), make_run, work)


@pytest.mark.requirement("ARCH-1", "ARCH-5")
def test_forms_are_recognised_by_names_and_cells_and_tables_are_none():
    squad = {"question": "who", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}}
    swag = {"sent1": "a b", "ending0": "c", "ending1": "d", "label": 1}
    sums = [{"article": f"a long text {n} of words", "summary": f"short text {n}"} for n in range(8)]
    found = {
        "question_answering": form_of([squad]),
        "multiple_choice": form_of([swag]),
        "seq2seq": form_of(sums),
        "token_classification": form_of([{"tokens": '["a", "b"]', "ner_tags": "[0, 1]"}]),
        "chat": form_of([{"messages": [{"role": "user", "content": "a"}]}]),
    }
    assert {name: form and form["use"] for name, form in found.items()} == {name: name for name in found}
    assert found["multiple_choice"]["args"]["choices"] == ["ending0", "ending1"]
    elsewhere = {**squad, "answers": {"text": ["elsewhere"], "answer_start": [0]}}
    few = [{"text": f"a text {n}", "target": "one class"} for n in range(8)]
    for rows in ([elsewhere], [{"text": "good", "labels": "pos"}], few, [{"text": "a b", "label": 1}], []):
        assert form_of(rows) is None, rows


@pytest.mark.requirement("ARCH-1")
def test_a_task_that_the_rows_do_not_have_is_asked_for_and_a_model_without_it_is_refused(root):
    with (root / "rows.csv").open("w") as file:
        csv.writer(file).writerows([("body", "queue"), *((f"{SPECIAL[0]} some words {n}", n % 2) for n in range(60))])
    save_model(root, BERT, "AutoModelForSequenceClassification")
    request = read_request(intent="x", data="rows.csv", model="./model", task="token_classification").located(root)
    folder = root / "inspected"
    folder.mkdir()
    (question,) = read_task(request, inspected(folder, order_of(request, root))).questions
    assert "words with tags" in question.asks
    other = read_request(intent="x", data="rows.csv", model="./model", task="seq2seq_lm").located(root)
    failure = inspected(folder, order_of(other, root))["failure"]
    assert "bert has no form for seq2seq_lm" in failure["message"]
