"""The honest projects: those of the walks to which nothing happens, and further kinds of tasks, inputs and outputs."""

from __future__ import annotations

import parts
from projects import built_in, config, goal, goals, mlp, own
from walk import Walk

LEFT_OUT = frozenset({"unmet", "impossible", "accepted", "tiny", "own-optimizer"})
"""Walks that are about missed goals or what training learns by: their projects are others' again."""
WITHIN_REACH = {"loss": 1e9, "apart": 1e9, "mse": 1e9, "mae": 1e9, "bits_per_byte": 1e9, "r2": -1e9}
"""Targets that any run meets."""
A_LITTLE = 0.01
"""Of a share: a target of 0, which every model meets, is no goal."""


def honest() -> list[Walk]:
    """Return the projects; every goal is within reach, since this is about figures and not about ends."""
    found = [walk for walk in (*built_in(), *goals(), *own()) if walk.name not in LEFT_OUT] + further()
    for walk in found:
        if walk.name in {"own-step", "own-train-step"}:  # models without forward: no ONNX, as the export says
            walk.config["deployment"] = {"formats": ["safetensors"]}
        if walk.name == "contrastive":  # what features say of classes without what is fitted on other rows
            walk.goal["metric"] = "neighbour_accuracy"
        if walk.name == "carried-state":  # its step reports a loss alone, and its model answers the inputs
            walk.config["metrics"], walk.goal["metric"] = ["mse"], "mse"
        if walk.name == "gan":  # samples, drawn by the shipped generator from seeds of the server's
            walk.files["own.py"] += parts.DRAWN
            walk.config["metrics"] = [{"use": "own.py:apart", "episodes": 20}]
            walk.goal.update(metric="apart", direction="minimize")
        walk.goal["target"] = WITHIN_REACH.get(walk.goal["metric"], A_LITTLE)
    assert len({walk.name for walk in found}) == len(found), "a name twice"
    return found


def further() -> list[Walk]:
    """Return the projects that no walk has."""
    cnn = {"use": "cnn", "args": {"channels": [4, 8]}}
    easy = goal("accuracy", 0.0)
    return [
        Walk("several-inputs", easy, config("own.py:build"), {"own.py": parts.SEVERAL_INPUTS}),
        Walk("named-inputs", easy, config("own.py:build"), {"own.py": parts.NAMED_INPUTS}),
        Walk("ragged-text", easy, config("own.py:build"), {"own.py": parts.RAGGED}),
        Walk("own-collate", easy, config("own.py:build"), {"own.py": parts.OWN_COLLATE}),
        Walk("several-labels", goal("f1", 0.0),
             mlp({"use": "own.py:samples"}, loss="bce_with_logits", metrics=["f1", "accuracy"]),
             {"own.py": parts.LABELS}),
        Walk("yes-or-no", goal("auc", 0.0),
             mlp({"use": "own.py:samples"}, loss="bce_with_logits", metrics=["auc", "accuracy"]),
             {"own.py": parts.YES_OR_NO}),
        Walk("scaled-targets", goal("mae", 1e9),
             mlp({"use": "own.py:samples"}, loss="huber", metrics=["mae", "r2"], target_scaling="standardize"),
             {"own.py": parts.NUMBERS}),
        Walk("numbers", goal("loss", 1e9), mlp({"use": "own.py:samples"}, loss="mse", metrics=["mae"]),
             {"own.py": parts.NUMBERS}),
        Walk("segments", goal("mean_iou", 0.0), config("own.py:build"), {"own.py": parts.SEGMENTS}),
        Walk("loss-of-the-model", easy, config({"use": "own.py:Net"}, {"use": "iris"}),
             {"own.py": parts.LOSS_OF_THE_MODEL}),
        Walk("own-loss", easy, mlp("wine", loss={"use": "own.py:softened"}), {"own.py": parts.LOSS}),
        Walk("own-metric", easy, mlp("wine", metrics=["accuracy", {"use": "own.py:certainty"}]),
             {"own.py": parts.LOSS}),
        Walk("waves", goal("r2", -1.0), config("own.py:build"), {"own.py": parts.WAVES}),
        Walk("output-step", easy, config("own.py:build"), {"own.py": parts.OUTPUT_STEP}),
        Walk("bytes", easy, config("own.py:build"), {"own.py": parts.BYTES}),
        Walk("mixed", easy, config(cnn, {"use": "digits"}, mixing={"name": "mixup"})),
        Walk("averaged", easy, config(cnn, {"use": "digits"}, weight_averaging={"name": "ema", "decay": 0.9})),
        Walk("schedule-free", easy, config(
            {"use": "mlp", "args": {"hidden": [16]}}, {"use": "wine"},
            optimizer={"name": "schedule_free_adamw", "learning_rate": 0.01}, schedule={"name": "constant"})),
        Walk("weighted", goal("loss", 1e9),
             mlp("wine", loss={"use": "cross_entropy", "args": {"weights": "balanced"}})),
        Walk("resnet", easy, config({"use": "resnet", "args": {}}, {"use": "digits"}, epochs=1)),
    ]  # fmt: skip
