"""The commands that take whole projects through the phases: `trainwright demo`, `trainwright example`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainwright.trainer.base.errors import ConfigurationError


def demo(
    workspace: Annotated[Path, typer.Option("--workspace", "-w", help="Workspace folder of the demonstration")] = Path(
        "demo-workspace"
    ),
) -> None:
    """Take a project on real images through all five phases, as an agent would."""
    from trainwright.server.commands.demo import run_demo

    raise typer.Exit(run_demo(workspace.expanduser().resolve()))


def example(
    name: Annotated[str | None, typer.Argument(help="An example; left out: list them")] = None,
    *,
    into: Annotated[Path | None, typer.Option("--into", help="Copy it into this folder, new or empty.")] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Take it through all gates as an agent would; default folder: its name.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list, or the card, as JSON.")] = False,
) -> None:
    """List the example projects, show or copy one, or take one through all gates to its final model."""
    from trainwright.server.commands import example as examples  # its modules are no matter of the other commands

    folder = (into or Path(name or "")).expanduser().resolve()
    if name is None and (run or into is not None):
        raise ConfigurationError("No example is named.", remedy="`trainwright example` lists them.")
    if as_json:
        typer.echo(json.dumps(examples.examples_as_data(name), indent=2))
    elif name is None:
        examples.list_examples()
    elif run:
        from trainwright.server.commands.example_run import run_example

        raise typer.Exit(run_example(name, folder))
    elif into is not None:
        examples.copy_into(name, folder)
    else:
        examples.show_example(name)
