"""The walks: honest projects of all kinds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import churn
import happenings as happen
import own_code as code
from agent import Call
from walk import Walk, Wish

ROOT = Path(__file__).parents[2]
RESUME = ROOT / "benchmarks" / "resume"
ANY_END = ("released", "accepted", "concluded")
FAST: dict[str, Any] = {"logging": {"tensorboard": False}}
SEARCH: dict[str, Any] = {
    "trials": 2,
    "method": "random",
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.003, "high": 0.05, "log": True}},
}


FOLDER = {"README.md": "the data of this project\n"}
"""Files of a project whose data is written by its `prepare`."""


def goal(metric: str, target: float) -> dict[str, Any]:
    """Return a goal; the direction follows from the metric."""
    lower = metric in {"loss", "mae", "mape", "rmse", "mse", "perplexity", "bits_per_byte"} or metric.endswith("_loss")
    return {"metric": metric, "direction": "minimize" if lower else "maximize", "target": target}


def config(model: Any, data: Any = None, *, rate: float = 0.01, epochs: int = 4, **more: Any) -> dict[str, Any]:
    """Return a configuration over the baseline template."""
    parts = {"task": {"use": model}} if data is None else {"model": model, "data": data}
    return {**parts, "optimizer": {"learning_rate": rate}, "training": {"epochs": epochs}, **FAST, **more}


def mlp(data: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a configuration of a small network."""
    return config({"use": "mlp", "args": {"hidden": [16]}}, {"use": data} if isinstance(data, str) else data, **more)


def csv(path: str, use: str = "csv", **split: float) -> dict[str, Any]:
    """Return a data section of a table."""
    return {"use": use, "args": {"path": path, "target": "kind"}, "split": split or {"validation": 0.2, "test": 0.2}}


def built_in() -> list[Walk]:
    """Return walks over what comes with the program."""
    language = {"use": "text", "args": {"path": "words.txt", "tokenizer": "bytes", "block_size": 32}}
    gpt = {"use": "gpt", "args": {"layers": 1, "heads": 2, "width": 16}}
    return [
        Walk("iris", goal("accuracy", 0.6), mlp("iris", rate=0.03), is_quick=True),
        Walk("digits", goal("accuracy", 0.7), config({"use": "cnn", "args": {"channels": [4, 8]}}, {"use": "digits"})),
        Walk("wine", goal("f1", 0.6), mlp("wine", rate=0.03)),
        Walk("breast-cancer", goal("auc", 0.8), mlp("breast_cancer")),
        Walk(
            "diabetes", goal("r2", 0.2), mlp("diabetes", rate=0.05, epochs=20, loss="mse"), end=ANY_END
        ),
        Walk(
            "language", goal("bits_per_byte", 5.0), config(gpt, language, loss="next_token"),
            {"words.txt": code.sentences(60)},
        ),
        Walk("table", goal("accuracy", 0.6), mlp(csv("points.csv"), rate=0.03), {"points.csv": code.table(150)}),
        Walk("churn", goal("accuracy", 0.75), mlp({"use": "csv", "args": {"path": "churn.csv", "target": "churned"}},
             rate=0.01, epochs=6), {"churn.csv": churn.table()}),
        Walk("series", goal("mae", 1.2), config(
            "dlinear", {"use": "csv", "args": {"path": "load.csv", "target": "load",
             "series": {"window": 48, "horizon": 12}}, "split": {"by": "time", "time": "date"}}, loss="mse",
            target_scaling="standardize", metrics=["mae", "mape"]), {"load.csv": code.series(1200)}),
        Walk("lines", goal("accuracy", 0.6), mlp(csv("points.jsonl", use="jsonl"), rate=0.03),
             {"points.jsonl": code.lines(150)}),
        Walk("parquet", goal("accuracy", 0.6), mlp(csv("points.parquet", use="parquet"), rate=0.03), FOLDER,
             prepare=happen.table_written),
        Walk("arrays", goal("accuracy", 0.6), mlp({"use": "npz", "args": {"path": "points.npz"}}, rate=0.03), FOLDER,
             prepare=happen.arrays_written),
        Walk("pictures", goal("accuracy", 0.6), config(
            {"use": "cnn", "args": {"channels": [4, 8]}}, {"use": "images", "args": {"path": "photos"},
             "split": {"validation": 0.2, "test": 0.2}}), FOLDER, prepare=happen.pictures_written),
        Walk("many-pictures", goal("accuracy", 0.7), config(
            {"use": "cnn", "args": {"channels": [8, 16, 32]}}, {"use": "images", "args": {
                "path": "photos", "augment": {"flip": "horizontal", "shift": 0.1}}},
            rate=0.003, epochs=3, loader={"batch_size": 128, "num_workers": 1, "persistent_workers": True}),
            FOLDER, prepare=happen.many_pictures_written),
        Walk("contrastive", goal("linear_probe_accuracy", 0.3), config(
            {"use": "cnn", "args": {"channels": [4, 8]}}, {"use": "digits"}, epochs=2,
            loader={"batch_size": 128}, objective={"name": "contrastive", "outputs": 16})),
        Walk("adversarial", goal("robust_accuracy", 0.2), config(
            {"use": "mlp", "args": {"hidden": [32]}}, {"use": "digits"}, epochs=2, objective={
                "name": "adversarial", "epsilon": 0.05, "steps": 2, "evaluation_steps": 2, "clip_range": [0.0, 1.0]})),
    ]  # fmt: skip


