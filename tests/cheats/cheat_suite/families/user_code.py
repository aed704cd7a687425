"""What the user's own code can try from inside the worker."""

from __future__ import annotations

import re
from functools import partial

from tests.function_text import body_of
from tests.worlds.flowers import CONFIG, MODEL

from cheat_suite.case import cheat
from cheat_suite.families.held_out import BUILD
from cheat_suite.scene import Scene, wait_until
from trainwright import trainer
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Summary

RUN = """from pathlib import Path
RUN = Path(open('/proc/self/cmdline').read().rpartition('worker\\0')[2].split('\\0')[0])
"""
"""How code finds the run that it is part of."""
tried = partial(cheat, by="code", at="created", expected="refused", shows=("GATE-1",))
slowly = partial(tried, slow=True)
"""Most of these are a run each: `make cheats` plays them all, the tests some of each kind."""
WRITES = r"tried to write to projects/flowers/runs/.*the records of runs are the engine's alone"
REPLACED = "replaced functions that measure it: "
ENGINE = re.escape(trainer.__name__)


def _forward(body: str, before: str = "") -> str:
    """The model with a body of one's own in `forward`."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return before + MODEL.replace("        return self.layers(rows)", f"{lines}\n        return self.layers(rows)")


def _play(scene: Scene, text: str) -> None:
    scene.write_code("flower_model.py", text)
    scene.train()


def in_forward(identifier: str, title: str, rule: str, body: str, *, before: str = "", slow: bool = True) -> None:
    """Declare a cheat that the model plays whenever it is called."""
    tried(identifier, title, rule=rule, slow=slow)(lambda scene: _play(scene, _forward(body, before)))


def at_import(identifier: str, title: str, rule: str, code: str, *, after: str = "", slow: bool = True) -> None:
    """Declare a cheat that is played when the model's file is imported."""
    tried(identifier, title, rule=rule, slow=slow)(lambda scene: _play(scene, code + MODEL + after))


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
    slow=False,
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
    WRITES,
    "summary = {'best': {'metrics': {'accuracy': 1.0}}, 'steps': 500, 'stop_reason': 'completed'}\n"
    "(RUN / 'artifacts' / 'summary.json').write_text(json.dumps(summary))\n"
    "status = json.loads((RUN / 'status.json').read_text()) | {'state': 'completed'}\n"
    "(RUN / 'status.json').write_text(json.dumps(status))\n"
    "ctypes.CDLL(None)._exit(0)",
    before=f"import ctypes, json\n{RUN}",
    slow=False,
)
in_forward(
    "own-status-by-the-engine",
    "Have the engine's own functions write a completed status",
    WRITES,
    "directory = RunDirectory(RUN)\n"
    "directory.write_evidence(Summary(best={'metrics': {'accuracy': 1.0}}, steps=500))\n"
    "directory.write_status(directory.last_status().model_copy(update={'state': 'completed'}))\n"
    "ctypes.CDLL(None)._exit(0)",
    before=f"import ctypes\nfrom {RunDirectory.__module__} import RunDirectory\n"
    f"from {Summary.__module__} import Summary\n{RUN}",
)
at_import(
    "own-status-in-a-thread",
    "Write the status from a thread, passing over the error",
    WRITES,
    f"import threading\n{RUN}\n"
    "threading.Thread(target=(RUN / 'status.json').write_text, args=['{}'], daemon=True).start()\n"
    "import threading as again\nagain.excepthook = lambda *_: None\n",
)
in_forward(
    "own-events",
    "Append to the run's events",
    WRITES,
    "with open(RUN / 'events.jsonl', 'a') as file:\n    file.write('{\"time\": 1, \"kind\": \"ended\"}')",
    before=RUN,
)
in_forward(
    "own-metrics",
    "Write a better curve into the run's metrics",
    WRITES,
    "with sqlite3.connect(RUN / 'metrics.sqlite') as metrics:\n"
    "    metrics.execute(\"UPDATE metrics SET value = 1.0 WHERE key = 'validation/accuracy'\")",
    before=f"import sqlite3\n{RUN}",
)


@slowly("own-checkpoint", "Replace a checkpoint by one brought along, and pass over the error", rule=WRITES)
def own_checkpoint(scene: Scene) -> None:
    (scene.world.code / "better").mkdir()
    body = (
        "try:\n"
        "    shutil.copytree(Path(__file__).parent / 'better', RUN / 'checkpoints' / 'step-00000999')\n"
        "except Exception:\n"
        "    pass"
    )
    _play(scene, _forward(body, f"import shutil\n{RUN}"))


in_forward(
    "own-ledger",
    "Add a passed gate to the workspace's ledger from the worker",
    "tried to write to workspace.sqlite in the workspace",
    "with sqlite3.connect(RUN.parents[3] / 'workspace.sqlite') as database:\n"
    "    database.execute(\"INSERT INTO ledger VALUES (99, '', 'flowers', 'gate', '{}', '', '')\")",
    before=f"import sqlite3\n{RUN}",
    slow=False,
)
in_forward(
    "own-settings",
    "Raise the owner's limits from the worker",
    "tried to write to settings.yaml in the workspace",
    "(RUN.parents[3] / 'settings.yaml').write_text('limits: {trials: 100000}')",
    before=RUN,
)


def better_evaluation() -> None:
    from trainwright.trainer.engine import loop

    honest = loop.evaluate_split

    def better(session, loader):  # as text it has no names to annotate with
        return honest(session, loader) | {"accuracy": 1.0}

    loop.evaluate_split = better


def better_evaluation_by_text() -> None:
    from trainwright.trainer.engine import loop

    names = {"honest": loop.evaluate_split}
    exec("def evaluate_split(s, l): return honest(s, l) | {'accuracy': 1.0}", names)  # noqa: S102 - that is the cheat
    loop.evaluate_split = names["evaluate_split"]


