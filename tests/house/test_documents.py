"""Every command, snippet, tool call and link in the documents holds. CONTRIBUTING.md lists the kinds of blocks."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from mcp import Client
from tests.house import documents as reader
from tests.worlds.warm import trainwright_command, warm

from trainwright.server.app import build_server
from trainwright.server.surface import TOOLS
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import apply_changes, load_yaml, parse_config

ROOT = reader.ROOT
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}
DOCUMENTS = reader.documents()
BLOCKS = [block for path in DOCUMENTS for block in reader.blocks(path)]
TESTED_LANGUAGES = {"bash", "console", "python", "yaml"}
KINDS = {"run: shell", "run: python", "check: commands", "check: config", "check: changes", "check: tool-call"}
KINDS |= {"check: python", "check: tree", "run: agent", "run: user-code"}
DATA = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "metrics": ["accuracy"]}
OTHER_COMMANDS = {"git", "cd", "claude", "pip", "mcp"}
SHELL_SECONDS = 120
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


VARIANTS = ("determinism.md", "images/README.md", "lora/README.md", "timeseries/README.md", "usage.md:159")
"""Where blocks stand that show once more what others of their kind show; they run among the long tests."""


def _blocks(kind):
    return [block for block in BLOCKS if block.kind == kind]


def _played(kind):
    """Return the blocks of a kind as parameters."""
    marks = {True: [pytest.mark.long], False: []}
    return [
        pytest.param(block, id=str(block), marks=marks[any(name in str(block) for name in VARIANTS)])
        for block in _blocks(kind)
    ]


def _offenders(check, items):
    """Return what is wrong with each item that does not pass the check."""
    found = []
    for item in items:
        try:
            check(item)
        except (AssertionError, SyntaxError, ValueError, TrainwrightError) as error:
            found.append(f"{item}: {error}")
    return found


def test_every_block_says_how_it_is_tested():
    unmarked = [str(block) for block in BLOCKS if block.language in TESTED_LANGUAGES and not _is_known(block.kind)]
    assert not unmarked, f"put one of {sorted(KINDS)} as an HTML comment before the blocks at {unmarked}"


def _is_known(kind):
    return kind in KINDS or (kind or "").startswith("file: ")


@pytest.mark.slow
@pytest.mark.parametrize("block", _played("run: shell"))
def test_shell_blocks_run(block, tmp_path):
    lines = block.text.splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "trainwright"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(trainwright_command(os.environ))} "$@"\n')
    command.chmod(0o755)
    (folder := tmp_path / "empty").mkdir()
    _run(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], folder, f"{command.parent}{os.pathsep}")


@pytest.mark.slow
@pytest.mark.parametrize("block", _played("run: python"))
def test_python_blocks_run(block, tmp_path):
    _run([sys.executable, "-P", "-c", block.text], tmp_path)


def _run(command, folder, first=""):
    path = f"{first}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "TRAINWRIGHT_HOME": str(folder / "workspace")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SHELL_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.slow
@pytest.mark.requirement("MCP-3")
@pytest.mark.parametrize("shown", _played("run: agent"))
async def test_a_session_in_a_document_runs_as_shown(shown, tmp_path):
    path = ROOT / shown.document
    with warm():  # documents say what the tools do, not how a run's interpreter starts
        async with Client(build_server(tmp_path / ".trainwright")) as client:
            for block in reader.blocks(path):
                if (block.kind or "").startswith("file: "):
                    (tmp_path / block.kind.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
                elif block.kind == "run: agent":
                    await _play(client, block)


async def _play(client, block):
    for call in reader.parse_calls(block.text, str(block)):
        answer = await _answer(client, call.tool, call.arguments)
        if "run_id" in answer:
            await _wait(client, answer["run_id"])


async def _answer(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool}: {result.content[0].text}"
    return result.structured_content


async def _wait(client, run_id):
    for _ in range(6):
        view = await _answer(client, "run_status", {"run_id": run_id, "wait_seconds": 50})
        if view["state"] not in {"created", "starting", "running"}:
            assert view["state"] == "completed", view
            return
    await client.call_tool("stop_training", {"project": run_id.split("/")[0], "run_id": run_id})
    pytest.fail(f"{run_id} did not end")


def test_python_that_needs_other_libraries_at_least_compiles():
    assert _offenders(_compiles, _blocks("check: python")) == []


def _compiles(block):
    compile(block.text, str(block), "exec")


def test_commands_that_are_too_big_to_run_exist():
    assert _offenders(_names_commands, _blocks("check: commands")) == []


def _names_commands(block):
    lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        words = shlex.split(line, comments=True)
        program = words[0]
        if program == "make":
            _check_make(words[1:])
        elif program == "trainwright":
            _check_trainwright(words[1:])
        elif program == "python3":
            assert (ROOT / words[1]).is_file(), f"{block}: there is no {words[1]}"
        else:
            assert program in OTHER_COMMANDS, f"{block}: what is {program!r}?"


def _check_make(words):
    unknown = {word for word in words if "=" not in word} - TARGETS
    assert not unknown, f"the Makefile has no {unknown}"


def _check_trainwright(words):
    from typer.main import get_command

    from trainwright.server.cli import app

    command = get_command(app).get_command(None, words[0])
    assert command is not None, f"there is no `trainwright {words[0]}`"
    options = {option for parameter in command.params for option in parameter.opts}
    words = words[: words.index("--")] if "--" in words else words  # then another program's follow
    unknown = [word for word in words[1:] if word.startswith("-") and word not in options]
    assert not unknown, f"`trainwright {words[0]}` has no {unknown}"


def test_the_recorded_demonstration_shows_calls_that_fit_the_schemas():
    text = re.sub(r"\n   (?=\S)", " ", (ROOT / "docs" / "pictures" / "demo.txt").read_text(encoding="utf-8"))
    calls = re.findall(r"^-> (.+)$", text, flags=re.MULTILINE)
    nexts = re.findall(r"(?:Next|Remedy|Document): (\w+\(.*?\))(?: - |$)", text, flags=re.MULTILINE)
    assert calls
    assert nexts
    for shown in [*calls, *nexts]:
        for call in reader.parse_calls(shown, f"demo.txt: {shown}"):
            _check_call(call, whole=True)


def test_trees_show_what_is_there():
    assert _offenders(_shows_what_is_there, _blocks("check: tree")) == []


def _shows_what_is_there(block):
    parents = {0: ROOT}
    for line in block.text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r" {2,}", line.strip(), maxsplit=1)[0].split()
        for name in names:
            path = parents[depth] / name
            assert path.is_dir() if name.endswith("/") else path.is_file(), f"{block}: no {path.relative_to(ROOT)}"
        parents[depth + 1] = parents[depth] / names[0]


def test_configurations_fit_the_schema():
    assert _offenders(_is_a_configuration, _blocks("check: config")) == []


def _is_a_configuration(block):
    parse_config(load_yaml(block.text, source=str(block)))


def test_changes_fit_the_baseline_template():
    assert _offenders(_fits_the_template, _blocks("check: changes")) == []


def _fits_the_template(block):
    template = load_yaml((ROOT / "skills/ml-trainer/configs/baseline_template.yaml").read_text(encoding="utf-8"))
    parse_config(apply_changes({**DATA, **template}, load_yaml(block.text, source=str(block))))


def test_shown_tool_calls_fit_the_schemas():
    assert _offenders(_is_made_of_calls, _blocks("check: tool-call")) == []


def _is_made_of_calls(block):
    calls = reader.parse_calls(block.text, str(block))
    assert calls
    for call in calls:
        _check_call(call, whole=True)


def test_tool_calls_in_the_text_name_real_tools_and_arguments():
    assert _offenders(_names_real_calls, DOCUMENTS) == []


def _names_real_calls(path):
    for call in reader.inline_calls(path, SCHEMAS):
        _check_call(call, whole=False)


def _check_call(call, *, whole):
    """Check names and values; a `whole` call has every required argument, one in running text may leave some out."""
    assert call.tool in SCHEMAS, f"{call.where}: there is no tool {call.tool!r}"
    schema = SCHEMAS[call.tool]
    open_ended = call.arguments.pop("...", None) is not None
    unknown = set(call.arguments) - set(schema["properties"])
    assert not unknown, f"{call.where}: {call.tool} has no argument {sorted(unknown)}"
    anything = {name for name, value in call.arguments.items() if value is ...}
    given = {name: value for name, value in call.arguments.items() if name not in anything}
    required = set(schema.get("required", ())) - anything if whole and not open_ended else set()
    try:
        jsonschema.validate(given, {**schema, "required": sorted(required)})
    except jsonschema.ValidationError as error:
        raise AssertionError(f"{call.where}: {error.message}") from error


def test_json_blocks_parse():
    written = [block for block in BLOCKS if block.language == "json"]
    assert written
    assert _offenders(lambda block: json.loads(block.text), written) == []


def test_links_lead_somewhere():
    assert _offenders(_leads_somewhere, DOCUMENTS) == []


def _leads_somewhere(path):
    for target in reader.links(path):
        name, _, anchor = target.partition("#")
        aim = (path.parent / name).resolve() if name else path
        assert aim.exists(), f"{target}: nothing there"
        if anchor and aim.suffix == ".md":
            assert anchor in reader.anchors(aim), f"{target}: no such heading"
        elif anchor and aim.suffix == ".py":
            assert re.search(rf"def {anchor}\b", aim.read_text(encoding="utf-8")), f"{target}: no such test"


def test_documents_that_documents_name_exist():
    for_agents = [path for path in DOCUMENTS if path.relative_to(ROOT).parts[0] in reader.AGENT_FACING]
    assert _offenders(_names_documents, for_agents) == []


def _names_documents(path):
    """An agent reads a path in running text as what it may hand to read_document."""
    skill = ROOT / "skills" / "ml-trainer"
    folders = {folder.name for folder in skill.iterdir() if folder.is_dir()}
    for span in reader.INLINE_CODE.findall(reader.prose(path)):
        if re.fullmatch(r"[\w./-]+\.(md|yaml)", span) and span.split("/")[0] in folders and "/" in span:
            assert (skill / span).exists(), f"{span}: no such document"


def test_every_agent_facing_document_is_short():
    """Read under pressure: no document of the skill is over 8,000 characters, about 2,000 tokens."""
    long = {path.name: path.stat().st_size for path in (ROOT / "skills").rglob("*.md") if path.stat().st_size > 8000}
    assert not long
