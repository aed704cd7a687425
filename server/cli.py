"""`trainwright`: serve, dashboard, doctor, status, follow, study, verify, validate-data, handover, prune …"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

import trainwright
from trainwright.server.commands.call import call
from trainwright.server.commands.connect import connect
from trainwright.server.commands.deploy import deploy
from trainwright.server.commands.enclose_options import enclose
from trainwright.server.commands.fetch import fetch
from trainwright.server.commands.handover import handover
from trainwright.server.commands.model import model
from trainwright.server.commands.push import push
from trainwright.server.commands.rented import COMMANDS as OF_RENTED
from trainwright.server.commands.serve import serve
from trainwright.server.commands.tokens import tokens
from trainwright.server.commands.whole_projects import demo, example
from trainwright.server.entry import say_and_end
from trainwright.server.workspace_path import WorkspaceOption, existing_workspace, workspace_path

app = typer.Typer(
    help="Train real models with agents, under gates enforced from measured evidence.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
keys = typer.Typer(help="Keys that sign the ledger.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(tokens, name="tokens")
app.add_typer(model, name="model")
app.command()(serve)
app.command()(call)
app.command()(connect)
app.command()(fetch)
app.command()(push)
app.command()(deploy)
app.command()(demo)
app.command()(example)
Tracker = Literal["mlflow", "wandb"]
Tracking = Literal["tensorboard", "mlflow", "wandb"]


def main() -> None:
    """Run the command line; an error is shown with its remedy, never as a traceback."""
    try:
        app()
    except Exception as error:  # noqa: BLE001 - people read a sentence, not a traceback
        say_and_end(error)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"trainwright {trainwright.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train real models with agents, under gates enforced from measured evidence."""


@app.command()
def doctor(
    workspace: WorkspaceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    project: Annotated[Path | None, typer.Option(help="Folder whose Python environment runs are to work in.")] = None,
) -> None:
    """Show what this machine can do, or a project's environment, with a remedy for what it cannot."""
    from trainwright.server.commands.doctor import examine
    from trainwright.server.commands.terminal import Terminal

    if project is None:
        findings = examine(workspace_path(workspace))
    else:
        from trainwright.server.commands.doctor_project import examine_project

        findings = examine_project(project.expanduser().resolve(), workspace_path(workspace))
    if as_json:
        typer.echo(json.dumps([finding.model_dump() for finding in findings], indent=2))
    else:
        terminal = Terminal()
        for finding in findings:
            terminal.marked(finding.status, f"{finding.name}: {finding.found}")
            if finding.remedy:
                terminal.line(f"      {finding.remedy}")
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


@app.command()
def status(
    workspace: WorkspaceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the projects as JSON.")] = False,
) -> None:
    """Show the projects, their phases and runs."""
    from trainwright.server.commands.status import show_status

    show_status(existing_workspace(workspace_path(workspace)), as_json=as_json)


@app.command("open")
def open_tracker(
    page: Annotated[Tracking, typer.Argument(help="tensorboard, mlflow or wandb")],
    workspace: WorkspaceOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any that is free.")] = 0,
    *,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
) -> None:
    """Serve a tracker's page on the runs as they train, until Ctrl-C."""
    from trainwright.server.commands.tracking import open_tracker as serve

    serve(existing_workspace(workspace_path(workspace)), page, port, browser=browser)


@app.command()
def track(
    what: Annotated[str, typer.Argument(help="A project, or a run as digits/baseline-2")],
    to: Annotated[Tracker, typer.Option("--to", help="mlflow or wandb")],
    workspace: WorkspaceOption = None,
) -> None:
    """Show runs in a tracker now, whatever their configurations ask for: what it has already is not repeated."""
    from trainwright.server.commands.tracking import track as give

    give(existing_workspace(workspace_path(workspace)), what, to)


