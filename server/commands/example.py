"""`trainwright example`: lists the example projects, shows one's card, copies one, and takes one through all gates."""

from __future__ import annotations

from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.server.markdown import counted, number
from trainwright.tools.examples import Example, copy_example, example_named, examples, missing_packages, read_example
from trainwright.tools.examples.catalogue import CARD
from trainwright.trainer.base.errors import ConflictError


def list_examples() -> None:
    """Print every example with its time, its packages and whether they are installed."""
    terminal = Terminal()
    for example in examples():
        missing = missing_packages(example)
        terminal.marked("warn" if missing else "ok", f"{example.name}: {example.summary}")
        terminal.line(f"      about {counted(example.minutes, 'minute')}; {_needs(example)}")
        for package in missing:
            terminal.line(f"      {package.install}")
    terminal.line("trainwright example NAME shows its card, --into DIR copies it, --run takes it through all gates.")


def examples_as_data(name: str | None = None) -> list[dict[str, object]]:
    """Return the card of every example, or of the one named, and what it lacks here, as JSON types.

    Raises NotFoundError.
    """
    return [
        {**example.model_dump(mode="json"), "missing": [package.requirement for package in missing_packages(example)]}
        for example in (examples() if name is None else [example_named(name)])
    ]


def show_example(name: str) -> None:
    """Print an example's card. Raises NotFoundError."""
    example, terminal = example_named(name), Terminal()
    expected = example.expected
    terminal.line(f"{example.name}: {example.summary}", "bold")
    for title, text in {
        "goal": f"{example.goal.metric}, {example.goal.direction}, target {number(example.goal.target)} on validation",
        "data": example.data.source,
        "licence": example.data.licence,
        "needs": _needs(example),
        "time": f"about {counted(example.minutes, 'minute')} on two cores",
        "expected": f"{expected.metric} {number(expected.mean)} ({number(expected.low)} to {number(expected.high)}) on "
        f"held-back rows, from {counted(len(expected.seeds), 'seed')}",
        "naive": f"{number(example.naive.value)}: {example.naive.what}",
    }.items():
        terminal.line(f"{title:9} {text}")
    terminal.line(f"Copy it:  trainwright example {example.name} --into {example.name}")


def copy_into(name: str, into: Path) -> Example:
    """Copy an example and print what to do next. Raises NotFoundError, ConflictError, StorageError."""
    example, terminal = example_named(name), Terminal()
    files = copy_example(example, into)
    terminal.marked("ok", f"{into}: {', '.join(path.relative_to(into).as_posix() for path in files)}")
    terminal.line(f"      cd {into} && python prepare.py, then README.md step by step with an agent; or all at once:")
    terminal.line(f"      trainwright example {example.name} --into {into} --run")
    return example


def copied(name: str, into: Path) -> Example:
    """Return the example in a folder, copying it there first where the folder is empty or missing.

    Raises NotFoundError, ConflictError (the folder holds something else), StorageError.
    """
    if not (into / CARD).is_file():
        return copy_into(name, into)
    found = read_example(into)
    if found.name != name:
        raise ConflictError(
            f"{into} holds the example {found.name}, not {name}.",
            remedy=f"trainwright example {found.name} --into {into} --run",
        )
    return found


def _needs(example: Example) -> str:
    if not example.packages:
        return "nothing beyond the base install"
    missing = missing_packages(example)
    packages = [
        f"{package.requirement} ({'not installed' if package in missing else 'installed'})"
        for package in example.packages
    ]
    return f"needs {', '.join(packages)}"
