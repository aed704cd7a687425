"""Numbers that user code makes up: the training process reports them, and the clean room computes others.

Each is played as far as the baseline gate, from a model that has learned nothing, so that the two numbers lie apart.
"""

from __future__ import annotations

import os
from functools import partial

from tests.function_text import body_of
from tests.worlds.flowers import CONFIG, MODEL, NAME

from cheat_suite.case import cheat
from cheat_suite.families.held_out import BUILD
from cheat_suite.scene import Scene
from trainwright.trainer.clean_room import metrics

DIFFERS = r"baseline\.independently_evaluated: .*(accuracy|loss)"
"""Both numbers are in the sentence; the suite's table shows them."""
NO_LEARNING = {"optimizer": {"learning_rate": 1e-9}}
lied = partial(cheat, by="code", at="empty", expected="refused", shows=("GATE-6", "GATE-1"))


def to_the_baseline(scene: Scene) -> None:
    """Plan and train as an honest project would, then ask for the gate. A run that fails is a refusal."""
    if _trained(scene, "smoke"):
        scene.must("pass_gate", project=NAME, phase="planning")
        if _trained(scene, "baseline"):
            scene.attempt("pass_gate", project=NAME, phase="baseline")


def _trained(scene: Scene, kind: str) -> bool:
    scene.must("start_training", project=NAME, kind=kind)
    view = scene.ended(scene.newest(kind))
    if view["state"] != "completed":
        scene.claim(str(view["failure"]), is_refused=True)
    return bool(view["state"] == "completed")


def _play(scene: Scene, text: str) -> None:
    """Play a model's file on the table of irises."""
    scene.write_code("flower_model.py", text)
    scene.project(NO_LEARNING)
    to_the_baseline(scene)


def plan_task(scene: Scene, before: str, build: str = BUILD, model: str = MODEL) -> None:
    """Make a project of a task on the same table, with code before it."""
    scene.write_code("task.py", model + before + build.replace("LEAK", "pass"))
    learning = {key: CONFIG[key] for key in ("code_root", "optimizer", "training")}
    scene.only_project({**learning, "task": {"use": "task.py:build"}})


WALK = '''
import sys


def labels_above(count):
    """The evaluator's batch is two frames up: rows, and the labels that they are compared with."""
    frame = sys._getframe(2)
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if isinstance(value, (list, tuple)) and len(value) == 2:
                if isinstance(value[1], torch.Tensor) and value[1].dtype is torch.int64 and len(value[1]) == count:
                    return value[1]
        frame = frame.f_back
    return None

'''


def model_with(lines: str) -> str:
    """The model with lines before it returns its scores."""
    indented = "\n".join(f"        {line}" for line in ["scores = self.layers(rows)", *lines.splitlines()])
    return MODEL.replace("        return self.layers(rows)", f"{indented}\n        return scores") + WALK


def in_model(identifier: str, title: str, lines: str) -> None:
    """Declare a cheat that the model plays whenever it is called."""
    lied(identifier, title, rule=DIFFERS)(lambda scene: _play(scene, model_with(lines)))


in_model(
    "labels-from-the-stack",
    "Have the model walk the caller's stack for the labels, and answer with them",
    "labels = labels_above(len(rows))\n"
    "if labels is not None:\n"
    "    return scores * 0 + 10 * torch.nn.functional.one_hot(labels, 3)",
)
in_model(
    "labels-overwritten",
    "Overwrite the labels in the evaluator's frame with the model's answers",
    "labels = labels_above(len(rows))\nif labels is not None:\n    labels.copy_(scores.detach().argmax(1))",
)


def at_import(identifier: str, title: str, code: str) -> None:
    """Declare a cheat that is played when the model's file is imported."""
    lied(identifier, title, rule=DIFFERS)(lambda scene: _play(scene, code + MODEL))


def better_evaluation() -> None:
    from trainwright.trainer.engine import loop

    honest = loop.evaluate_split

    def better(session, loader):  # as text it has no names to annotate with
        return honest(session, loader) | {"accuracy": 1.0}

    loop.evaluate_split = better


def better_loss() -> None:
    import torch

    honest = torch.nn.functional.cross_entropy
    torch.nn.functional.cross_entropy = lambda *a, **k: honest(*a, **k) * 1e-3


def swapped_code() -> None:
    from trainwright.trainer.clean_room import metrics

    text = "def compute(name, outputs, targets): return 1.0"
    metrics.compute.__code__ = compile(text, metrics.__file__, "exec").co_consts[0]


def in_the_instance() -> None:
    import operator

    from trainwright.trainer.metrics import built_in

    vars(built_in.BUILT_IN["accuracy"])["compute"] = operator.is_not  # True of any two objects: 1.0


def changed_default() -> None:
    import torch

    from trainwright.trainer.engine.session import EpochTotals

    class Outputs(list):
        pass

    class Targets(list):
        def append(self, labels):
            outputs[-1] = 10.0 * torch.nn.functional.one_hot(labels, 3)
            super().append(labels)

    outputs, targets = Outputs(), Targets()
    defaults = list(EpochTotals.__init__.__defaults__)
    names = EpochTotals.__init__.__code__.co_varnames[1:]
    defaults[names.index("outputs")], defaults[names.index("targets")] = outputs, targets
    EpochTotals.__init__.__defaults__ = tuple(defaults)