@app.command()
def dashboard(
    workspace: WorkspaceOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any that is free.")] = 0,
    *,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
    keep: Annotated[str | None, typer.Option(help="Write this project's pages into one file instead.")] = None,
    into: Annotated[Path, typer.Option(help="The file that --keep writes.")] = Path("report.html"),
) -> None:
    """Serve a live page: projects and gates, runs with their curves, alerts, comparisons, studies, the ledger."""
    from trainwright.server.commands.status import keep_page, serve_dashboard

    path = existing_workspace(workspace_path(workspace))
    if keep is not None:
        keep_page(path, keep, into)
    else:
        serve_dashboard(path, port, browser=browser)


@app.command()
def follow(
    workspace: WorkspaceOption = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Look at every run once, notify, and end: for cron.")] = False,
) -> None:
    """Follow the runs without a server until none is alive: print their alerts, and notify as settings.yaml says."""
    from trainwright.server.commands.status import follow_runs

    follow_runs(existing_workspace(workspace_path(workspace)), once=once)


@app.command()
def verify(  # noqa: PLR0917 - options of a command line
    workspace: Annotated[Path | None, typer.Argument(help="Workspace folder; default as everywhere")] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="Public key that the ledger should be signed with")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="The ledger's last digest, as you noted it elsewhere")
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Run the releases' programs on the fixed rows again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    option: WorkspaceOption = None,
) -> None:
    """Compare ledger, verdicts, records and files with each other; exit with 1 when anything was changed."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.server.markdown import counted
    from trainwright.tools.verification import verify_workspace

    terminal = Terminal()
    path = existing_workspace(workspace_path(workspace or option))
    report = verify_workspace(path, public_key, noted_head=head, tell=terminal.progress, evaluates=evaluate)
    terminal.progress()
    if as_json:
        typer.echo(json.dumps(report.model_dump(), indent=2))
    else:
        for finding in report.findings:
            terminal.marked("fail" if finding.counts else "warn", f"{finding.where}: {finding.what}")
        checked = ", ".join(f"{count} {what}" for what, count in report.checked.items())
        terminal.marked(
            "fail" if report.problems else "ok", f"checked {checked}: {counted(len(report.problems), 'problem')}"
        )
        if report.of_other_versions:
            differences = counted(report.of_other_versions, "difference")
            terminal.line(f"      {differences} of versions: this one derives other results than the recording one.")
        terminal.line(f"      {report.attested}")
        terminal.line(f"      The ledger ends with {report.head}.")
    if report.problems:
        raise typer.Exit(1)


@app.command("replay-step")
def replay_step(
    run: Annotated[str, typer.Argument(help="Id of a run")],
    step: Annotated[int, typer.Argument(min=1, help="A step that it has committed to: artifacts/commitments.json")],
    code_root: Annotated[
        Path | None, typer.Option("--code-root", help="The user's code on this machine; default: where it was")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Replay one step of a run from its nearest checkpoint, and compare the state that it gives; exit with 1 if not."""
    from trainwright.server.commands.replay_step import show_replay

    if not show_replay(existing_workspace(workspace_path(workspace)), run, step, code_root):
        raise typer.Exit(1)


@app.command()
def rebuild(
    workspace: Annotated[Path | None, typer.Argument(help="Workspace folder; default as everywhere")] = None,
    option: WorkspaceOption = None,
) -> None:
    """Rebuild a lost database from the projects' ledger.jsonl files; exit with 1 when any of them is damaged."""
    from trainwright.server.commands.upkeep import show_rebuilt

    if not show_rebuilt(workspace_path(workspace or option)):
        raise typer.Exit(1)


