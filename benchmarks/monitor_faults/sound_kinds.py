"""Sound runs of the kinds that people train, tiny: names, bases and changes, as `healthy.VARIANTS` has them."""

from __future__ import annotations

from typing import Any

Variant = tuple[str, dict[str, Any]]
SGD = {"name": "sgd", "momentum": 0.9}
NO_SCORE: dict[str, Any] = {"metrics": [], "selection": None}
TASK: dict[str, Any] = {"model": None, "data": None, **NO_SCORE}
R2: dict[str, Any] = {"metrics": ["r2"], "selection": None}


def _text(kind: str, **changes: Any) -> Variant:
    return "text", {
        "model": {"use": "kinds.py:Library", "args": {"kind": kind}}, "optimizer.learning_rate": 1e-3,
        "schedule": {"name": "linear", "warmup_fraction": 0.1}, "training.clip_norm": 1.0, **changes,
    }  # fmt: skip


def _language(model: dict[str, Any], **changes: Any) -> Variant:
    return "gpt", {"model": model, **changes}


def _library(kind: str, **args: Any) -> dict[str, Any]:
    return {"use": "kinds.py:Library", "args": {"kind": kind, **args}}


def _own(name: str, **args: Any) -> dict[str, Any]:
    return {"use": f"kinds.py:{name}", "args": args}


def _data(name: str, **args: Any) -> dict[str, Any]:
    return {"use": f"kinds_data.py:{name}", "args": args}


def _task(name: str, rate: float = 2e-3, epochs: int = 15, args: dict[str, Any] | None = None) -> Variant:
    changes = {"optimizer.learning_rate": rate, "training.epochs": epochs}
    return "table", {**TASK, "task": {"use": f"steps.py:{name}", "args": args or {}}, **changes}


def _series(start: str, rate: float, **changes: Any) -> Variant:
    model = _own("DLinear", start=start)
    return "numbers", {"model": model, "data": _data("series"), "optimizer.learning_rate": rate, **changes}


def _pictures(model: dict[str, Any], rate: float, epochs: int = 8, **changes: Any) -> Variant:
    return "vision", {"model": model, "optimizer.learning_rate": rate, "training.epochs": epochs, **changes}


def _masks(loss: Any, rate: float = 2e-3, **args: Any) -> Variant:
    return "vision", {
        "model": _own("Masks", **args), "data": _data("masks"), "loss": loss,
        "metrics": ["mean_iou"], "selection": {"metric": "mean_iou", "direction": "maximize"},
        "optimizer.learning_rate": rate, "loader.batch_size": 16,
    }  # fmt: skip


def _outcome(**changes: Any) -> Variant:
    data = _data("outcomes", **changes.pop("args", {}))
    return "table", {
        "data": data, "model.args.inputs": 8, "metrics": ["accuracy", "auc"],
        "selection": {"metric": "auc", "direction": "maximize"}, "training.epochs": 8,
        "model.args.width": 16, **changes,
    }  # fmt: skip


