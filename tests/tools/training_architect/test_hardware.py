"""Hardware by name: the dated table, the owner's rows over it, and what is not supported."""

from __future__ import annotations

import re

import pytest

from trainwright.tools.training_architect.estimates import price_of
from trainwright.tools.training_architect.hardware import accelerators, named_device, probed_device
from trainwright.tools.training_architect.intent import SEARCHED, with_intent
from trainwright.tools.training_architect.request import read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.config.search_words import AskedSearch


@pytest.mark.requirement("ARCH-1")
def test_forty_accelerators_with_memory_bandwidth_and_speed():
    rows, table = accelerators()
    assert len(rows) >= 40
    assert str(table.as_of) >= "2026"
    for name, row in rows.items():
        assert 4 < row["memory_gib"] < 500, name
        assert 100 < row["bandwidth_gb_s"] < 10_000, name
        assert 1 < row["fp32"] <= (row["fp16"] or 1e9), name
        assert (row["bf16"] is None) == ((row["capability"] or 8.0) < 8.0), f"{name}: bf16 came with capability 8.0"


@pytest.mark.requirement("ARCH-1")
def test_each_row_says_where_its_figures_were_compared_and_a_plan_says_where_they_were_not(tmp_path):
    rows, table = accelerators()
    assert all(row["source"] and set(row["source"].split()) <= set(table.sources) for row in rows.values())
    compared = [name for name, row in rows.items() if row["source"] not in table.unchecked]
    assert len(compared) >= 40
    assert "no second source" in named_device("A30").notes[0]
    assert not named_device("H100").notes
    own = tmp_path / "accelerators.yaml"
    own.write_text("as_of: 2027-01-01\ncolumns: [name, memory_gib, source]\nrows:\n- [X900, 400, hearsay]\n")
    with pytest.raises(ConfigurationError, match="sources has no 'hearsay'"):
        named_device("X900", own)


@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize("words", ["TPU v5e", "tpu v4-8", "v5p", "Trainium 2", "Gaudi 3", "Apple M3 Max"])
def test_what_no_run_starts_on_is_named_as_not_supported(words):
    with pytest.raises(ConfigurationError, match="is not supported") as refused:
        named_device(words)
    assert "NVIDIA GPU" in refused.value.remedy


@pytest.mark.requirement("ARCH-1")
def test_words_that_mean_a_device():
    assert (named_device("2x NVIDIA GeForce RTX 4090").name, named_device("2x RTX 4090").count) == ("RTX 4090", 2)
    card = named_device("one 24 GB card")
    assert 20 < card.memory_gib <= 24
    assert "slowest" in card.notes[0]
    assert "bf16" not in named_device("T4").teraflops
    with pytest.raises(ConfigurationError, match="TPU needs torch_xla"):
        named_device("TPU v5e")
    with pytest.raises(ConfigurationError, match="no accelerator") as refused:
        named_device("RTX 4900")
    assert "rtx 4090" in refused.value.remedy


@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize(
    ("intent", "hardware", "limits"),
    [
        ("I have one 24 GB card and twenty dollars", "24 GB card", {"dollars": 20}),
        ("on two RTX 4090s for $35 at 0.5 dollars per hour within 3 hours", "2x RTX 4090",
         {"dollars": 35, "dollars_per_hour": 0.5, "hours": 3}),
        ("two GPUs with 16 GB, pay $2/h", "2x 16 GB card", {"dollars_per_hour": 2}),
        ("fine-tune bert on one T4", "T4", {}),
        ("train on a TPU v5e", "TPU v5e", {}),
        ("sort 4090 tickets about a10 forms, 24 GB of images, for 5080 rows", None, {}),
    ],
)  # fmt: skip
def test_hardware_and_money_are_read_from_the_intent(intent, hardware, limits):
    request, noted = with_intent(read_request(intent=intent))
    assert (request.hardware, request.limits) == (hardware, limits)
    assert not {"hardware", "limits"} & request.as_arguments().keys(), "the next call reads it again, and says so"
    assert len(noted) == (hardware is not None) + len(limits)
    given = read_request(intent=intent, hardware="H100", limits={"dollars": 1.0})
    kept, _ = with_intent(given)
    assert (kept.hardware, kept.limits["dollars"]) == ("H100", 1.0)