@app.command()
def prune(
    projects: Annotated[list[str] | None, typer.Argument(help="Projects; default: all of the workspace")] = None,
    *,
    workspace: WorkspaceOption = None,
    keep_last: Annotated[int | None, typer.Option(min=0, help="Newest checkpoints of each run to keep.")] = None,
    keep_best: Annotated[int | None, typer.Option(min=0, help="Best checkpoints of each run to keep.")] = None,
    keep_every: Annotated[int | None, typer.Option(min=1, help="Keep those of every n-th epoch.")] = None,
    budget_mib: Annotated[int | None, typer.Option(min=0, help="Delete no further than this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it only the plan is shown.")] = False,
) -> None:
    """Free disk space: delete weights of trials and superseded runs. Without --yes it only shows the plan."""
    from trainwright.server.commands.upkeep import prune_projects

    wanted = {"keep_last": keep_last, "keep_best": keep_best, "keep_every_n_epochs": keep_every}
    budget = None if budget_mib is None else budget_mib * 2**20
    given = {name: value for name, value in {**wanted, "budget_bytes": budget}.items() if value is not None}
    prune_projects(existing_workspace(workspace_path(workspace)), projects or [], given, delete=yes)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="A study: its handle, such as digits/study-1")],
    *,
    workspace: WorkspaceOption = None,
) -> None:
    """Show a search's trials."""
    from trainwright.server.commands.status import show_study

    show_study(existing_workspace(workspace_path(workspace)), name)


@app.command()
def journal(
    project: Annotated[str, typer.Argument(help="A project")],
    *,
    git: Annotated[
        bool, typer.Option("--git", help="Write each state of the code as a commit, refs/trainwright/PROJECT/….")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show a project's experiments with their verdicts."""
    from trainwright.server.commands.journal import show_journal

    show_journal(existing_workspace(workspace_path(workspace)), project, git=git)


@app.command("validate-data")
def validate_data(
    project: Annotated[str, typer.Argument(help="A project")],
    *,
    workspace: WorkspaceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Check a project's data without training; exit with 1 when a run would stop at it."""
    from trainwright.server.commands.validate_data import show_validation

    if not show_validation(existing_workspace(workspace_path(workspace)), project, as_json=as_json):
        raise typer.Exit(1)


@app.command()
def stage(
    name: Annotated[str, typer.Argument(help="ingestion, validation, features, training, evaluation or registration")],
    *,
    file: Annotated[Path, typer.Option("--file", help="The pipeline's definition.")] = Path("trainwright.yaml"),
    record: Annotated[
        Path | None, typer.Option("--record", help="JSON file for its outputs; the same where nothing changed.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Make one stage of a pipeline, and those before it, where they are not done: what dvc.yaml calls."""
    from trainwright.server.commands.pipeline import run_stage

    run_stage(workspace_path(workspace), name, file, record)


@app.command()
def pipeline(
    project: Annotated[str, typer.Argument(help="A project")],
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Write dvc.yaml, a Kubeflow pipeline and a Dockerfile into the code root.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show a project's stages, with what each took in and gave; or write them out."""
    from trainwright.server.commands.pipeline import show_pipeline

    show_pipeline(existing_workspace(workspace_path(workspace)), project, write=write)


app.command()(handover)
app.command()(enclose)


@keys.command()
def new(
    key: Annotated[Path | None, typer.Option("--key", help="File to write; default: your configuration folder")] = None,
) -> None:
    """Create a key that signs every ledger entry from now on, and its public half for verifiers."""
    from trainwright.server.commands.owner import new_signing_key

    new_signing_key(key)


@app.command()
def approve(
    workspace: WorkspaceOption = None,
    yes: Annotated[list[str] | None, typer.Option("--yes", help="Grant this request without being asked.")] = None,
    deny: Annotated[list[str] | None, typer.Option("--deny", help="Deny this request.")] = None,
) -> None:
    """Answer agents' requests as the workspace's owner."""
    from trainwright.server.commands.owner import approve as answer

    answer(existing_workspace(workspace_path(workspace)), yes=yes or [], deny=deny or [])


for command in OF_RENTED:
    app.command()(command)


if __name__ == "__main__":
    main()
