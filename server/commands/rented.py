"""Commands on costs and rented machines: `trainwright prices`, `cost`, `cloud` and `job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.server.workspace_path import WorkspaceOption, existing_workspace, workspace_path


def job(
    stage: Annotated[str, typer.Argument(help="The stage to make, as `trainwright stage` names them")],
    *,
    file: Annotated[Path, typer.Option("--file", help="The pipeline's definition.")] = Path("trainwright.yaml"),
    settings: Annotated[
        Path | None, typer.Option("--settings", help="Owner's settings for a workspace that has none yet.")
    ] = None,
    code_root: Annotated[Path | None, typer.Option("--code-root", help="Default: the definition's folder.")] = None,
    search: Annotated[bool, typer.Option("--search", help="Also the configuration's search.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Make a stage in a batch job: SIGTERM saves and ends with exit code 75, and the next start resumes."""
    from trainwright.server.commands.job import run_in_batch

    code = run_in_batch(workspace_path(workspace), stage, file, settings, code_root or file.parent, searches=search)
    raise typer.Exit(code)


def cloud(
    project: Annotated[str, typer.Argument(help="A project")],
    *,
    on: Annotated[str, typer.Option("--on", help="modal, lambda, runpod, skypilot, slurm, kubernetes or kubeflow")],
    gpu: Annotated[str, typer.Option("--gpu", help="NAME or NAME:COUNT, as the platform names it")],
    into: Annotated[Path, typer.Option("--into", help="New folder for the files.")],
    spot: Annotated[bool, typer.Option("--spot", help="A machine that may be taken away.")] = False,
    hours: Annotated[float | None, typer.Option(help="Time-out; default: what the limits leave, 24 at most.")] = None,
    idle_minutes: Annotated[int | None, typer.Option(help="Of doing nothing, after which it is given back.")] = None,
    cpus: Annotated[int | None, typer.Option(help="Processor cores.")] = None,
    memory_gb: Annotated[int | None, typer.Option(help="Main memory.")] = None,
    disk_gb: Annotated[int | None, typer.Option(help="Disk.")] = None,
    region: Annotated[str | None, typer.Option(help="As the platform names it.")] = None,
    stage: Annotated[str, typer.Option(help="The stage to make.")] = "training",
    search: Annotated[bool, typer.Option("--search", help="Also the configuration's search.")] = False,
    image: Annotated[str | None, typer.Option(help="Container with requirements.txt in it.")] = None,
    volume: Annotated[str | None, typer.Option(help="That keeps the workspace.")] = None,
    bucket: Annotated[str | None, typer.Option(help="Of an object store that keeps the workspace.")] = None,
    secret: Annotated[list[str] | None, typer.Option(help="Name of a secret of the platform; never a value.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Of Kubernetes.")] = None,
    partition: Annotated[str | None, typer.Option(help="Of Slurm.")] = None,
    spot_taint: Annotated[
        str | None, typer.Option(help="Of a cluster's spot nodes: KEY[=VALUE][:EFFECT]; default: GKE's.")
    ] = None,
    gpu_label: Annotated[str | None, typer.Option(help="The cluster's own word for the GPU.")] = None,
    requirement: Annotated[str | None, typer.Option(help="How Trainwright is installed there.")] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the files of a job for rented or shared GPUs, checked before they are written; nothing is started."""
    from trainwright.server.commands.cloud import write_cloud

    write_cloud(
        existing_workspace(workspace_path(workspace)), into,
        project=project, platform=on, gpu=gpu, spot=spot, hours=hours,
        idle_minutes=idle_minutes, cpus=cpus, memory_gb=memory_gb, disk_gb=disk_gb, region=region, stage=stage,
        search=search, image=image, volume=volume, bucket=bucket, secrets=tuple(secret or ()), namespace=namespace,
        partition=partition, spot_taint=spot_taint, gpu_label=gpu_label, requirement=requirement,
    )  # fmt: skip


def prices(
    file: Annotated[Path | None, typer.Argument(help="New file; default: prices.yaml of the workspace")] = None,
    *,
    example: Annotated[
        bool, typer.Option("--example", help="The filled-in example: every figure in it is invented.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the form of the file that prices are taken from, to be filled in: no price is built in."""
    from trainwright.server.commands.costs import write_prices

    write_prices(file or workspace_path(workspace) / "prices.yaml", example=example)


def cost(
    project: Annotated[str, typer.Argument(help="A project")],
    *,
    workspace: WorkspaceOption = None,
    hardware: Annotated[list[str] | None, typer.Option(help="An accelerator; default: all with a price.")] = None,
    gpus: Annotated[int, typer.Option(help="Devices of one run.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Default: the configuration's.")] = None,
    runs: Annotated[int, typer.Option(help="Full trainings.")] = 1,
    trials: Annotated[int | None, typer.Option(help="Of a search; default: the configuration's.")] = None,
    requests_per_month: Annotated[float | None, typer.Option(help="Single predictions.")] = None,
    interruptions_per_day: Annotated[float | None, typer.Option(help="Of spot machines.")] = None,
    prices: Annotated[str | None, typer.Option(help="File below the code root; default: the workspace's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Show what training, search, storage and predictions cost, by measured hours and a dated file of prices."""
    from trainwright.server.commands.costs import show_cost

    show_cost(
        existing_workspace(workspace_path(workspace)), as_json=as_json,
        project=project, hardware=hardware or None, gpus=gpus,
        epochs=epochs, runs=runs, trials=trials, requests_per_month=requests_per_month,
        interruptions_per_day=interruptions_per_day, prices=prices,
    )  # fmt: skip


COMMANDS = (prices, cost, cloud, job)