KINDS: dict[str, Variant] = {
    "bert": _text("Bert"),
    "bert, four layers, high": _text("Bert", **{"model.args.depth": 4, "optimizer.learning_rate": 3e-3}),
    "bert in bf16": _text("Bert", **{"training.precision": "bf16"}),
    "roberta": _text("Roberta"),
    "distilbert": _text("DistilBert"),
    "electra, one epoch": _text("Electra", **{"training.epochs": 1, "loader.batch_size": 16}),
    "t5": _language(_own("T5"), data=_data("copies"), **{"optimizer.learning_rate": 5e-3, "training.epochs": 12}),
    "llama": _language(_library("Llama", words=64, depth=3), **{"training.clip_norm": 1.0}),
    "llama, decayed": _language(_library("Llama", words=64), **{"optimizer.weight_decay": 0.1}),
    "gpt-2": _language(_library("GPT2", words=64, depth=3)),
    "gpt-2, eight layers": _language(_library("GPT2", words=64, depth=8), **{"training.epochs": 5}),
    "gpt of ours": _language(_own("Gpt")),
    "lora": _language(_own("TunedGpt"), adapter={"rank": 4, "targets": ["*.q_proj", "*.v_proj"]},
                      **{"optimizer.learning_rate": 5e-3, "training.epochs": 6}),
    "lora, low": _language(_own("TunedGpt"), adapter={"rank": 8, "targets": ["*.q_proj", "*.v_proj"]},
                           **{"optimizer.learning_rate": 2e-4, "training.epochs": 4}),
    "lora of one's own": _language(_own("TunedGpt", own=True), **{"optimizer.learning_rate": 5e-3}),
    "full tuning of a gpt": _language(_own("TunedGpt"), **{"optimizer.learning_rate": 5e-4, "training.epochs": 4}),
    "vit": _pictures(_library("ViT", outputs=10), 2e-3, 10, **{"schedule.warmup_fraction": 0.1}),
    "vit, large batch": _pictures(_library("ViT", outputs=10), 3e-3, 20, **{"loader.batch_size": 512}),
    "resnet": _pictures({"use": "resnet", "args": {"width": 8}}, 2e-3, 5),
    "resnet, sgd": _pictures({"use": "resnet", "args": {"width": 8}}, 0.05, 6,
        optimizer=SGD | {"learning_rate": 0.05, "weight_decay": 5e-4}, schedule={"name": "cosine"},
    ),
    "biases before batch norms": _pictures(_own("Normed"), 3e-3),
    "biases before batch norms, sgd": _pictures(_own("Normed"), 0.05, optimizer=SGD | {"learning_rate": 0.05}),
    "batch norms, large batch": _pictures(_own("Normed"), 5e-3, 60, **{"loader.batch_size": 512}),
    "unet": _masks("dice_cross_entropy"),
    "unet, overlap": _masks("dice"),
    "unet, group norms": _masks("dice_cross_entropy", 3e-3, norm="group"),
    "lstm": ("sequence", {"model": _own("Remembering"), "optimizer.learning_rate": 5e-3, "training.epochs": 15}),
    "gru": ("sequence", {"model": _own("Remembering", kind="GRU"), "optimizer.learning_rate": 5e-3}),
    "lstm, language": _language(
        _own("Remembering", words=64, outputs=64, depth=2), **{"optimizer.learning_rate": 1e-2}
    ),
    "dlinear from zero": _series("zero", 1e-3),
    "dlinear from zero, high": _series("zero", 1e-2),
    "dlinear from zero, sgd": _series("zero", 0.01, optimizer=SGD | {"learning_rate": 0.01}),
    "dlinear from a mean": _series("mean", 1e-3),
    "dlinear, usual start": _series("usual", 5e-3),
    "zero gates": _pictures(_own("Gated"), 3e-3),
    "zero gates by channel": _pictures(_own("Gated", shape="channel"), 3e-3),
    "scaled layers, 1e-6": _pictures(_own("Gated", shape="channel", gate=1e-6, depth=6), 3e-3),
    "zero last layers": _pictures(_own("Gated", shape="last"), 3e-3),
    "zero head": _pictures(_own("Gated", shape="scalar", zero_head=True), 1e-3),
    "mixture of experts": _pictures(_own("Mixture"), 3e-3),
    "ft-transformer": ("table", {
        "model": {"use": "ft_transformer", "args": {"layers": 2, "width": 16, "heads": 2}},
        "optimizer.learning_rate": 2e-3,
    }),
    "ft-transformer, prices": ("numbers", {
        "model": {"use": "ft_transformer", "args": {"layers": 2, "width": 16, "heads": 2}},
        "data": {"use": "samples.py:prices", "args": {"scale": 90.0, "offset": 250.0}}, "target_scaling": "standardize",
    }),
    "tabular resnet": ("table", {"model": {"use": "tabular_resnet", "args": {"width": 32}}, "training.epochs": 8}),
    "graphs": ("table", {"model": _own("Graphs"), "data": _data("graphs"), "optimizer.learning_rate": 5e-3}),
    "sounds": ("vision", {
        "model": {"use": "networks.py:Plain", "args": {"inputs": 64, "outputs": 4, "norm": True}},
        "data": _data("sound", rows=900), "training.epochs": 8,
    }),
    "vae": _task("vae", 1e-3),
    "vae, mean": _task("vae", 2e-3, args={"mean": True}),
    "autoencoder": _task("autoencoder"),
    "diffusion": _task("diffusion"),
    "distillation": _task("taught"),
    "several aims": _task("several", 3e-3),
    "triplets": _task("triplets"),
    "ranked by factors": _task("factors", 5e-3),
    "factors of ratings": ("numbers", {
        "model": _own("Factors"), "data": _data("ratings"), "optimizer.learning_rate": 1e-2, "training.epochs": 15,
    }),
    "actor and critic": ("gan", {"task": {"use": "steps.py:actor_critic", "args": {}}, "training.epochs": 20}),
    "hinge gan": ("gan", {"task": {"use": "steps.py:hinge_gan", "args": {"generator_rate": 5e-4}}}),
    "tags": ("table", {
        "data": _data("tags"), "model.args.outputs": 5, "loss": "bce_with_logits", **NO_SCORE,
    }),
    "noisy outcome": _outcome(),
    "noisy outcome, hardly known": _outcome(args={"strength": 0.5, "rows": 2000}),
    "noisy outcome, one in twenty": _outcome(args={"share": 0.05, "rows": 3000}, **{"training.epochs": 6}),
    "noisy outcome, long": _outcome(**{"training.epochs": 25, "optimizer.learning_rate": 1e-3}),
    "counts": ("numbers", {"data": _data("counts"), "loss": {"use": "kinds_losses.py:poisson"}, **NO_SCORE}),
    "spread of a number": ("numbers", {
        "model": _own("Spread"), "loss": {"use": "kinds_losses.py:gaussian"}, "training.epochs": 20, **NO_SCORE,
    }),
    "a quantile": ("numbers", {"loss": {"use": "kinds_losses.py:quantile"}, "metrics": ["mae"]}),
    "numbers in thousandths": ("numbers", {"data": _data("scaled_prices"), "target_scaling": "standardize"}),
    "numbers in hundreds, scaled by hand": ("numbers", {
        "data.args.scale": 30.0, "optimizer.learning_rate": 2e-2, "training.epochs": 30,
    }),
    "whole data in one batch": ("table", {
        "loader.batch_size": 600, "training.epochs": 60, "optimizer.learning_rate": 2e-2, "model.args.width": 8,
    }),
    "large batch": ("layers", {"loader.batch_size": 512, "training.epochs": 30, "optimizer.learning_rate": 5e-3}),
    "one epoch": ("text", {"training.epochs": 1, "loader.batch_size": 8}),
    "two epochs": ("layers", {"training.epochs": 2, "loader.batch_size": 16}),
    "forty rows": ("table", {
        "data": {"use": "samples.py:blobs", "args": {"rows": 40}}, "model.args.inputs": 8, "model.args.outputs": 3,
        "loader.batch_size": 8, "model.args.width": 8,
    }),
    "bf16": ("layers", {"training.precision": "bf16"}),
    "bf16, pictures": ("vision", {"training.precision": "bf16"}),
    "weights averaged": ("layers", {"weight_averaging": {"name": "ema", "decay": 0.95}}),
    "adagrad": ("text", {"optimizer": {"name": "adagrad", "learning_rate": 0.05}}),
    "a low rate for a good start": ("table", {
        "model": {"use": "networks.py:Tuned"}, "data": {"use": "samples.py:blobs", "args": {}}, "metrics": ["accuracy"],
        "optimizer.learning_rate": 2e-5, "training.epochs": 3,
    }),
    "stopped by patience": ("layers", {
        "early_stopping.enabled": True, "early_stopping.patience_epochs": 10, "training.epochs": 80,
        "optimizer.learning_rate": 3e-3, "optimizer.weight_decay": 0.05,
    }),
    "trained past the best": ("table", {
        "data": {"use": "samples.py:blobs", "args": {}}, "model.args.inputs": 8, "model.args.outputs": 3,
        "training.epochs": 30,
    }),
}  # fmt: skip
