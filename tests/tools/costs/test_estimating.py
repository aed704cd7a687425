"""Costs of a real project: by the throughput that its sealed run measured, and by no price but the file's."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.flowers import NAME, train
from typer.testing import CliRunner

from trainwright.server import cli
from trainwright.tools import projects
from trainwright.tools.clouds import asked_gpu, read_cloud_request
from trainwright.tools.clouds.job import job_of
from trainwright.tools.costs import estimate_cost, estimating, pricing, read_cost_request, write_price_file
from trainwright.tools.costs.estimating import EXAMPLE, owner_limit
from trainwright.tools.costs.pricing import device_of_row
from trainwright.tools.costs.scaling import Interval
from trainwright.tools.training_architect.estimates import DEFAULTS
from trainwright.tools.training_architect.hardware import Device, named_device
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.estimation import memory
from trainwright.trainer.estimation.prices import load_prices
from trainwright.trainer.estimation.results import Estimate
from trainwright.trainer.run import RunDirectory, RunKind

pytestmark = pytest.mark.requirement("COST-1")
At = Callable[[str], Workspace]
CPU_DEVICE = Device("CPU", "cpu", 1, 2**34)
TODAY = dt.datetime.now(tz=dt.UTC).date()
HEAD = "currency: EUR\ncolumns: [platform, accelerator, price_per_hour, date, source, spot]\nrows:\n"
TRACED: dict[tuple[str, str], Estimate] = {}
"""By configuration and device: the irises and their model are the same in all of these tests."""
STORAGE = "storage:\n- [own, 1000, {day}, invented]\n"


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steps are traced in this process: tests/tools/estimation has the process and its cache."""

    def estimate(config: TrainingConfig, code_root: Path, *, device_kind: str, **_: Any) -> Estimate:
        asked = config.model_dump_json(), device_kind
        if asked not in TRACED:
            TRACED[asked] = memory.estimate(config, code_root, tmp_path, device_kind)
        return TRACED[asked]

    monkeypatch.setattr(estimating, "estimate", estimate)


def price_file(workspace: Workspace, rows: str, *, days: int = 1, storage: bool = False) -> None:
    day = TODAY - dt.timedelta(days=days)
    text = HEAD + rows.format(day=day) + (STORAGE.format(day=day) if storage else "")
    (workspace.path / "prices.yaml").write_text(text)


def asked(workspace: Workspace, **more: Any) -> Any:
    return estimate_cost(workspace, read_cost_request(project=NAME, **more))


def test_hours_are_those_that_the_sealed_run_measured(at: At) -> None:
    workspace = at("trained")
    price_file(workspace, "- [own, CPU, 36.0, {day}, our bill, false]\n", storage=True)
    [run] = (workspace.path / "projects" / NAME / "runs").glob("baseline-*")
    summary = json.loads((run / "artifacts" / "summary.json").read_bytes())
    answer = asked(workspace, epochs=6000)
    assert answer.basis.startswith(f"{run.name} (baseline, sealed)")
    assert (answer.currency, answer.platforms[0].basis) == ("EUR", "measured")
    steps = 6000 * summary["steps"] / summary["epochs"] * summary["train_seconds"] / summary["steps"]
    low, high = answer.platforms[0].training_hours
    assert 2 * 0.8 * steps / 3600 <= high
    worked = RunDirectory(run).seconds_worked() * 6000 / summary["epochs"]
    assert low < high < 2 * 1.25 * worked / 3600, "of two runs, with the validation and checkpoints of each epoch"
    assert answer.platforms[0].training == pytest.approx((36 * low, 36 * high), rel=0.01)
    kept = sum(path.stat().st_size for path in run.glob("checkpoints/step-*/*") if path.name != "manifest.json")
    assert answer.platforms[0].storage == pytest.approx(2 * kept / 1e9 * 1000, rel=0.05)
    assert "storage is for one month" in answer.assumed
    assert "predictions on CPU have no price: no export measured a processor's latency" in answer.assumed
    assert answer.platforms[0].total[0] == pytest.approx(low * 36 + answer.platforms[0].storage, rel=0.02)
    assert answer.next.tool == "project_status"
    assert not answer.warnings
    more = asked(workspace, epochs=6000, runs=3, trials=10)
    assert more.platforms[0].training[0] == pytest.approx(1.5 * 36 * low, rel=0.02)
    assert more.platforms[0].search[0] > 0


