"""What the user's own code can try from inside the worker."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.function_text import body_of
from tests.worlds.flowers import CONFIG, GOAL, MODEL, NAME

from cheat_suite.case import cheat
from cheat_suite.families.unseen import UNFOUNDED
from cheat_suite.scene import Scene, wait_until
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Summary

RUN = """from pathlib import Path
from sys import orig_argv
RUN = Path(orig_argv[-1])
"""
"""How code finds the run that it is part of."""
refused = partial(cheat, by="code", at="created", expected="refused", shows=("GATE-1",))
UNSIGNED = "its worker has not signed that it was completed"


def _forward(body: str, before: str = "") -> str:
    """The model with a body of one's own in `forward`."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return before + MODEL.replace("        return self.layers(rows)", f"{lines}\n        return self.layers(rows)")


def _play(scene: Scene, text: str) -> None:
    scene.write_code("flower_model.py", text)
    scene.train()


def in_forward(identifier: str, title: str, rule: str, body: str, *, before: str = "", **more: Any) -> None:
    """Declare a cheat that the model plays whenever it is called."""
    refused(identifier, title, rule=rule, **more)(lambda scene: _play(scene, _forward(body, before)))


def at_import(identifier: str, title: str, rule: str, code: str, *, after: str = "") -> None:
    """Declare a cheat that is played when the model's file is imported."""
    refused(identifier, title, rule=rule)(lambda scene: _play(scene, code + MODEL + after))


at_import(
    "exit-at-import",
    "End the process with code 0 while being imported",
    "ended the process .exit code 0.",
    "import sys\n",
    after="\nsys.exit(0)\n",
)
in_forward(
    "exit-in-training",
    "End the process with code 0 in the middle of training",
    "ended the process .exit code 0.",
    "os._exit(0)",
    before="import os\n",
)
in_forward(
    "exit-past-python",
    "End the process with code 0 past Python's own exit",
    "ended .* without a last record|ended with code 0",
    "ctypes.CDLL(None)._exit(0)",
    before="import ctypes\n",
)
in_forward(
    "own-status",
    "Write a completed status and a summary, then end the process with code 0",
    UNSIGNED,
    "summary = {'best': {'metrics': {'accuracy': 1.0}}, 'steps': 500, 'stop_reason': 'completed'}\n"
    "(RUN / 'artifacts' / 'summary.json').write_text(json.dumps(summary))\n"
    "status = json.loads((RUN / 'status.json').read_text()) | {'state': 'completed'}\n"
    "(RUN / 'status.json').write_text(json.dumps(status))\n"
    "ctypes.CDLL(None)._exit(0)",
    before=f"import ctypes, json\n{RUN}",
    expected="detected",
)
in_forward(
    "own-status-by-the-engine",
    "Have the engine's own functions write a completed status",
    UNSIGNED,
    "directory = RunDirectory(RUN)\n"
    "directory.write_evidence(Summary(best={'metrics': {'accuracy': 1.0}}, steps=500))\n"
    "directory.write_status(directory.last_status().model_copy(update={'state': 'completed'}))\n"
    "ctypes.CDLL(None)._exit(0)",
    before=f"import ctypes\nfrom {RunDirectory.__module__} import RunDirectory\n"
    f"from {Summary.__module__} import Summary\n{RUN}",
    expected="detected",
)
in_forward(
    "own-events",
    "Append to the run's events",
    "events.jsonl was changed after it was sealed",
    "with open(RUN / 'events.jsonl', 'a') as file:\n    file.write('{\"time\": 1, \"kind\": \"ended\"}')",
    before=RUN,
    expected="detected",
)
in_forward(
    "own-metrics",
    "Write a better curve into the run's metrics",
    f"metrics.sqlite was changed after it was sealed|{UNFOUNDED}",
    "with suppress(sqlite3.Error), sqlite3.connect(RUN / 'metrics.sqlite') as metrics:\n"
    "    metrics.execute(\"UPDATE metrics SET value = 1.0 WHERE key = 'validation/accuracy'\")",
    before=f"import sqlite3\nfrom contextlib import suppress\n{RUN}",
    expected="detected",
)


in_forward(
    "own-checkpoint",
    "Change the weights of a checkpoint that the run has saved",
    "checkpoint step-[0-9]+.*model.safetensors",
    "for path in (RUN / 'checkpoints').glob('step-*/model.safetensors'):\n"
    "    path.write_bytes(path.read_bytes()[:-1] + b'x')",
    before=RUN,
    expected="detected",
)
in_forward(
    "own-ledger",
    "Add a passed gate to the workspace's ledger from the worker",
    "tried to write to workspace.sqlite in the workspace",
    "with sqlite3.connect(RUN.parents[3] / 'workspace.sqlite') as database:\n"
    "    database.execute(\"INSERT INTO ledger VALUES (99, '', 'flowers', 'gate', '{}', '', '')\")",
    before=f"import sqlite3\n{RUN}",
)
in_forward(
    "own-settings",
    "Raise the owner's limits from the worker",
    "tried to write to settings.yaml in the workspace",
    "(RUN.parents[3] / 'settings.yaml').write_text('limits: {trials: 100000}')",
    before=RUN,
)


