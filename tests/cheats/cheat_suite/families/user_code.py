"""What the user's own code can try from inside the worker."""

from __future__ import annotations

from functools import partial

from cheat_suite.case import cheat
from cheat_suite.families.held_out import BUILD
from cheat_suite.scene import Scene
from cheat_suite.world import CONFIG, MODEL

RUN = "from pathlib import Path\nRUN = Path(open('/proc/self/cmdline').read().split('\\0')[-2])\n"
"""How code finds the run that it is part of."""
tried = partial(cheat, by="code", at="created", expected="refused", shows=("GATE-1",))
slowly = partial(tried, slow=True)
"""Most of these are a run each: `make cheats` plays them all, the tests some of each kind."""
WRITES = r"tried to write to projects/flowers/runs/.*the records of runs are the engine's alone"


def _forward(body: str, before: str = "") -> str:
    """The model with a body of one's own in `forward`."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return before + MODEL.replace("        return self.layers(rows)", f"{lines}\n        return self.layers(rows)")


def _play(scene: Scene, text: str) -> None:
    scene.write_code("flower_model.py", text)
    scene.train()


@slowly("exit-at-import", "End the process with code 0 while being imported", rule="ended the process .exit code 0.")
def exit_at_import(scene: Scene) -> None:
    _play(scene, f"import sys\n{MODEL}\nsys.exit(0)\n")


@tried(
    "exit-in-training", "End the process with code 0 in the middle of training", rule="ended the process .exit code 0."
)
def exit_in_training(scene: Scene) -> None:
    _play(scene, _forward("os._exit(0)", "import os\n"))


@slowly(
    "exit-past-python",
    "End the process with code 0 past Python's own exit",
    rule="ended .* without a last record|ended with code 0",
)
def exit_past_python(scene: Scene) -> None:
    _play(scene, _forward("ctypes.CDLL(None)._exit(0)", "import ctypes\n"))


@tried("own-status", "Write a completed status and a summary, then end the process with code 0", rule=WRITES)
def own_status(scene: Scene) -> None:
    body = (
        "summary = {'best': {'metrics': {'accuracy': 1.0}}, 'steps': 500, 'stop_reason': 'completed'}\n"
        "(RUN / 'artifacts' / 'summary.json').write_text(json.dumps(summary))\n"
        "status = json.loads((RUN / 'status.json').read_text()) | {'state': 'completed'}\n"
        "(RUN / 'status.json').write_text(json.dumps(status))\n"
        "ctypes.CDLL(None)._exit(0)"
    )
    _play(scene, _forward(body, f"import ctypes, json\n{RUN}"))


@slowly("own-status-by-the-engine", "Have the engine's own functions write a completed status", rule=WRITES)
def own_status_by_the_engine(scene: Scene) -> None:
    body = (
        "directory = RunDirectory(RUN)\n"
        "directory.write_evidence('summary', {'best': {'metrics': {'accuracy': 1.0}}, 'steps': 500})\n"
        "directory.write_status(directory.last_status().model_copy(update={'state': 'completed'}))\n"
        "ctypes.CDLL(None)._exit(0)"
    )
    _play(scene, _forward(body, f"import ctypes\nfrom trainwright.trainer.run import RunDirectory\n{RUN}"))


@slowly("own-status-in-a-thread", "Write the status from a thread, passing over the error", rule=WRITES)
def own_status_in_a_thread(scene: Scene) -> None:
    code = (
        f"import threading\n{RUN}\n"
        "threading.Thread(target=(RUN / 'status.json').write_text, args=['{}'], daemon=True).start()\n"
        "import threading as again\nagain.excepthook = lambda *_: None\n"
    )
    _play(scene, code + MODEL)


@slowly("own-events", "Append to the run's events", rule=WRITES)
def own_events(scene: Scene) -> None:
    body = "with open(RUN / 'events.jsonl', 'a') as file:\n    file.write('{\"time\": 1, \"kind\": \"ended\"}')"
    _play(scene, _forward(body, RUN))


@slowly("own-metrics", "Write a better curve into the run's metrics", rule=WRITES)
def own_metrics(scene: Scene) -> None:
    body = (
        "with sqlite3.connect(RUN / 'metrics.sqlite') as metrics:\n"
        "    metrics.execute(\"UPDATE metrics SET value = 1.0 WHERE key = 'validation/accuracy'\")"
    )
    _play(scene, _forward(body, f"import sqlite3\n{RUN}"))


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


@tried(
    "own-ledger",
    "Add a passed gate to the workspace's ledger from the worker",
    rule="tried to write to workspace.sqlite in the workspace",
)
def own_ledger(scene: Scene) -> None:
    body = (
        "with sqlite3.connect(RUN.parents[3] / 'workspace.sqlite') as database:\n"
        "    database.execute(\"INSERT INTO ledger VALUES (99, '', 'flowers', 'gate', '{}', '', '')\")"
    )
    _play(scene, _forward(body, f"import sqlite3\n{RUN}"))


@slowly(
    "own-settings", "Raise the owner's limits from the worker", rule="tried to write to settings.yaml in the workspace"
)
def own_settings(scene: Scene) -> None:
    _play(scene, _forward("(RUN.parents[3] / 'settings.yaml').write_text('limits: {trials: 100000}')", RUN))


@tried("patched-evaluation", "Replace the engine's evaluation", rule="replaced what measures it: trainwright.trainer")
def patched_evaluation(scene: Scene) -> None:
    code = (
        "import trainwright.trainer.loop as loop\n"
        "honest = loop.evaluate_split\n"
        "def better(session, loader):\n    return honest(session, loader) | {'accuracy': 1.0}\n"
        "loop.evaluate_split = better\n"
    )
    _play(scene, code + MODEL)


@slowly(
    "patched-by-text",
    "Replace it by a function compiled from text, so that it comes from no file",
    rule="replaced what measures it: trainwright.trainer",
)
def patched_by_text(scene: Scene) -> None:
    code = (
        "import trainwright.trainer.loop as loop\n"
        "names = {'honest': loop.evaluate_split}\n"
        "exec(\"def evaluate_split(s, l): return honest(s, l) | {'accuracy': 1.0}\", names)\n"
        "loop.evaluate_split = names['evaluate_split']\n"
    )
    _play(scene, code + MODEL)


@tried(
    "patched-loss",
    "Replace the library's loss by a smaller one",
    rule="replaced what measures it: torch.nn.functional.cross_entropy",
)
def patched_loss(scene: Scene) -> None:
    code = (
        "import torch\nhonest = torch.nn.functional.cross_entropy\n"
        "torch.nn.functional.cross_entropy = lambda *a, **k: honest(*a, **k) * 1e-3\n"
    )
    _play(scene, code + MODEL)


@slowly("patched-metric", "Replace the library's metric", rule="replaced what measures it: torchmetrics")
def patched_metric(scene: Scene) -> None:
    code = (
        "import torch, torchmetrics\n"
        "torchmetrics.Metric.compute = lambda self: torch.tensor(1.0)\n"
        "torchmetrics.classification.MulticlassAccuracy.compute = lambda self: torch.tensor(1.0)\n"
    )
    _play(scene, code + MODEL)


@slowly(
    "patched-evidence", "Replace the engine's digest of the code", rule="replaced what measures it: trainwright.trainer"
)
def patched_evidence(scene: Scene) -> None:
    code = (
        "import trainwright.trainer.training as training\n"
        "training.code_evidence = lambda root: {'files': {}, 'digest': 'blake3:0', 'engine_digest': 'blake3:0'}\n"
    )
    _play(scene, code + MODEL)


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
    expected="missed",
    rule="summary.json was changed|outlives|started a process",
    slow=True,
)
def outlives_its_run(scene: Scene) -> None:
    child = (
        "import sys, time, pathlib\n"
        "run = pathlib.Path(sys.argv[1])\n"
        "while not (run / 'artifacts' / 'summary.json').exists(): time.sleep(0.001)\n"
        "path = run / 'artifacts' / 'summary.json'\n"
        "path.write_text(path.read_text().replace('\"steps\": 10', '\"steps\": 5000'))\n"
    )
    scene.write_code("child.py", child)
    start = (
        f"import subprocess, sys\n{RUN}\n"
        "subprocess.Popen([sys.executable, Path(__file__).with_name('child.py'), RUN], start_new_session=True)\n"
    )
    _play(scene, start + MODEL)


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
    "Return the predictions as the targets that the built-in accuracy compares (reports say: from the user's step)",
    by="code",
    at="empty",
    expected="missed",
    rule="targets|step",
    slow=True,
)
def targets_of_ones_own(scene: Scene) -> None:
    step = (
        "def step(model, batch, context):\n"
        "    scores = model(batch[0])\n"
        "    loss = torch.nn.functional.cross_entropy(scores, batch[1])\n"
        "    return {'loss': loss, 'output': scores, 'target': scores.argmax(1)}\n"
    )
    build = BUILD.replace("LEAK", "pass").replace('"returns": "output"', '"step": step')
    scene.write_code("own_step.py", MODEL + build + step)
    scene.only_project({"code_root": CONFIG["code_root"], "task": {"use": "own_step.py:build"}})
    scene.train()