def test_a_record_that_was_edited_measures_nothing(at: At) -> None:
    workspace = at("trained")
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n")
    [run] = (workspace.path / "projects" / NAME / "runs").glob("baseline-*")
    summary = run / "artifacts" / "summary.json"
    values = json.loads(summary.read_bytes())
    summary.write_text(json.dumps({**values, "train_seconds": values["train_seconds"] / 1000}))
    with pytest.raises(ConfigurationError, match="neither measured there nor counted"):
        asked(workspace)


@pytest.mark.long
def test_without_a_run_the_work_is_counted_and_a_probe_is_proposed(at: At) -> None:
    workspace = at("created")
    price_file(
        workspace, "- [cloud, H100 SXM, 4.0, {day}, invented, false]\n- [cloud, T4, 0.5, {day}, invented, false]\n"
    )
    answer = asked(workspace, requests_per_month=1e6)
    assert "no run of this configuration was measured" in answer.basis
    assert {line.basis for line in answer.platforms} == {"counted"}
    assert (answer.next.tool, answer.next.arguments["kind"]) == ("start_training", "probe")
    assert answer.platforms[0].accelerator == "T4", "the cheapest first"
    for line in answer.platforms:
        assert line.training_hours[0] < line.training_hours[1]
        assert line.per_1000_requests[0] < line.per_1000_requests[1]
        assert line.requests_per_month == pytest.approx([1000 * end for end in line.per_1000_requests], rel=0.02)
        assert line.always_on_per_month[0] == pytest.approx(730 * line.price_per_gpu_hour, rel=0.01)


@pytest.mark.parametrize("stage", ["created", "trained"])
def test_without_a_file_of_prices_hours_disk_and_dated_prices_are_the_answer(at: At, stage: str) -> None:
    workspace = at(stage)
    answer = asked(workspace)
    assert answer.work["runs"] == 2, "a training, and the replay that a release needs"
    assert {line.platform for line in answer.platforms} <= {row.platform for row in load_prices(DEFAULTS)}
    assert answer.checkpoints["gb"] > 0
    if stage == "trained":
        own = answer.platforms[0]
        assert (own.platform, own.basis, own.total[1]) == ("own", "measured", 0.0)
        assert own.training_hours[1] > 0
    rented = asked(workspace, hardware=["H100 SXM"])
    (warning,) = rented.warnings
    assert all(
        words in warning for words in ("second-hand", "days old", "2026-10-07", "runpod.io", "trainwright prices")
    )
    price_file(workspace, "- [own, CPU, 3.0, {day}, our bill, false]\n")
    if stage == "trained":
        assert [line.price_per_gpu_hour for line in asked(workspace).platforms] == [3.0], "the owner's list replaces it"


