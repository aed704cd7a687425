"""Plans from facts: what fits, what is asked, what limits lower; without a process, so that many are tried."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trainwright.tools.training_architect.answers import alternatives_of, plan_answer
from trainwright.tools.training_architect.documents import load_rulebook
from trainwright.tools.training_architect.estimates import Estimate, less_by_quantising, step_seconds, work_by_formula
from trainwright.tools.training_architect.hardware import named_device, probed_device
from trainwright.tools.training_architect.plan import in_all
from trainwright.tools.training_architect.planning import make_plan
from trainwright.tools.training_architect.reading import read_task
from trainwright.tools.training_architect.request import entry_of, read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import flatten, parse_config

COLUMNS = [
    {"name": "id", "kind": "number", "different": 5000, "words": 0.0},
    {"name": "body", "kind": "text", "different": 5000, "words": 40.0},
    {"name": "queue", "kind": "category", "different": 3, "words": 1.0},
]
COUNTS = {"queue": {"classes": {"a": 4000, "b": 900, "c": 100}, "class_count": 3, "smallest": 100}}
TOKENS = {"p50": 60, "p95": 180, "p99": 250, "longest": 900, "counted_by": "the tokenizer in m"}
FOUND = {
    "machine": {"cores": 16, "ram_bytes": 2**35, "gpus": []},
    "data": {"rows": 5000, "columns": COLUMNS, "text": "body", "counts": COUNTS, "tokens": TOKENS},
}
CSV = {"use": "csv", "args": {"path": "tickets.csv"}}

HERE = {**FOUND, "model": {"parameters": 10**7, "layers": 4, "width": 64, "vocabulary": 1000, "most_tokens": 512}}
"""With a model that is on this machine."""


def planned(hardware, found=FOUND, memory_of=lambda _: None, **given):
    request = read_request(hardware=hardware, **{"intent": "sort tickets", "data": CSV, **given})
    reading = read_task(request, found)
    assert not reading.questions
    price = (request.limits["dollars_per_hour"], "the call") if "dollars_per_hour" in request.limits else None
    return make_plan(
        request,
        reading,
        found,
        device=named_device(hardware),
        book=load_rulebook(),
        memory_of=memory_of,
        price=price,
    )


@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize(("rows", "is_told"), [(350, True), (5000, False)])
def test_of_few_rows_the_simple_model_is_the_one_to_beat(rows, is_told):
    plan = planned("24 GB card", {**FOUND, "data": FOUND["data"] | {"rows": rows}})
    told = f"of {rows} rows a logistic regression on counted words is the model to beat"
    assert any(one.startswith(told) for one in plan.assumed) is is_told


@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize(("column", "is_left_out"), [("queue", True), ("id", False)])
def test_rows_without_a_target_are_left_out_and_that_is_told(column, is_left_out):
    columns = [{**one, "empty": 12} if one["name"] == column else one for one in COLUMNS]
    plan = planned("24 GB card", {**FOUND, "data": FOUND["data"] | {"columns": columns}})
    assert plan.config["data"]["args"].get("drop_without_target") == (True if is_left_out else None)
    assert any("(12 without 'queue') are left out" in one for one in plan.assumed) is is_left_out


@pytest.mark.requirement("ARCH-1")
def test_a_plan_is_a_complete_configuration_with_a_reason_for_every_value():
    plan = planned("24 GB card")
    config = parse_config(plan.config)
    assert (plan.task, config.loss, config.training.precision) == ("text_classification", "class_balanced", "bf16")
    assert plan.config["data"]["args"]["max_length"] == 256, "99 % of the texts fit"
    reasoned = [decision.key for decision in plan.decisions]
    assert all(decision.why and decision.source for decision in plan.decisions)
    left = [key for key in flatten(plan.config) if not any(key == one or key.startswith(f"{one}.") for one in reasoned)]
    assert left == ["metrics"], "which follows from plan.metric"
    assert 1e-5 < config.optimizer.learning_rate < 1e-4
    assert plan.first == ["hf download distilbert/distilbert-base-uncased --local-dir models/distilbert-base-uncased"]


@pytest.mark.requirement("ARCH-2")
def test_the_batch_of_an_update_stays_where_less_of_it_fits():
    roomy, tight = planned("H100"), planned("H100", limits={"memory_gib": 3.0})
    for plan in (roomy, tight):
        facts = plan.facts
        assert facts["micro_batch"] * facts["accumulation"] == facts["effective_batch"] == 32
        assert plan.memory.peak_bytes <= facts["memory_gib"] * 2**30 * 0.9
    assert roomy.facts["accumulation"] == 1
    assert tight.facts["accumulation"] > 1
    assert tight.config["data"] == roomy.config["data"], "the length is never cut to fit"


@pytest.mark.requirement("ARCH-2")
def test_large_models_take_adapters_then_several_devices_and_else_are_refused():
    model = {"use": "transformers", "args": {"hub": "Qwen/Qwen2.5-7B-Instruct"}}
    generation = {"data": {"use": "csv", "args": {"path": "t.csv", "text": "body"}}, "task": "causal_lm", "target": 9.0}
    adapters = planned("A100 80GB", model=model, **generation)
    assert adapters.way.id == "lora"
    assert adapters.config["optimizer"]["learning_rate"] == 1e-4
    divided = planned("8x A100 80GB", model=model, goal="best_quality", **generation)
    assert (divided.way.id, divided.config["distributed"]) == ("full", {"processes": 8, "strategy": "fsdp2"})
    assert "lora" in [one["id"] for one in alternatives_of(divided)]
    with pytest.raises(ConfigurationError, match="No way to train fits") as refused:
        planned("24 GB", model=model, limits={"memory_gib": 4.0}, **generation)
    assert "hardware='" in refused.value.remedy


@pytest.mark.requirement("ARCH-2")
@pytest.mark.parametrize(
    ("hardware", "way", "changes"),
    [
        ("RTX 4090", "lora_bf16", {"dtype": "bfloat16"}),
        ("T4", "qlora_8bit", {"quantize": "8bit"}),
        ("RTX 3060", "qlora_4bit", {"quantize": "4bit"}),
    ],
)
def test_a_base_of_seven_billion_is_held_in_as_few_bits_as_memory_asks_for(hardware, way, changes):
    model = {"use": "transformers", "args": {"hub": "Qwen/Qwen2.5-7B-Instruct"}}
    data = {"use": "csv", "args": {"path": "t.csv", "text": "body"}}
    plan = planned(hardware, model=model, data=data, task="causal_lm", target=9.0)
    args = plan.config["model"]["args"]
    assert plan.way.id == way
    assert {name: value for name, value in args.items() if name != "path"} == changes
    assert plan.config["adapter"]["rank"] >= 8
    assert plan.config["optimizer"]["learning_rate"] == 1e-4, "as adapters are trained"
    assert plan.memory.peak_bytes <= plan.facts["memory_gib"] * 2**30 * 0.9
    assert parse_config(plan.config).adapter is not None
    told = [one for one in plan.assumed if "not tried" in one]
    assert bool(told) == ("quantize" in changes), "a machine without CUDA cannot try it, and the plan says so"
    assert not told or "CUDA" in told[0]
    assert all(one.error_percent is None for one in [plan.memory])


@pytest.mark.requirement("ARCH-2", "ARCH-4")
def test_memory_of_quantised_weights_is_the_traced_one_less_what_the_bits_save():
    sizes = {"parameters": 7.6e9, "vocabulary": 152064, "width": 3584}
    traced = Estimate(20 * 2**30, "traced", 2.0)
    found = [less_by_quantising(traced, sizes, bits) for bits in ("8bit", "4bit")]
    assert traced.peak_bytes > found[0].peak_bytes > found[1].peak_bytes > 20 * 2**30 - 7.6e9 * 2
    assert all(one.error_percent is None and "arithmetic" in one.source for one in found)


@pytest.mark.requirement("ARCH-1", "COST-1")
def test_money_lowers_the_epochs_and_says_so():
    found = {**FOUND, "data": {**FOUND["data"], "rows": 5_000_000}}
    free, bound = planned("T4", found), planned("T4", found, limits={"dollars": 40.0, "dollars_per_hour": 0.5})
    assert free.config["training"]["epochs"] > bound.config["training"]["epochs"]
    assert bound.limits["gpu_hours"] == 80.0
    assert "were lowered" in next(one.why for one in bound.decisions if one.key == "training.epochs")
    assert bound.config["checkpoints"]["checkpoint_every_n_steps"] > 1, "epochs of hours are saved within"


@pytest.mark.requirement("ARCH-1")
def test_what_is_decisive_and_open_is_asked():
    (data,) = read_task(read_request(intent="x"), FOUND).questions
    assert data.argument == "data"
    two = [*COLUMNS[:2], {**COLUMNS[2], "name": "team"}, {**COLUMNS[2], "name": "urgency"}]
    (target,) = read_task(read_request(intent="x", data=CSV), {"data": {**FOUND["data"], "columns": two}}).questions
    assert (target.argument, target.choices) == ("target_column", ["team", "urgency"])
    answered = read_request(intent="x", data=CSV).with_answers({"target_column": "team"})
    assert answered.data["args"] == {"path": "tickets.csv", "target": "team"}
    for wrong in ({"limits": {"dolars": 3}}, {"task": "magic"}, {"data": "s3://b/x.csv"}, {"data": "code.py:build"}):
        with pytest.raises(ConfigurationError):
            read_request(intent="x", **wrong)


@pytest.mark.requirement("MCP-5", "ARCH-1")
@pytest.mark.parametrize("hardware", ["RTX 3060", "8x A100 80GB"])
def test_the_longest_answers_stay_under_two_thousand_tokens(hardware, tmp_path):
    model = {"use": "transformers", "args": {"hub": "Qwen/Qwen2.5-7B-Instruct"}}
    limits = {"dollars": 100.0, "dollars_per_hour": 0.5, "hours": 40.0}
    data = {"use": "csv", "args": {"path": "t.csv", "text": "body"}}
    plan = planned(hardware, model=model, data=data, task="causal_lm", target=9.0, limits=limits)
    workspace = Workspace.open(tmp_path)
    answer = plan_answer(workspace, plan, [f"/a/folder/of/plans/file-{number}.json" for number in range(9)], "tickets")
    workspace.close()
    assert answer.values
    assert len(answer.model_dump_json(exclude_none=True)) / 4 < 2000


@pytest.mark.requirement("ARCH-1", "PHASE-2")
def test_a_bound_of_the_test_rows_is_offered_where_the_sentence_asks_for_rows_that_nothing_chose_by(tmp_path):
    workspace, said = Workspace.open(tmp_path), "sort tickets, at least 90 % right"
    asked = plan_answer(workspace, planned("24 GB card", intent=f"{said} on those it has not seen"), [], "tickets")
    plain = plan_answer(workspace, planned("24 GB card", intent=said), [], "tickets")
    workspace.close()
    assert asked.alternatives[0].changes == {"evaluation_gate.minimum": {"test/accuracy": 0.9}}
    assert "bound_of_test" not in [one.id for one in plain.alternatives or []]
    assert "evaluation_gate" not in asked.next.arguments["config"], "nobody but the user can say so"


@pytest.mark.requirement("ARCH-4", "ARCH-2")
def test_what_is_traced_of_a_smaller_batch_accumulates_to_the_same_update_and_its_time_is_the_updates():
    """As a tracer sees it: 2 GiB a row, and a second for each micro-batch of an update."""
    tried = []

    def memory_of(config):
        batch, parts = config["loader"]["batch_size"], config["training"]["accumulation_steps"]
        tried.append(batch * parts)
        return Estimate(batch * 2 * 2**30, "traced", 1.0, 10**7, (1.0 * parts, 2.0 * parts))

    plan = planned("24 GB card", memory_of=memory_of, model={"use": "transformers", "args": {"path": "m"}}, found=HERE)
    assert (plan.facts["micro_batch"], plan.facts["accumulation"]) == (8, 4)
    assert set(tried) == {32}, "every trial is of the update that is planned"
    updates = -(-int(5000 * 0.7) // 32) * plan.config["training"]["epochs"]
    assert plan.seconds == (4.0 * updates, 8.0 * updates)


@pytest.mark.requirement("ARCH-2")
def test_memory_that_was_traced_in_part_alone_is_an_error_that_says_so():
    answers = [Estimate(2**60, "traced"), None]
    table = {"data": {"use": "csv", "args": {"path": "t.csv", "target": "queue"}}, "task": "table_classification"}
    with pytest.raises(ConfigurationError, match="full was not traced to its end") as refused:
        planned("24 GB card", memory_of=lambda _: answers.pop(0) if answers else None, **table)
    assert "kind='probe'" in refused.value.remedy


@pytest.mark.requirement("ARCH-4")
def test_time_by_formula_and_traced_time_go_through_one_roofline():
    plan = planned("24 GB card")
    work = work_by_formula(plan.facts, plan.way.changes, rows=32, tokens=250)
    low, high = step_seconds(work, plan.device, "bf16")
    assert 0 < low < high
    steps = -(-int(5000 * 0.7) // 32) * plan.config["training"]["epochs"]
    assert plan.seconds == pytest.approx((low * steps, high * steps))
    recomputed = work_by_formula(plan.facts, {"training.gradient_checkpointing": {}}, rows=32, tokens=250)
    assert recomputed.flops_per_step == pytest.approx(work.flops_per_step * 8 / 6)
    assert step_seconds(work, probed_device({"gpus": [], "ram_bytes": 2**34}), "fp32") is None


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ("rows.csv.gz", {"use": "csv", "args": {"path": "rows.csv.gz"}}),
        ({"use": "csv", "path": "rows.csv"}, {"use": "csv", "args": {"path": "rows.csv"}}),
        (
            {"use": "csv", "args": {"path": "rows.csv"}, "split": {"by": "time", "time": "day"}},
            {"use": "csv", "args": {"path": "rows.csv"}, "split": {"by": "time", "time": "day"}},
        ),
    ],
)
def test_a_plan_takes_compressed_files_by_name_and_keeps_all_that_it_is_given(
    given: Any, entry: dict[str, Any]
) -> None:
    assert entry_of("data", given) == entry


TABLE = {"rows": 5000, "columns": COLUMNS, "text": None, "counts": COUNTS}


def of_table(seconds_by_model, **given):
    """Plan for a table whose models take so many seconds an update, at the most."""

    def memory_of(config):
        most = seconds_by_model[config["model"]["use"]]
        return Estimate(2**30, "traced", 1.0, 10**6, (most / 10, most))

    data = {"use": "csv", "args": {"path": "t.csv", "target": "queue"}}
    return planned("24 GB card", {**FOUND, "data": TABLE}, memory_of, data=data, task="table_classification", **given)


@pytest.mark.requirement("ARCH-1", "GATE-4")
@pytest.mark.parametrize(("goal", "runs"), [("fastest", 2), ("balanced", 4), ("best_quality", 6)])
def test_all_runs_that_a_release_needs_fit_the_stated_time_together(goal, runs):
    plan = of_table({"ft_transformer": 0.5}, limits={"hours": 10.0}, goal=goal)
    assert plan.config["model"]["use"] == "ft_transformer"
    assert runs * plan.seconds[1] < in_all(plan)[1] <= 36_000
    assert plan.limits["project_wall_clock_seconds"] == 36_000
    assert plan.limits["run_wall_clock_seconds"] * runs <= 36_000
    assert "longer" not in [one["id"] for one in alternatives_of(plan)]


@pytest.mark.requirement("ARCH-1")
def test_a_faster_model_is_taken_where_the_time_holds_too_little_of_the_first():
    slow = {"ft_transformer": 60.0, "tabular_resnet": 2.0, "mlp": 0.01}
    assert of_table(slow, limits={"hours": 10.0}).config["model"]["use"] == "tabular_resnet"
    quick = of_table(slow, limits={"hours": 0.5})
    assert quick.config["model"]["use"] == "mlp"
    assert [one for one in quick.passed_over if "ft_transformer has time for 0 of its 60 epochs" in one]
    unstated = of_table(slow)
    assert (unstated.config["model"]["use"], unstated.limits) == ("tabular_resnet", {})
    with pytest.raises(ConfigurationError, match="Not one epoch fits") as refused:
        of_table(dict.fromkeys(slow, 60.0), limits={"hours": 0.5})
    enough = float(re.search(r"'hours': ([\d.]+)", refused.value.remedy)[1])
    plan = of_table(dict.fromkeys(slow, 60.0), limits={"hours": enough})
    assert plan.config["training"]["epochs"] == 1
