"""A small configuration for each built-in part that works on the device: a new part finds a place here by itself.

What data it needs is read from its section. Only a part that nothing of the registries describes needs a line.
"""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.contracts.test_objectives import LEAST, MORE, TEACHER
from tests.trainer.models import tasks
from tests.trainer.models.tasks import BERT, CASES
from tests.trainer.models.test_adapters import FORMS

from trainwright.trainer.base.section import form_of
from trainwright.trainer.clean_room.metrics import OF_TEXTS
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.losses.built_in import LossSection
from trainwright.trainer.metrics import BUILT_IN as METRICS
from trainwright.trainer.metrics.built_in import MASKS as MASKED
from trainwright.trainer.models import MODELS
from trainwright.trainer.models.adapters import ADAPTERS
from trainwright.trainer.models.small import MLP
from trainwright.trainer.objectives.mixing_sections import MIXINGS
from trainwright.trainer.objectives.sections import OBJECTIVES
from trainwright.trainer.optimization.optimizers import OPTIMIZERS

Values = dict[str, Any]

DATA = """
import torch

def given(make):
    generator = torch.Generator().manual_seed(0)
    parts = {"train": 32, "validation": 16}
    return {name: torch.utils.data.TensorDataset(*make(rows, generator)) for name, rows in parts.items()}

def drawn(*shape):
    return lambda rows, generator: torch.randn(rows, *shape, generator=generator)

def of(target, *shape):
    def make(rows, generator):
        x = torch.randn(rows, *shape, generator=generator)
        return x, target(rows, generator)
    return lambda: given(make)

def numbers(rows, generator):
    return torch.randint(0, 3, (rows,), generator=generator)

classes, pictures, windows = of(numbers, 6), of(numbers, 3, 8, 8), of(numbers, 8, 2)
labels = of(lambda rows, generator: (torch.rand(rows, 3, generator=generator) > 0.5).float(), 6)
values = of(drawn(1), 6)
"""
MLP_ARGS, UNET, CNN = {"hidden": [8]}, {"use": "unet", "args": {"depth": 1, "width": 4}}, {"use": "cnn"}
MASKS = {"path": "photos", "masks": "masks", "classes": ["ground", "block"]}
ROWS: Values = {"model": {"use": "mlp", "args": MLP_ARGS}, "data": {"use": "drawn:classes"}}
PICTURES: Values = {"model": CNN, "data": {"use": "drawn:pictures"}}
WINDOWS: Values = {"data": {"use": "drawn:windows"}}
PIXELS: Values = {"model": UNET, "data": {"use": "images", "args": MASKS}}
TEXT: Values = {
    "model": {"use": "gpt", "args": {"layers": 1, "heads": 2, "width": 16, "dropout": 0.1}},
    "data": {"use": "text", "args": {"path": "words.txt", "block_size": 16}},
    "loss": "next_token",
}
LABELS: Values = {**ROWS, "data": {"use": "drawn:labels"}, "loss": "bce_with_logits"}
NUMBERS: Values = {**ROWS, "data": {"use": "drawn:values"}, "loss": "mse"}
RANKED: Values = {
    "model": {"use": "mlp", "args": MLP_ARGS},
    "data": {
        "use": "csv",
        "args": {"path": "ranked.csv", "target": "gain", "task": "regression"},
        "split": {"by": "group", "group": "query"},
    },
    "loss": "mse",
}
SENTENCES: Values = {
    "model": {"use": "transformers", "args": {"config": BERT}},
    "data": {
        "use": "jsonl",
        "args": {"path": "kinds.jsonl", "text": "text", "target": "kind", "tokenizer": "tokenizer", "max_length": 16},
    },
}
OF_TASK = {"classification": ROWS, "language_model": TEXT, "binary": LABELS, "regression": NUMBERS}
LIBRARIES = {"model timm": "timm", "optimizer adam8bit": "bitsandbytes"}
"""Parts that need a package which may be missing."""