def test_without_the_file_that_is_named_the_remedy_writes_the_template_which_is_refused_until_it_is_filled_in(
    at: At,
) -> None:
    workspace = at("trained")
    with pytest.raises(NotFoundError, match="no file of prices") as missing:
        asked(workspace, prices="prices.yaml")
    command = missing.value.remedy.split("`")[1]
    assert command.startswith("trainwright prices --workspace ")
    done = CliRunner().invoke(cli.app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    file = workspace.path / "prices.yaml"
    with pytest.raises(ConfigurationError, match="and a price in none of them") as empty:
        asked(workspace)
    assert "modal.com/pricing" in empty.value.remedy
    assert {row.platform for row in load_prices(file).empty} == {"Modal", "Lambda Labs", "RunPod"}
    text = file.read_text()
    file.write_text(text.replace('[Modal, T4, null, null, "https', f'[Modal, T4, 0.5, {TODAY}, "https', 1))
    answer = asked(workspace)
    assert [line.platform for line in answer.platforms] == ["Modal"]
    assert any("price not filled in" in line for line in answer.not_priced)
    with pytest.raises(ConfigurationError, match="has no price of H100 SXM") as unfilled:
        asked(workspace, hardware=["H100 SXM"])
    assert "Fill in: Modal H100 SXM" in unfilled.value.remedy
    with pytest.raises(ConflictError, match="not overwritten"):
        write_price_file(file)


@pytest.mark.long
def test_a_run_costs_no_more_than_its_max_steps_whatever_the_epochs(at: At) -> None:
    """The irises make three steps an epoch, as counted and as measured."""
    for stage in ("created", "trained"):
        workspace = at(stage)
        price_file(
            workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n- [cloud, H100 SXM, 4.0, {day}, invented, false]\n"
        )
        projects.configure(workspace, NAME, changes={"training.epochs": 30_000})
        whole, thousand = asked(workspace, trials=4), asked(workspace, epochs=1000, trials=4)
        projects.configure(workspace, NAME, changes={"training.max_steps": 3000})
        answer = asked(workspace, trials=4)
        assert answer.work == {**whole.work, "epochs": 1000, "max_steps": 3000}
        assert "max_steps" not in asked(workspace, epochs=1000).work
        found, same, before = ({line.platform: line for line in one.platforms} for one in (answer, thousand, whole))
        assert set(found) == ({"cloud"} if stage == "created" else {"own", "cloud"})
        for platform, line in found.items():
            assert line.training_hours == same[platform].training_hours
            assert line.training_hours[1] < before[platform].training_hours[1]
            assert line.search_hours[1] < before[platform].search_hours[1]


@pytest.mark.long
def test_a_baseline_that_ended_within_its_first_epoch_measures_the_steps(at: At) -> None:
    workspace = at("created")
    projects.configure(workspace, NAME, changes={"training.max_steps": 5, "loader.batch_size": 8})
    train(workspace, RunKind.SMOKE)
    projects.pass_gate(workspace, NAME, "planning")
    run = train(workspace, RunKind.BASELINE)
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n")
    answer = asked(workspace)
    assert answer.basis.startswith(f"{run.run_id} (baseline, sealed)")
    assert "12 steps an epoch" in answer.basis
    assert (answer.work["epochs"], answer.work["max_steps"]) == (0.417, 5)


def test_the_hours_of_another_processor_are_no_measurement_and_the_answer_says_so(at: At) -> None:
    workspace = at("trained")
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n- [Modal, CPU, 1.0, {day}, invented, false]\n")
    answer = asked(workspace, epochs=6000)
    found = {line.platform: line for line in answer.platforms}
    assert (found["own"].basis, found["Modal"].basis) == ("measured", "measured and scaled")
    assert found["Modal"].training_hours[1] > 3 * found["own"].training_hours[1]
    assert any("a CPU of Modal takes 0.25 to 4 times as long" in one for one in answer.assumed)
    rows = {row.platform: device_of_row(row, workspace.path) for row in load_prices(workspace.path / "prices.yaml")}
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n")
    assert not any("times as long" in one for one in asked(workspace).assumed)
    request = read_cost_request(project=NAME)
    facts = estimating._facts(workspace, request)
    facts.latency = (0.01, "flowers/export-1")
    work = estimating._work(facts, request, CPU_DEVICE, None)
    own, other = (pricing._seconds_of_prediction(rows[name], work) for name in ("own", "Modal"))
    assert own == Interval.around(0.01, 0.2)
    assert other == Interval(0.008 / 4, 0.012 * 4), "an export's latency is one processor's too"


def test_old_prices_and_invented_ones_are_warned_of(at: At) -> None:
    workspace = at("trained")
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n", days=30)
    assert asked(workspace).warnings is None
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n", days=31)
    assert "31 days old; look again: our bill" in asked(workspace).warnings[0]
    (workspace.path / "prices.yaml").write_text(EXAMPLE.read_text())
    answer = asked(workspace, hardware=["CPU"])
    assert "invented" in answer.warnings[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("rows:\n- [a, CPU, 0, 2026-11-01, s, false]\n", "greater than 0"),
        ("rows:\n- [a, CPU, .inf, 2026-11-01, s, false]\n", "finite"),
        ("rows:\n- [a, CPU, 1000000, 2026-11-01, s, false]\n", "less than or equal to 10000"),
        ("rows:\n- [a, CPU, 1, null, s, false]\n", "needs the date"),
        ("currency: dollars\nrows: []\n", "currency"),
        ("rows: &x\n- [a, CPU, 1, 2026-11-01, s, false]\nstorage: *x\n", "aliases are not allowed"),
        ("rows: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
        ("- a\n", "needs `rows`"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=what):
        load_prices(tmp_path / "p.yaml")


def test_a_named_file_lies_below_the_code_root(at: At) -> None:
    workspace = at("trained")
    outside = workspace.path.parent / "outside.yaml"
    outside.write_text(f"rows:\n- [a, CPU, 1, {TODAY}, s, false]\n")
    code = workspace.path.parent / "code"
    (code / "mine.yaml").write_text(outside.read_text())
    (code / "link.yaml").symlink_to(outside)
    assert asked(workspace, prices="mine.yaml").platforms[0].platform == "a"
    for path in ("../outside.yaml", str(outside), "link.yaml"):
        with pytest.raises(ConfigurationError, match="outside the code root"):
            asked(workspace, prices=path)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"gpus": 0}, "gpus"), ({"gpus": 65}, "gpus"), ({"epochs": -1}, "epochs"), ({"runs": 10**6}, "runs"),
        ({"trials": -1}, "trials"), ({"requests_per_month": float("nan")}, "requests_per_month"),
        ({"interruptions_per_day": -2}, "interruptions_per_day"), ({"hardware": ["a"] * 9}, "hardware"),
    ],
)  # fmt: skip
def test_numbers_out_of_their_bounds_are_refused_and_the_rest_of_the_call_is_kept(
    given: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigurationError, match=what) as refused:
        read_cost_request(project=NAME, prices="p.yaml", **given)
    assert refused.value.details["next"]["arguments"] == {"project": NAME, "prices": "p.yaml"}