@pytest.mark.requirement("ARCH-1")
def test_the_owners_file_counts_for_more(tmp_path):
    own = tmp_path / "accelerators.yaml"
    own.write_text(
        "as_of: 2027-01-01\ncolumns: [name, memory_gib, fp32, bf16]\n"
        "rows:\n- [X900, 400, 50, 5000]\n- [T4, 99, 8, null]\n"
    )
    assert named_device("4 x X900", own).memory_gib == 400
    assert named_device("T4", own).memory_gib == 99
    assert "2027-01-01" in named_device("T4", own).source
    own.write_text("as_of: 2027-01-01\ncolumns: [name, memory_gib]\nrows:\n- [X900]\n")
    with pytest.raises(ConfigurationError, match="does not fit"):
        named_device("X900", own)


def test_a_probed_gpu_is_known_by_its_name_and_an_unknown_one_by_its_capability():
    gpu = {"name": "NVIDIA GeForce RTX 4090", "memory_bytes": 25_393_692_672, "capability": [8, 9]}
    found = probed_device({"gpus": [gpu, gpu], "ram_bytes": 1})
    assert (found.count, found.teraflops["bf16"]) == (2, 165.2)
    unknown = probed_device({"gpus": [{**gpu, "name": "NVIDIA Q1", "capability": [7, 0]}], "ram_bytes": 1})
    assert set(unknown.teraflops) == {"fp32", "fp16"}
    assert probed_device({"gpus": [], "ram_bytes": 2**34}).memory_gib == 16
    speeds = {"bandwidth_bytes_per_second": 1.2e10, "flops_per_second": {"fp32": 6e10}}
    measured = probed_device({"gpus": [], "ram_bytes": 2**34, "processor": speeds})
    assert (measured.bandwidth_gb_s, measured.teraflops) == (12.0, {"fp32": 0.06})
    assert measured.accelerator.kind == "cpu"
    assert measured.accelerator.peak("fp32") == pytest.approx(6e10)


@pytest.mark.requirement("COST-1")
def test_a_price_is_the_calls_then_the_owners_then_a_dated_one_that_came_along(tmp_path):
    workspace = Workspace.open(tmp_path / "workspace")
    device = named_device("H100 SXM")
    assert price_of(workspace, device, 1.5) == (1.5, "the call")
    price, told = price_of(workspace, device, None)
    assert 0 < price < 20
    assert "second-hand" in told
    assert re.search(r"RunPod on 2026-\d\d-\d\d", told)
    rows = "- [A, H100 SXM, 9.0, 2027-01-02, a list, false]\n- [B, H100 SXM, 1.0, 2027-01-02, a list, true]\n"
    columns = "[platform, accelerator, dollars_per_hour, date, source, spot]"
    (workspace.path / "prices.yaml").write_text(f"as_of: 2027-01-02\ncolumns: {columns}\nrows:\n{rows}")
    assert price_of(workspace, device, None) == (9.0, "A on 2027-01-02 (prices.yaml)")
    assert price_of(workspace, named_device("24 GB card"), None) is None
    rows = "- [A, H100 SXM, 9.0, 2024-01-02, a list, false]\n"
    (workspace.path / "prices.yaml").write_text(f"as_of: 2024-01-02\ncolumns: {columns}\nrows:\n{rows}")
    _, told = price_of(workspace, device, None)
    assert "days old: prices move, so look it up again" in told
    workspace.close()


@pytest.mark.requirement("ARCH-1")
def test_what_became_the_target_or_asks_for_a_search_is_not_told_as_unread():
    """Q151: a sentence's `within 10 %` is the target 0.1, and its trials are those of the search to come."""
    request, noted = with_intent(read_request(intent="predict the price within 10 %, 6 trials", metric="mape"))
    assert noted == [SEARCHED.format(search=AskedSearch("6 trials", 6), trials="6 trials")]
    assert (request.metric, spoken_goals(request.intent).bare.target) == ("mape", 0.1)


@pytest.mark.requirement("ARCH-1", "CONF-4")
@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("and give me TorchScript", "[safetensors, onnx, torchscript]"),
        ("export with torch.export", "[safetensors, onnx, torch_export]"),
        ("ship it as gguf for llama.cpp", "'gguf' is not written here"),
    ],
)
def test_a_format_that_is_asked_for_has_its_key_or_is_named_as_not_written(sentence, told):
    _, (note,) = with_intent(read_request(intent=f"predict the price from flats.csv, {sentence}"))
    assert told in note