def goals() -> list[Walk]:
    """Return walks whose goal is not met at once, or never."""
    hard = mlp(csv("points.csv"), rate=0.0005, epochs=3, search=SEARCH)
    return [
        Walk("unmet", goal("accuracy", 0.7), hard, {"points.csv": code.table(150)}, end=ANY_END),
        Walk("impossible", goal("accuracy", 0.999), hard, {"points.csv": code.table(150, noise=0.8)}, end=ANY_END),
        Walk("accepted", goal("accuracy", 0.999), hard, {"points.csv": code.table(150, noise=0.8)}, [happen.granted()],
             wishes=[Wish(happen.said("conclude"), Call("configure", {
                 "project": "accepted", "ask_owner": {"accept": 0.2}, "reason": "good enough for a first look"}))],
             end=("accepted",)),
        Walk("tiny", goal("accuracy", 0.5), mlp(csv("points.csv", validation=0.1, test=0.1), rate=0.03),
             {"points.csv": code.table(70)}, is_quick=True),
    ]  # fmt: skip


def own() -> list[Walk]:
    """Return walks of the user's own parts."""
    return [
        Walk("own-step", goal("loss", 1.2), config("own.py:build", epochs=4), {"own.py": code.STEP}, end=ANY_END),
        Walk("own-train-step", goal("loss", 0.2), config("own.py:build", epochs=3), {"own.py": code.TRAIN_STEP},
             end=ANY_END),
        Walk("gan", goal("loss", 2.0), config("own.py:build", epochs=6), {"own.py": code.GAN}, end=ANY_END),
        Walk("carried-state", goal("loss", 0.4), config("own.py:build", epochs=6), {"own.py": code.CARRIED},
             end=ANY_END),
        Walk("stream", goal("accuracy", 0.7), config("own.py:build", epochs=4), {"own.py": code.STREAM}),
        Walk("own-optimizer", goal("accuracy", 0.6), mlp(
            "iris", epochs=8, optimizer={"use": "own.py:make", "args": {"rate": 0.05}}),
            {"own.py": code.OPTIMIZER}),
        Walk("several-losses", goal("kind_accuracy", 0.5), mlp(
            {"use": "own.py:samples"},
            objective={"name": "multi_task", "tasks": {
                "kind": {"outputs": 3, "metrics": ["accuracy"]}, "size": {"loss": "mse", "outputs": 1}}}),
            {"own.py": code.SEVERAL}),
        Walk("lora", goal("accuracy", 0.55), config(
            {"use": "transformers", "args": {"config": {
                "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 32, "max_position_embeddings": 64, "vocab_size": 300}}},
            {"use": "csv", "args": {"path": "reviews.csv", "text": "review", "target": "rating", "max_length": 48},
             "split": {"validation": 0.2, "test": 0.2}},
            rate=0.02, epochs=6, metrics=["accuracy"], adapter={"rank": 4, "alpha": 8.0}, search=SEARCH),
            {"reviews.csv": code.reviews(160)}, end=ANY_END),
    ]  # fmt: skip


def of_libraries() -> list[Walk]:
    """Return walks of trainers of other libraries: the examples of the pages on them, and TRL's with an adapter."""
    own = RESUME / "own_trainers.py", RESUME / "project.py"
    return [
        Walk("own-trainer", goal("accuracy", 0.6), handed_over("train.py", learning_rate=0.01, epochs=6, workers=0),
             {"train.py": example("own_trainer.md")}),
        Walk("own-lightning", goal("accuracy", 0.6), handed_over("lit.py", learning_rate=0.02, epochs=6, workers=0),
             {"lit.py": example("own_lightning.md")}),
        Walk("own-trl", goal("loss", 4.0), handed_over("own_trainers.py", function="make_lora"),
             {path.name: path.read_text(encoding="utf-8") for path in own}),
    ]  # fmt: skip


def handed_over(script: str, function: str = "make_trainer", **args: Any) -> dict[str, Any]:
    """Return a configuration of a trainer that a function of the user's returns."""
    return {"trainer": {"use": f"{script}:{function}", "args": args}, **FAST}


def example(page: str) -> str:
    """Return the script of a page of the skill."""
    text = (ROOT / "skills" / "ml-trainer" / "configs" / page).read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return str(code)


def happening() -> list[Walk]:
    """Return walks to which something happens."""
    slow = config("own.py:build", epochs=6)
    easy = goal("accuracy", 0.55)
    net = config({"use": "net.py:Net"}, {"use": "iris"}, rate=0.03)
    return [
        Walk("worker-killed", easy, slow, {"own.py": code.SLOW_TASK}, [happen.worker_killed()]),
        Walk("server-killed", easy, slow, {"own.py": code.SLOW_TASK}, [happen.server_killed()]),
        Walk("server-killed-at-export", goal("accuracy", 0.6), mlp("iris", rate=0.03), {},
             [happen.server_killed("export")]),
        Walk("disk-full", easy, slow, {"own.py": code.SLOW_TASK}, [happen.disk_filled(), happen.disk_freed()],
             prepare=happen.small_disk, clean=happen.disk_away, missing=happen.no_mounting),
        Walk("comment", goal("accuracy", 0.6), net, {"net.py": code.NET},
             [happen.comment_changed("net.py", happen.after_gate("diagnostics"))]),
        Walk("package", goal("accuracy", 0.6), mlp("iris", rate=0.03), {},
             [happen.package_installed(happen.after_gate("diagnostics"))], prepare=happen.own_environment),
        Walk("folder-moved", goal("accuracy", 0.6), net, {"net.py": code.NET},
             [happen.folder_moved(happen.after_gate("finalization"))],
             afterwards=[Call("project_status", {"project": "folder-moved"})]),
        Walk("second-release", goal("accuracy", 0.6), mlp("iris", rate=0.03), afterwards=[
            Call("configure", {
                "project": "second-release", "changes": {"training.epochs": 5}, "begin_release": True})]),
        Walk("longer-final", goal("accuracy", 0.6), mlp("iris", rate=0.03), wishes=[
            Wish(happen.after_gate("optimization"), Call("start_training", {
                "project": "longer-final", "kind": "final", "template": "production",
                "changes": {"training.epochs": 8}, "wait_seconds": 50}))]),
    ]  # fmt: skip


def walks() -> list[Walk]:
    """Return all walks, each by its own name."""
    found = [*built_in(), *goals(), *own(), *of_libraries(), *happening()]
    assert len({walk.name for walk in found}) == len(found), "a name twice"
    return found