def test_the_owners_limit_stands_beside_the_sum_and_its_request_is_proposed(at: At) -> None:
    workspace = at("created")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("price_per_gpu_hour: 0.0", "price_per_gpu_hour: 4.0"))
    workspace.close()
    workspace = Workspace.open(workspace.path)
    price_file(workspace, "- [cloud, H100 SXM, 4000.0, {day}, invented, false]\n")
    answer = asked(workspace, runs=1000)
    assert "500 left of 500 (money): too little" in answer.owner_limit
    assert answer.next.tool == "configure"
    wanted = answer.next.arguments["ask_owner"]["limits"]
    assert wanted["money"] >= 4 * answer.platforms[0].gpu_hours[1], "what a run counts is at the owner's price"
    assert wanted["gpu_hours"] >= answer.platforms[0].gpu_hours[1]
    workspace.close()


def test_the_limit_of_gpu_hours_is_compared_with_hours_times_devices_and_with_the_search(at: At) -> None:
    workspace = at("created")
    price_file(workspace, "- [cloud, H100 SXM, 4.0, {day}, invented, false]\n")
    line = asked(workspace, gpus=8, runs=3, trials=2).platforms[0]
    both = line.training_hours[1] + line.search_hours[1]
    assert line.gpu_hours[1] == pytest.approx(8 * both, rel=0.02)
    ten = line.model_copy(update={"training_hours": (8.0, 10.0), "gpu_hours": (64.0, 80.0)})
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("  gpu_hours: 100.0", "  gpu_hours: 20.0"))
    workspace.close()
    workspace = Workspace.open(workspace.path)
    said, call = owner_limit(workspace, NAME, ten)
    assert "20 left of 20 (gpu_hours): too little for 80" in said
    assert call is not None
    assert call.arguments["ask_owner"]["limits"] == {"gpu_hours": 80}
    workspace.close()


def test_the_price_that_counts_is_the_one_that_a_job_there_counts(at: At) -> None:
    workspace = at("created")
    price_file(workspace, "- [Modal, H100 SXM, 4.0, {day}, invented, false]\n")
    job = job_of(workspace, read_cloud_request(project=NAME, platform="modal", gpu="H100"), asked_gpu("modal", "H100"))
    assert job.price_per_gpu_hour == 4.0
    answer = asked(workspace, runs=1000)
    assert "money counts at 4 an hour (Modal on" in answer.owner_limit
    assert "500 left of 500 (money): too little" in answer.owner_limit


def test_a_gpu_that_was_measured_still_has_its_predictions_priced(at: At) -> None:
    workspace = at("created")
    price_file(workspace, "- [cloud, H100 SXM, 4.0, {day}, invented, false]\n")
    h100 = named_device("H100 SXM")
    facts = estimating._facts(workspace, read_cost_request(project=NAME))
    counted = estimating.counted_work(workspace, facts, [h100], source=h100, should_stop=lambda: False)
    assert counted is not None, facts.notes
    assert estimating.counted_work(
        workspace, facts, [CPU_DEVICE], source=CPU_DEVICE, should_stop=lambda: False
    ) is None  # fmt: skip
    facts.config = facts.config.model_copy(update={"model": facts.config.model.model_copy(update={"use": "no:thing"})})
    assert estimating.counted_work(workspace, facts, [h100], source=h100, should_stop=lambda: False) is None
    assert "predictions on GPUs have no price" in facts.notes[0]


def test_the_command_prints_the_same(at: At) -> None:
    workspace = at("trained")
    price_file(workspace, "- [own, CPU, 1.0, {day}, our bill, false]\n")
    command = ["cost", NAME, "--workspace", str(workspace.path)]
    done = CliRunner().invoke(cli.app, [*command, "--epochs", "100"])
    assert done.exit_code == 0, done.output
    assert "own CPU: " in done.output
    assert "EUR" in done.output
    told = CliRunner().invoke(cli.app, [*command, "--json"])
    assert json.loads(told.output)["platforms"][0]["platform"] == "own"
    refused = CliRunner().invoke(cli.app, [*command, "--gpus", "99"])
    assert refused.exit_code == 1
    assert "less than or equal to 64" in str(refused.exception)
