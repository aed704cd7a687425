"""Metrics: defined per output, then averaged as scikit-learn does; one that cannot be computed says so in planning."""

from __future__ import annotations

import math
from typing import Any

from case import EITHER, REFUSED, Case, Right
from of_code import HEAD
from tables import table

from case import Column, chosen, numbers  # isort: skip


def of(
    name: str,
    source: str,
    target: str,
    *,
    outputs: int,
    loss: str,
    metric: str,
    goal: float = 0.5,
    minimum: float = -1e9,
    maximum: float = 1e9,
    may: str = "read",
    said: tuple[str, ...] = (),
) -> Case:
    """Return an input of the user's targets: what the metric of the goal may be, or what is said of it.

    Args:
        name: of the input.
        source: the public report.
        target: an expression of x and `noise`, (161, outputs).
        outputs: of the model.
        loss: of the model.
        metric: the goal's.
        goal: its value.
        minimum: least value that is right after two epochs.
        maximum: largest value that is right after two epochs.
        may: read, refused or either.
        said: words of the refusal.
    """
    drawn = f"noise = torch.randn(201, {outputs}, generator=generator)\ntarget = {target}\n"
    samples = "lambda p: torch.utils.data.TensorDataset(x[list(p)], target[list(p)])"
    body = f"{HEAD}\n\n{drawn}\n\ndef data():\n    return parts({samples})\n"
    config: dict[str, Any] = {
        "model": {"use": "net.py:Net", "args": {"outputs": outputs}},
        "data": {"use": "net.py:data"},
        "loss": loss,
        "metrics": [metric],
        "training": {"epochs": 2},
    }

    def holds(seen: Any) -> str:
        value = seen.metrics.get(f"validation/{metric}")
        if value is None or math.isnan(float(value)):
            return f"{metric} is {value}, and nothing was said"
        return "" if minimum <= float(value) <= maximum else f"{metric} is {value}"

    direction = "minimize" if metric in {"mae", "loss"} else "maximize"
    wanted = {"metric": metric, "direction": direction, "target": goal}
    return Case(
        f"metric-{name}",
        source,
        lambda folder: (folder / "net.py").write_text(body),
        config,
        wanted,
        Right(may=may, words=said, holds=holds),
    )


UNDEFINED = ("no positive|one class|not defined|undefined|constant|cannot be computed",)
FIRST = "(x[:, :1] + 0.3 * noise[:, :1] > 0)"
SPLIT = {"by": "given", "column": "part"}


def split_where(name: str, source: str, y: Column, late: Any, metric: str, loss: str, said: tuple[str, ...]) -> Case:
    """Return an input whose validation rows have one value or class alone."""
    parts = ["test" if row % 5 == 4 else "validation" if row % 5 == 3 else "train" for row in range(120)]
    cells = [late if part == "validation" else cell for cell, part in zip(y.cells, parts, strict=True)]
    columns = {"y": Column(cells, cells, ()), "part": Column(parts, parts, ())}
    goal = {"metric": metric, "direction": "maximize", "target": 0.5}
    config = {
        "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}, "split": SPLIT},
        "loss": loss,
        "metrics": [metric],
    }
    return table(
        f"metric-{name}", source, columns, target=None, config=config, goal=goal, may=REFUSED, words=(metric, *said)
    )


CASES = [
    of("r2-of-two-means", "deephyper/deephyper#17", "noise + torch.tensor([0.0, 1000.0])", outputs=2, loss="mse",
          metric="r2", maximum=0.5),
    of("r2-of-two-scales", "deephyper/deephyper#17", "torch.cat([1000 * x[:, :1], noise[:, 1:]], 1)", outputs=2,
          loss="mse", metric="r2", maximum=0.75),
    of("mae-of-two", "kind: mae is the mean over outputs",
          "noise.abs() * 0 + torch.tensor([1.0, 3.0]) + 0.001 * noise", outputs=2, loss="mse", metric="mae",
          minimum=0.5, maximum=3.5),
    of("auc-of-a-label-without-positives", "dotnet/machinelearning#4713",
          f"torch.cat([{FIRST}, noise[:, 1:] > 9], 1).float()", outputs=2, loss="bce_with_logits", metric="auc",
          may=EITHER, said=("auc", *UNDEFINED)),
    of("auc-of-one-class", "abhishekkrthakur/tez#27", "(noise < 9).float()", outputs=1, loss="bce_with_logits",
          metric="auc", may=REFUSED, said=("auc|class|constant",
          "one class|no negative|not defined|undefined|constant|the class is")),
    of("auc-of-two-labels", "kind: nothing is odd", f"torch.cat([{FIRST}, noise[:, 1:] > 0], 1).float()", outputs=2,
          loss="bce_with_logits", metric="auc", minimum=0.01, maximum=1),
    of("f1-of-labels", "Lightning-AI/torchmetrics#1664", f"torch.cat([{FIRST}, noise[:, 1:] > 9], 1).float()",
          outputs=2, loss="bce_with_logits", metric="f1", minimum=0, maximum=1, may=EITHER, said=("f1", *UNDEFINED)),
    of("r2-of-a-constant", "kind: a constant target", "0 * noise + 5", outputs=1, loss="mse", metric="r2", may=REFUSED,
          said=(r"constant|one value|targets are 5",)),
    of("accuracy-of-numbers", "kind: a metric of classes", "noise", outputs=1, loss="mse", metric="accuracy",
          may=REFUSED, said=("accuracy", "mse|regression")),
    split_where("auc-of-one-class-in-validation", "scikit-learn/scikit-learn#30103", chosen(["no", "yes"]), "no",
          "auc", "cross_entropy", UNDEFINED),
    split_where("r2-of-a-constant-in-validation", "kind: a constant target in validation", numbers(), "7.5", "r2",
          "mse", UNDEFINED),
    table("metric-goal-not-measured", "kind: a goal's metric that is not configured", config={"metrics": ["r2"]},
          goal={"metric": "mae", "direction": "minimize", "target": 9}, may=EITHER, words=("mae", "metrics")),
    table("metric-other-name", "kind: R2 in capitals", config={"metrics": ["R2"]}, goal={"metric": "R2",
          "direction": "maximize", "target": 0.1}, may=EITHER, words=("r2",)),
    table("metric-unknown", "kind: a metric that does not exist", config={"metrics": ["pinball"]},
          goal={"metric": "pinball",
          "direction": "minimize", "target": 9}, may=REFUSED, words=("pinball", "mae")),
]  # fmt: skip