def write_files(root: Path) -> None:
    """Write the data, the tokenizer and the teacher that the configurations name."""
    import json

    import torch
    from safetensors.torch import save_file
    from tests.contracts.test_objectives import ROWS as OF_OBJECTIVES

    tasks.root.__wrapped__(root)  # which writes the tokenizer
    (root / "drawn.py").write_text(DATA)
    (root / "rows.py").write_text(OF_OBJECTIVES)
    draw, words = random.Random(0), ("red", "blue", "cat", "dog", "runs", "sleeps")
    (root / "words.txt").write_text("\n".join(" ".join(draw.choices(words, k=12)) + "." for _ in range(80)))
    _write_masks(root)
    ranked = "".join(f"q{row // 4},{draw.gauss(0, 1)},{draw.gauss(0, 1)},{row % 3}\n" for row in range(80))
    (root / "ranked.csv").write_text("query,a,b,gain\n" + ranked)
    rows = [{"text": " ".join(draw.choices(words, k=5)), "kind": draw.choice("ab")} for _ in range(40)]
    (root / "kinds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    torch.manual_seed(3)
    save_file(MLP((4,), 2, hidden=(24,)).state_dict(), root / "teacher.safetensors")


def _write_masks(root: Path) -> None:
    """Write pictures with a class for each pixel, and pixels that do not count."""
    import numpy as np
    from PIL import Image

    drawn = np.random.default_rng(0)
    for number in range(32):
        mask = (drawn.random((8, 8)) < 0.5).astype(np.uint8)
        pixels = (mask[..., None] * 120 + drawn.integers(0, 60, (8, 8, 3))).astype(np.uint8)
        mask[0] = 255
        for name, array in (("photos", pixels), ("masks", mask)):
            (root / name).mkdir(exist_ok=True)
            Image.fromarray(array).save(root / name / f"{number}.png")


def every() -> dict[str, Values]:
    """Return the configurations by the part that each is for.

    Beside a configuration's keys: `case`, of tests/trainer/models/tasks.py, and `kind` of the run, else a trial.
    """
    return {
        **{f"model {name}": _of_model(name) for name in MODELS},
        **{f"task {name}": {"case": name} for name in CASES},
        **{f"loss {name}": values for section in LOSSES.values() for name, values in _of_loss(section).items()},
        **{f"metric {name}": _of_metric(name) for name in METRICS},
        **{f"optimizer {name}": _of_optimizer(name) for name in OPTIMIZERS if name != "own"},
        **{f"objective {form_of(one)}": _of_objective(form_of(one), LEAST[form_of(one)], {}) for one in OBJECTIVES},
        **{f"objective {name} {number}": _of_objective(name, {**LEAST[name], **changes}, around)
           for number, (name, changes, around) in enumerate(MORE)},
        **{f"mixing {form_of(one)}": {**PICTURES, "mixing": {"name": form_of(one)}} for one in MIXINGS},
        **{f"adapter {name}": {**SENTENCES, "adapter": form} for name, form in FORMS.items()},
        **{f"adapter {name}": {**SENTENCES, "adapter": {"name": name}} for name in ADAPTERS},
        **AROUND,
    }  # fmt: skip


AROUND: dict[str, Values] = {
    "run baseline": {**PICTURES, "kind": "baseline"},
    "run probe": {**PICTURES, "kind": "probe"},
    "objective contrastive on pictures": {
        **PICTURES,
        "objective": {"name": "contrastive", "outputs": 8, "augmentation": {"rotate_degrees": 10, "flip": 0.5}},
    },
    "objective adversarial on pictures": {**PICTURES, "objective": {"name": "adversarial", "epsilon": 0.1}},
    "objective adversarial on pixels": {**PIXELS, "objective": {"name": "adversarial", "epsilon": 0.1}},
    "objective distillation of features": {
        "model": {"use": "mlp", "args": {"hidden": [16]}},
        "data": {"use": "rows:kinds"},
        "objective": {
            "name": "distillation",
            "teacher": TEACHER,
            "features": [{"student": "layers.1", "teacher": "layers.1"}],
        },
        "mixing": {"name": "mixup"},
    },
    "progressive_resizing": {**PICTURES, "progressive_resizing": {"sizes": [6], "full_after_epochs": 1}},
    "target_scaling": {**NUMBERS, "target_scaling": "standardize"},
    "weight_averaging ema": {**PICTURES, "weight_averaging": {"name": "ema"}},
    "weight_averaging swa": {**PICTURES, "weight_averaging": {"name": "swa", "after_epochs": 0}},
    "precision bf16": {**PICTURES, "training": {"precision": "bf16"}},
    "precision fp16": {**PIXELS, "training": {"precision": "fp16"}},
    "precision tf32": {**ROWS, "training": {"precision": "tf32"}},
    "accumulation, clipping, channels_last": {
        **PIXELS, "training": {"accumulation_steps": 2, "clip_norm": 0.01, "channels_last": True},
    },
    "clipping by value": {**ROWS, "training": {"clip_value": 0.01}},
    "recomputation": {**TEXT, "training": {"gradient_checkpointing": {"modules": ["blocks.*"]}}},
    "freezing": {
        **PICTURES,
        "freezing": {"patterns": ["features.*"], "unfreeze": [{"after_epochs": 1, "patterns": ["features.*"]}]},
    },
}  # fmt: skip


def values_of(part: str, root: Path) -> Values:
    """Return a part's whole configuration: two epochs, so that averages begin and validation repeats."""
    given = {**every()[part]}
    given.pop("kind", None)
    case = given.pop("case", None)
    values = {**(CASES[case].values(root) if case else {}), **given}
    training = {**values.get("training", {}), "epochs": 2, "max_steps": 3 if case else 6}
    loader = {"batch_size": 8, **values.get("loader", {})}
    return {**values, "training": training, "loader": loader, "logging": {"tensorboard": False}, "checkpoints": {}}


def _of_model(name: str) -> Values:
    """Return the model's configuration: by the inputs that its section asks for."""
    args = {"unet": UNET["args"], "gpt": TEXT["model"]["args"], "resnet": {"depth": 8, "width": 4}}
    if name == "transformers":
        return SENTENCES
    if name == "timm":
        return {**PICTURES, "model": {"use": "timm", "args": {"model": "resnet18"}}}
    of = {"gpt": TEXT, "unet": PIXELS, "dlinear": WINDOWS}.get(name, PICTURES if MODELS[name].of_images else ROWS)
    return {**of, "model": {"use": name, "args": args.get(name, {})}}


def _of_loss(section: type[LossSection]) -> dict[str, Values]:
    """Return the loss on each form of target that it takes, plain and with all of its options."""
    name, is_measured = section.name, section.weighs not in section.model_fields and bool(section.weighs)
    if name == "masked_token":
        return {name: {"case": "masked_lm"}}
    forms = {"": OF_TASK[section.task]} if not section.by_sample else {}
    if section.task == "classification" and not is_measured:  # nothing counts pixels before training
        forms[" of pixels"] = PIXELS
    found = {}
    for form, values in forms.items():
        found[f"{name}{form}"] = {**values, "loss": name}
        args: Values = {"label_smoothing": 0.1} if "label_smoothing" in section.model_fields else {}
        if section.weighs in section.model_fields:
            args[section.weighs] = [1.0, 2.0] if form else "balanced"
        found[f"{name}{form}, with options"] = {**values, "loss": {"use": name, "args": args}}
    if "gamma" in section.model_fields:
        found[f"{name}, focal"] = {**OF_TASK[section.task], "loss": {"use": name, "args": {"gamma": 1.5}}}
    return found


def _of_metric(name: str) -> Values:
    """Return the metric beside a loss of its task, with all others that are measured there."""
    beside = _beside(name)
    return {**beside, "metrics": [other for other in METRICS if _beside(other) == beside]}


def _beside(metric: str) -> Values:
    of_cases = {"entity_f1": "token_classification", "exact_match": "question_answering"}
    of_cases |= {"span_f1": "question_answering", **dict.fromkeys(OF_TEXTS, "seq2seq")}
    if metric in of_cases:
        return {"case": of_cases[metric]}
    if METRICS[metric].of_groups:
        return RANKED
    if METRICS[metric].classes == 2 or METRICS[metric].beyond:
        return {**ROWS, "data": {"use": "digits" if METRICS[metric].beyond else "breast_cancer"}}
    return PIXELS if metric in {"mean_iou", *MASKED} else OF_TASK[METRICS[metric].tasks[0]]


def _of_optimizer(name: str) -> Values:
    schedule = {"schedule": {"name": "constant"}} if OPTIMIZERS[name].averages else {}
    return {**ROWS, "optimizer": {"name": name}, **schedule}


def _of_objective(name: str, options: Values, around: Values) -> Values:
    return {
        "model": {"use": "mlp", "args": {"hidden": [24]}},
        "data": {"use": "rows:kinds_and_sizes" if name == "multi_task" else "rows:kinds"},
        "objective": {"name": name, **options},
        **around,
    }


def missing_library(part: str) -> str | None:
    """Return the package that a part needs and that is not installed here."""
    needed = LIBRARIES.get(part)
    return needed if needed is not None and find_spec(needed) is None else None
