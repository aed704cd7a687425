"""A run's share is set aside before it starts, and what it really used takes its place when it has ended (GATE-4)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.function_text import body_of

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gpus import has_gpu
from trainwright.tools.ledger.events import Pruned
from trainwright.tools.limits import usage as of_usage
from trainwright.tools.limits import usages
from trainwright.tools.limits.reservation import expected_gpus
from trainwright.tools.projects import project_status
from trainwright.tools.training_orchestrator import refresh_run, resume_run, start_run, stop_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.config import apply_changes, parse_config
from trainwright.trainer.run import Limits, RunDirectory, RunKind, RunState, RunStatus
from trainwright.trainer.run.evidence import Environment

pytestmark = pytest.mark.requirement("GATE-4")
HOUR = 3600.0


def order(workspace: Workspace, project: str = "big") -> RunDirectory:
    """Start a smoke run that waits for its outer launcher."""
    return workspace.run_directory(project, start_run(workspace, project, RunKind.SMOKE).run_id)


def worked(directory: RunDirectory, seconds: float, *, device: str = "cuda", world_size: int = 4) -> None:
    """Leave the record of a worker that worked so long on so many devices and was asked to stop."""
    now = time.time()
    lines = [(now - seconds, "started"), (now, "ended")]
    text = "".join(f'{{"time": {at}, "kind": "{kind}", "data": {{}}}}\n' for at, kind in lines)
    (directory.path / "events.jsonl").write_text(text)
    directory.write_evidence(
        Environment.model_validate({"fingerprint_basis": {"device": device, "world_size": world_size}})
    )
    directory.write_status(
        RunStatus(
            state=RunState.STOPPED, attempt=1, stop_reason="requested", started_at=now - seconds, heartbeat_at=now
        )
    )


def usage(workspace: Workspace) -> Any:
    with workspace.session() as session:
        return usages(session, workspace, "big")[0]


def lines(workspace: Workspace) -> dict[str, str]:
    status = project_status(workspace, "big")
    assert not isinstance(status, list)
    return status.limits


def test_a_run_holds_its_whole_share_until_it_ends_and_then_what_it_used(
    workspace: Workspace, settings: Callable[..., None]
) -> None:
    settings(price_per_gpu_hour=2.5)
    directory = order(workspace)
    held = usage(workspace)
    assert held.living == 1
    assert held.reserved.wall_clock_seconds == 4 * HOUR
    assert (held.reserved.gpu_hours, held.reserved.money) == (16.0, 40.0)
    assert lines(workspace)["gpu_hours"] == "0 of 100, 16 reserved, 84 left"
    worked(directory, 900.0)
    refresh_run(workspace, directory.run_id)
    ended = usage(workspace)
    assert ended.living == 0
    assert ended.reserved.gpu_hours == 0.0
    assert ended.used.gpu_hours == pytest.approx(1.0)
    assert ended.used.money == pytest.approx(2.5)
    assert lines(workspace)["gpu_hours"] == "1 of 100, 99 left"


def test_a_run_that_found_no_device_used_no_gpu_hours(workspace: Workspace, settings: Callable[..., None]) -> None:
    settings(price_per_gpu_hour=2.5)
    directory = order(workspace)
    worked(directory, 900.0, device="cpu")
    refresh_run(workspace, directory.run_id)
    assert usage(workspace).used.gpu_hours == 0.0
    assert usage(workspace).used.wall_clock_seconds == pytest.approx(900.0)


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"gpu_hours": 20.0}, "gpu_hours"),
        ({"money": 50.0, "price_per_gpu_hour": 2.5}, "money"),
        ({"project_wall_clock_seconds": 5 * HOUR}, "project_wall_clock_seconds"),
        ({"disk_bytes": 15 * 1024**3}, "disk_bytes"),
        ({"workspace_gpu_hours": 20.0}, "workspace_limits.gpu_hours"),
        ({"workspace_wall_clock_seconds": 5 * HOUR}, "workspace_limits.wall_clock_seconds"),
        ({"workspace_runs_at_once": 2}, "workspace_limits.runs_at_once"),
    ],
)
def test_what_is_left_bounds_the_next_run_and_then_nothing_is_left(
    workspace: Workspace, settings: Callable[..., None], values: dict[str, float], limit: str
) -> None:
    settings(runs_at_once=5, **values)
    first = order(workspace).limits()
    second = order(workspace).limits()
    if "runs_at_once" not in limit:
        assert second != first, "the second run must get less than a whole share"
    with pytest.raises(LimitReachedError) as caught:
        order(workspace)
    assert caught.value.details["limit"] == limit
    assert caught.value.details["waits"] is True
    assert "owner" in caught.value.remedy


def test_a_run_that_has_ended_unseen_makes_room_for_the_next_in_any_project(
    workspace: Workspace, settings: Callable[..., None], another: Callable[[str], None]
) -> None:
    settings(runs_at_once=5, workspace_runs_at_once=2)
    another("other")
    first, second = order(workspace), order(workspace, "other")
    with pytest.raises(LimitReachedError, match="runs_at_once"):
        order(workspace)
    worked(second, 60.0)  # and nobody asks for it
    third = order(workspace)
    worked(first, 60.0)
    worked(third, 60.0)
    resume_run(workspace, first.run_id)
    assert usage(workspace).living == 1


def test_a_limit_that_is_used_up_is_not_waited_for(workspace: Workspace, settings: Callable[..., None]) -> None:
    settings(gpu_hours=1.0)
    directory = order(workspace)
    worked(directory, 0.5 * HOUR)
    refresh_run(workspace, directory.run_id)
    with pytest.raises(LimitReachedError, match=r"gpu_hours is used up: 2 used, of 1") as caught:
        order(workspace)
    assert caught.value.details["waits"] is False


def test_a_run_that_never_started_gives_its_share_back(workspace: Workspace) -> None:
    directory = order(workspace)
    stop_run(workspace, directory.run_id)
    refresh_run(workspace, directory.run_id)
    assert usage(workspace).living == 0
    assert usage(workspace).used.wall_clock_seconds == 0.0


def test_reservations_and_use_outlive_the_server(workspace: Workspace, settings: Callable[..., None]) -> None:
    settings(project_wall_clock_seconds=5 * HOUR, runs_at_once=5)
    first, _ = order(workspace), order(workspace)
    worked(first, 1.5 * HOUR)
    refresh_run(workspace, first.run_id)
    again = Workspace.open(workspace.path)
    assert order(again).limits().wall_clock_seconds == pytest.approx(2.5 * HOUR)
    with pytest.raises(LimitReachedError, match="project_wall_clock_seconds"):
        order(again)
    again.close()


def test_removing_a_sealed_runs_folder_or_row_gives_no_time_back(workspace: Workspace) -> None:
    directory = order(workspace)
    worked(directory, 900.0)
    refresh_run(workspace, directory.run_id)
    shutil.rmtree(directory.path)
    assert usage(workspace).used.gpu_hours == pytest.approx(1.0)


def test_a_run_whose_record_was_removed_counts_in_full(workspace: Workspace) -> None:
    directory = order(workspace)
    worked(directory, 900.0)
    (directory.path / "events.jsonl").unlink()
    (directory.path / "launch.json").unlink()
    with workspace.session() as session:
        body = ledger.entries(session, "big", "run_started")[-1][1]
        assert body["permit"]["reserved"]["share"]["gpu_hours"] == 16.0
        assert usages(session, workspace, "big")[0].used.wall_clock_seconds > 0.0


def test_a_resumed_run_is_bound_by_the_limits_of_now_and_counts_its_former_work(
    workspace: Workspace, settings: Callable[..., None]
) -> None:
    settings(run_wall_clock_seconds=600.0)
    directory = order(workspace)
    worked(directory, 600.0)
    with pytest.raises(LimitReachedError, match="run_wall_clock_seconds"):
        resume_run(workspace, directory.run_id)
    settings(run_wall_clock_seconds=1000.0)
    resume_run(workspace, directory.run_id)
    assert directory.specification().limits.wall_clock_seconds == 600.0
    assert directory.limits().wall_clock_seconds == 1000.0
    held = usage(workspace)
    assert held.used.wall_clock_seconds + held.reserved.wall_clock_seconds == pytest.approx(1000.0)
    settings(run_wall_clock_seconds=3000.0, project_wall_clock_seconds=1200.0)
    assert order(workspace).limits().wall_clock_seconds == pytest.approx(200.0)


def test_projects_share_the_workspaces_limits(
    workspace: Workspace, settings: Callable[..., None], another: Callable[[str], None]
) -> None:
    another("other")
    settings(workspace_gpu_hours=30.0)
    order(workspace)
    assert order(workspace, "other").limits().gpu_hours == pytest.approx(14.0)
    with workspace.session() as session:
        assert usages(session, workspace, "big")[1].reserved.gpu_hours == pytest.approx(30.0)
    assert lines(workspace)["workspace_limits.gpu_hours"] == "0 of 30, 30 reserved, 0 left"


def test_an_ended_runs_bytes_are_those_of_its_seal_until_weights_are_pruned(workspace: Workspace) -> None:
    directory = order(workspace)
    worked(directory, 60.0)
    refresh_run(workspace, directory.run_id)
    before = usage(workspace).used.disk_bytes
    (directory.path / "more").write_bytes(bytes(1000))
    assert usage(workspace).used.disk_bytes == before
    with workspace.session() as session:
        ledger.record(session, "big", Pruned(checkpoints=[{"run_id": directory.run_id}]))
    assert usage(workspace).used.disk_bytes == of_usage.folder_bytes(directory.path) >= before + 1000.0


def test_what_is_left_is_not_kept_while_a_run_is_under_way(workspace: Workspace) -> None:
    def are_fleeting() -> bool:
        sources = Sources()
        with workspace.session() as session:
            assert Evidence(session, workspace, "big", inspection=ledger.Look(sources)).seconds_left is not None
        assert sources.are_all_projects, "runs of others use the workspace's limits too"
        return sources.are_fleeting

    assert not are_fleeting()
    directory = order(workspace)
    assert are_fleeting()
    worked(directory, 60.0)
    assert not are_fleeting()


def test_bytes_of_a_folder_are_those_of_its_files_and_links_and_not_of_what_links_lead_to(tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    (folder / "deep" / "deeper").mkdir(parents=True)
    other.mkdir()
    (other / "large").write_bytes(bytes(10_000))
    for number, place in enumerate((folder, folder / "deep", folder / "deep" / "deeper"), 1):
        (place / "file").write_bytes(bytes(number))
    link = folder / "link"
    link.symlink_to(other / "large")
    (folder / "linked").symlink_to(other)
    assert of_usage.folder_bytes(folder) == 1 + 2 + 3 + link.lstat().st_size
    assert of_usage.folder_bytes(tmp_path / "gone") == 0


def start_runs_as_told() -> None:
    import sys
    from pathlib import Path

    from trainwright.tools.training_orchestrator import start_run
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.base.errors import LimitReachedError
    from trainwright.trainer.run import RunKind

    workspace = Workspace.open(Path(sys.argv[1]))
    print("ready", flush=True)
    for project in map(str.strip, sys.stdin):
        try:
            print(start_run(workspace, project, RunKind.SMOKE).run_id, flush=True)
        except LimitReachedError as error:
            print(error.details["limit"], flush=True)


def test_two_servers_racing_for_the_last_share_get_one_of_it(
    workspace: Workspace, settings: Callable[..., None], another: Callable[[str], None]
) -> None:
    settings(project_wall_clock_seconds=4 * HOUR, runs_at_once=5, workspace_runs_at_once=50)
    projects = [f"race{number}" for number in range(3)]
    for name in projects:
        another(name)
    command = [sys.executable, "-P", "-c", body_of(start_runs_as_told), str(workspace.path)]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        pairs = [(racer.stdin, racer.stdout) for racer in racers]
        assert [out.readline() for _, out in pairs if out] == ["ready\n"] * 2
        for project in projects:
            for give, _ in pairs:
                assert give is not None
                give.write(f"{project}\n")
                give.flush()
            said = sorted(out.readline().strip() for _, out in pairs if out)
            assert said[0] == "project_wall_clock_seconds", said
            assert said[1].startswith(f"smoke-{project}-"), said
    finally:
        for racer in racers:
            racer.communicate(timeout=60)
    with workspace.session() as session:
        assert usages(session, workspace, "big")[1].living == len(projects)


def test_the_limits_reach_the_worker_with_their_price(workspace: Workspace, settings: Callable[..., None]) -> None:
    settings(price_per_gpu_hour=2.0, gpu_hours=3.0, money=5.0)
    limits = order(workspace).limits()
    assert (limits.gpu_hours, limits.money, limits.price_per_gpu_hour) == (3.0, 5.0, 2.0)
    assert limits.reached(0.5 * HOUR, 4) is None
    assert limits.reached(0.7 * HOUR, 4) == "money_limit"
    assert limits.reached(0.7 * HOUR, 0) is None
    assert Limits(gpu_hours=1.0).reached(901.0, 4) == "gpu_hours_limit"
    assert Limits(wall_clock_seconds=10.0).reached(11.0, 0) == "wall_clock_limit"


def test_devices_are_counted_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    whole = parse_config({**config, "distributed": {"processes": 3}})
    assert expected_gpus(whole, RunKind.BASELINE) == 3
    assert expected_gpus(whole, RunKind.EXPORT) == 1
    assert expected_gpus(parse_config(apply_changes(config, {"training.device": "cpu"})), RunKind.BASELINE) == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert not has_gpu(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert has_gpu(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not has_gpu(tmp_path)


def test_the_seal_says_what_the_run_used(workspace: Workspace) -> None:
    directory = order(workspace)
    worked(directory, 900.0)
    refresh_run(workspace, directory.run_id)
    with workspace.session() as session:
        (body,) = [body for _, body in ledger.entries(session, "big", "run_sealed")]
    assert body["used"]["gpu_hours"] == pytest.approx(1.0)
    assert json.dumps(body["used"])