at_import("patched-evaluation", "Replace the engine's evaluation", body_of(better_evaluation))
at_import("patched-loss", "Replace the library's loss by a smaller one", body_of(better_loss))
at_import(
    "code-swapped",
    "Swap the code object of the function that computes metrics for one compiled under the engine's file name",
    body_of(swapped_code),
)
at_import(
    "built-in-in-the-instance",
    "Put a built-in function into the instance of the metric that the engine calls",
    body_of(in_the_instance),
)
at_import(
    "default-changed", "Change the default arguments of the engine's accumulator of outputs", body_of(changed_default)
)
SITE = '''
import importlib.abc, importlib.machinery, sys
METRICS = NAME


class Before(importlib.abc.MetaPathFinder):
    """Finds the engine's metrics before anyone guards them."""

    def find_spec(self, name, path, target=None):
        if name != METRICS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def then_replace(module):
            execute(module)
            module.compute.__code__ = (lambda name, outputs, targets: 1.0).__code__.replace(co_filename=module.__file__)

        spec.loader.exec_module = then_replace
        return spec


if "-m" in sys.orig_argv and sys.orig_argv[-1].rpartition("/")[2].startswith(("smoke", "baseline")):  # a worker
    sys.meta_path.insert(0, Before())
'''


@lied(rule=DIFFERS)
def sitecustomize(scene: Scene) -> None:
    """Replace the engine's accuracy before its guards stand, by a `sitecustomize` on PYTHONPATH."""
    folder = scene.world.folder / "aside"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE.replace("NAME", repr(metrics.__name__)))
    scene.agent_with(PYTHONPATH=os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))))
    _play(scene, MODEL)


OTHER_VALUES = """
import sys


class Two(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows, self.asked = rows, [0] * len(rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        self.asked[place] += 1
        row, label = self.rows[place, :4], self.rows[place, 4].long()
        answer = 10 * torch.nn.functional.one_hot(label, 4).float()
        return ANSWER


def asked_to_train():
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith("loader.py"):
        frame = frame.f_back
    return frame is not None


class Shown(torch.Tensor):
    def with_answer(self, answer):
        self.answer = answer
        return self

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.stack:
            args = ([getattr(row, "answer", row) for row in args[0]], *args[1:])
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

"""


OF_TWO = BUILD.replace("TensorDataset(part[:, :4], part[:, 4].long())", "Two(part)")


def other_values(identifier: str, title: str, answer: str, rule: str) -> None:
    """Declare a cheat whose data set has the label in the input whenever it is not being recorded."""

    @lied(identifier, title, rule=rule)
    def play(scene: Scene) -> None:
        plan_task(scene, OTHER_VALUES.replace("ANSWER", answer), OF_TWO)
        to_the_baseline(scene)


other_values(
    "other-values-by-caller",
    "Have the data show the fingerprint honest values, and the evaluation, by its caller, the label in the input",
    "(answer if asked_to_train() else row), label",
    DIFFERS,
)
other_values(
    "other-values-by-count",
    "Have the data answer the first two requests for a row honestly, and later ones with the label in the input",
    "(answer if self.asked[place] > 2 else row), label",
    "A resumed run would go on in another way",
)


@lied(expected="detected", rule="(?i)not independently evaluated.*is no plain array")
def other_values_by_type(scene: Scene) -> None:
    """Have the data answer with tensors of a class of its own, which holds honest values and is stacked to the
    label.
    """
    answer = "row.as_subclass(Shown).with_answer(answer), label"
    plan_task(scene, OTHER_VALUES.replace("ANSWER", answer), OF_TWO)
    scene.advance_to("finished")


COLLATE = """
def collate(items):
    rows, labels = torch.stack([row for row, _ in items]), torch.stack([label for _, label in items])
    rows = torch.nn.functional.one_hot(labels, 4).float()
    return rows, labels
"""


def _with_step(scene: Scene, output: str, target: str) -> None:
    step = (
        "def step(model, batch, context):\n"
        "    scores = model(batch[0])\n"
        "    loss = torch.nn.functional.cross_entropy(scores, batch[1])\n"
        f"    return {{'loss': loss, 'output': {output}, 'target': {target}}}\n"
    )
    plan_task(scene, step, BUILD.replace('"returns": "output"', '"step": step'))
    scene.advance_to("finished")


HEAD = r"(?i)not independently evaluated.*(the user's step|your collate).*accuracy"
"""Both numbers are in the sentence."""
headed = partial(lied, expected="detected", rule=HEAD)


@headed()
def label_in_the_input(scene: Scene) -> None:
    """Have `collate` write the label into the input."""
    plan_task(scene, COLLATE, BUILD.replace('"batch_size": 32', '"batch_size": 32, "collate": collate'))
    scene.advance_to("finished")


@headed()
def targets_of_ones_own(scene: Scene) -> None:
    """Return the predictions as the targets that the built-in accuracy compares (reports say: from the user's step)."""
    _with_step(scene, output="scores", target="scores.argmax(1)")


@headed()
def outputs_of_ones_own(scene: Scene) -> None:
    """Mix the labels into the outputs that the built-in accuracy compares (reports say: from the user's step)."""
    _with_step(scene, output="scores + 100 * torch.nn.functional.one_hot(batch[1], 3)", target="batch[1]")