def other_digests() -> None:
    from trainwright.trainer.jobs import train
    from trainwright.trainer.run.evidence import Code

    found = Code(files={}, **dict.fromkeys(("digest", "meaning", "engine_digest"), "blake3:0"))
    train.code_evidence = lambda root: found


at_import(
    "patched-evidence",
    "Replace the engine's digest of the code",
    r"flower_model\.py was imported after the run's code was recorded",
    body_of(other_digests),
)
in_forward(
    "determinism-off-in-training",
    "Switch deterministic algorithms off once the settings have been recorded",
    "settings were switched while the run worked: deterministic_algorithms is False, it was True",
    "torch.use_deterministic_algorithms(False)",
)
in_forward(
    "determinism-off-until-validation",
    "Switch deterministic algorithms off for the steps, and on again before an epoch is validated",
    "settings were switched while the run worked: deterministic_algorithms is False, it was True",
    "torch.use_deterministic_algorithms(not self.training)",
)


@refused(rule="was imported after the run's code was recorded")
def imported_late(scene: Scene) -> None:
    """Import the code that cheats only after the code was recorded."""
    scene.write_code("cheating.py", "VALUE = 1\n")
    body = "self.calls = getattr(self, 'calls', 0) + 1\nif self.calls > 8:\n    import cheating"
    _play(scene, _forward(body))


@refused(rule="holds compiled code; its source is not there")
def compiled_only(scene: Scene) -> None:
    """Bring the code that cheats along compiled, without its source."""
    import py_compile

    source = scene.write_code("cheating.py", "VALUE = 1\n")
    py_compile.compile(str(source), cfile=str(scene.world.code / "cheating.pyc"))
    source.unlink()
    _play(scene, f"import cheating\n{MODEL}")


@cheat(by="code", at="created", expected="detected", rule="(code: |code.*)flower_model.py", shows=("PHASE-8", "GATE-1"))
def rewrites_itself(scene: Scene) -> None:
    """Rewrite the source once it has been imported."""
    _play(scene, MODEL + "\nfrom pathlib import Path\nPath(__file__).write_text('# innocent\\n')\n")


@cheat(by="code", at="created", expected="detected", rule=f"summary.json was changed after it was sealed|{UNFOUNDED}")
def outlives_its_run(scene: Scene) -> None:
    """Start a process that outlives the run and edits the summary before anyone looks."""
    child = (
        "import json, pathlib, sys, time\n"
        "run = pathlib.Path(sys.argv[1])\n"
        "while json.loads((run / 'status.json').read_text())['state'] != 'completed': time.sleep(0.001)\n"
        "path = run / 'artifacts' / 'summary.json'\n"
        "path.write_text(json.dumps(json.loads(path.read_text()) | {'steps': 5000}))\n"
    )
    scene.write_code("child.py", child)
    start = (
        f"import subprocess, sys\n{RUN}\n"
        "subprocess.Popen([sys.executable, Path(__file__).with_name('child.py'), RUN], start_new_session=True)\n"
    )
    _play(scene, start + MODEL)
    # the server has looked by now: what it sealed is what the worker signed, whoever was first
    wait_until(lambda: "5000" in (scene.run("smoke") / "artifacts" / "summary.json").read_text())


OWN_METRIC = r"a metric of your own the name 'accuracy'; that is the name of the built-in metric"
measured = partial(refused, at="empty", rule=OWN_METRIC)


def _metric(scene: Scene, name: str, value: str) -> dict[str, Any]:
    scene.write_code("own.py", f"def {name}(outputs, targets):\n    return {value}\n")
    return CONFIG | {"metrics": [{"use": f"own.py:{name}"}]}


@measured(by="tools")
def metric_of_a_built_in_name(scene: Scene) -> None:
    """Give a metric that is always 1.0 the name of a built-in one."""
    config = _metric(scene, "accuracy", "1.0")
    scene.attempt("create_project", name=NAME, intent="x", goal=GOAL, config=config)


@measured()
def metric_that_returns_another(scene: Scene) -> None:
    """Have a metric of one's own return a built-in one's name and the value 1.0."""
    scene.only_project(_metric(scene, "score", "{'accuracy': 1.0}"))
    scene.train()