def better_metric() -> None:
    from trainwright.trainer.clean_room import metrics

    metrics.predicted_classes = lambda outputs, targets: targets


def better_table() -> None:
    import dataclasses

    from trainwright.trainer.metrics import built_in

    built_in.BUILT_IN["accuracy"] = dataclasses.replace(built_in.BUILT_IN["accuracy"], compute=lambda *_: 1.0)


def other_digests() -> None:
    from trainwright.trainer.jobs import train
    from trainwright.trainer.run.evidence import Code

    found = Code(files={}, **dict.fromkeys(("digest", "meaning", "engine_digest"), "blake3:0"))
    train.code_evidence = lambda root: found


at_import(
    "patched-evaluation",
    "Replace the engine's evaluation",
    REPLACED + ENGINE,
    body_of(better_evaluation),
    slow=False,
)
at_import(
    "patched-by-text",
    "Replace it by a function compiled from text, so that it comes from no file",
    REPLACED + ENGINE,
    body_of(better_evaluation_by_text),
)
at_import(
    "patched-loss",
    "Replace the library's loss by a smaller one",
    f"{REPLACED}torch.nn.functional.cross_entropy",
    "import torch\nhonest = torch.nn.functional.cross_entropy\n"
    "torch.nn.functional.cross_entropy = lambda *a, **k: honest(*a, **k) * 1e-3\n",
    slow=False,
)
at_import(
    "patched-metric",
    "Replace a function that computes a metric",
    rf"{REPLACED}{ENGINE}\.[a-z_.]*predicted_classes",
    body_of(better_metric),
)
at_import(
    "patched-table",
    "Put another metric into the engine's table of them",
    f"{REPLACED}{ENGINE}.*BUILT_IN.*accuracy.compute",
    body_of(better_table),
)
at_import(
    "patched-evidence",
    "Replace the engine's digest of the code",
    REPLACED + ENGINE,
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


@slowly(
    "imported-late",
    "Import the code that cheats only after the code was recorded",
    rule="was imported after the run's code was recorded",
)
def imported_late(scene: Scene) -> None:
    scene.write_code("cheating.py", "VALUE = 1\n")
    body = "self.calls = getattr(self, 'calls', 0) + 1\nif self.calls > 8:\n    import cheating"
    _play(scene, _forward(body))


@slowly(
    "compiled-only",
    "Bring the code that cheats along compiled, without its source",
    rule="holds compiled code; its source is not there",
)
def compiled_only(scene: Scene) -> None:
    import py_compile

    source = scene.write_code("cheating.py", "VALUE = 1\n")
    py_compile.compile(str(source), cfile=str(scene.world.code / "cheating.pyc"))
    source.unlink()
    _play(scene, f"import cheating\n{MODEL}")


@cheat(
    "rewrites-itself",
    "Rewrite the source once it has been imported",
    by="code",
    at="created",
    expected="detected",
    rule="(code: |code.*)flower_model.py",
    shows=("PHASE-8", "GATE-1"),
)
def rewrites_itself(scene: Scene) -> None:
    _play(scene, MODEL + "\nfrom pathlib import Path\nPath(__file__).write_text('# innocent\\n')\n")


@cheat(
    "outlives-its-run",
    "Start a process that outlives the run and edits the summary before anyone looks",
    by="code",
    at="created",
    expected="detected",
    rule="summary.json was changed after it was sealed",
    slow=True,
)
def outlives_its_run(scene: Scene) -> None:
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
measured = partial(slowly, at="empty", rule=OWN_METRIC)


def _measure(scene: Scene, name: str, value: str) -> None:
    scene.write_code("own.py", f"def {name}(outputs, targets):\n    return {value}\n")
    scene.only_project(CONFIG | {"metrics": [{"use": f"own.py:{name}"}]})
    scene.train()


@measured("metric-of-a-built-in-name", "Give a metric that is always 1.0 the name of a built-in one")
def metric_of_a_built_in_name(scene: Scene) -> None:
    _measure(scene, "accuracy", "1.0")


@measured("metric-that-returns-another", "Have a metric of one's own return a built-in one's name and the value 1.0")
def metric_that_returns_another(scene: Scene) -> None:
    _measure(scene, "score", "{'accuracy': 1.0}")


@cheat(
    "targets-of-ones-own",
    "Return the predictions as the targets that the built-in accuracy compares",
    by="code",
    at="empty",
    expected="refused",
    rule="targets that `step` returns change with the model's weights",
    slow=True,
)
def targets_of_ones_own(scene: Scene) -> None:
    _judge(scene, output="scores", target="scores.argmax(1)")


@cheat(
    "outputs-of-ones-own",
    "Mix the labels into the outputs that the built-in accuracy compares (reports say: from the user's step)",
    by="code",
    at="empty",
    expected="missed",
    rule="outputs|step",
    slow=True,
)
def outputs_of_ones_own(scene: Scene) -> None:
    _judge(scene, output="scores + 100 * torch.nn.functional.one_hot(batch[1], 3)", target="batch[1]")


def _judge(scene: Scene, output: str, target: str) -> None:
    step = (
        "def step(model, batch, context):\n"
        "    scores = model(batch[0])\n"
        "    loss = torch.nn.functional.cross_entropy(scores, batch[1])\n"
        f"    return {{'loss': loss, 'output': {output}, 'target': {target}}}\n"
    )
    build = BUILD.replace("LEAK", "pass").replace('"returns": "output"', '"step": step')
    scene.write_code("own_step.py", MODEL + build + step)
    scene.only_project({"code_root": CONFIG["code_root"], "task": {"use": "own_step.py:build"}})
    scene.train()
