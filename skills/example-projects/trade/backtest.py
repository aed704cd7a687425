#!/usr/bin/env python3
"""Back-test of the released model on the held-back years, with costs, beside buy-and-hold and beside chance.

    python backtest.py                  # the model of the workspace in this folder
    python backtest.py --model final_model --cost 5

The position of a day is decided after its close and taken at the next close: 1 (in the market) where the model's score
is above the median score of the validation years, else 0 (cash without interest). Each change pays the cost.
Beside it: buy-and-hold; the model's own positions moved in time at random, which keeps how often and how long it is
in the market (`chance`); and a logistic regression on the true and on shuffled labels. Prints JSON as its last line.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

DAYS_A_YEAR = 252
DRAWS = 1000
SHUFFLES = 20
BLOCK = 20
"""Days that are drawn together for the interval: labels of neighbouring days overlap."""
Values = np.ndarray


def daily_net(positions: Values, returns: Values, cost: float) -> Values:
    """Return the net return of each day, (days,).

    Args:
        positions: share of the money in the market during each day, (days,).
        returns: of the market, (days,); 0.01 is one percent.
        cost: share of the money that is moved; 0.0005 is five hundredths of a percent. The last position is sold.
    """
    moved = np.abs(np.diff(positions, prepend=0.0))
    moved[-1] += positions[-1]
    net: Values = positions * returns - cost * moved
    return net


def summary(net: Values, positions: Values) -> dict[str, float]:
    """Return growth, yearly Sharpe ratio, deepest fall, share of days in the market and number of trades."""
    worth = np.cumprod(1.0 + net)
    spread = net.std()
    return {
        "growth": round(float(worth[-1] - 1.0), 4),
        "sharpe": round(float(net.mean() / spread * DAYS_A_YEAR**0.5), 3) if spread else 0.0,
        "deepest_fall": round(float(1.0 - (worth / np.maximum.accumulate(np.maximum(worth, 1.0))).min()), 4),
        "in_market": round(float(positions.mean()), 3),
        "trades": int(np.count_nonzero(np.diff(positions, prepend=0.0, append=0.0))),
    }


def chance(positions: Values, returns: Values, cost: float, seed: int = 0) -> dict[str, float]:
    """Return how the same positions do when moved in time: the middle and the share that did at least as well."""
    draw = np.random.default_rng(seed)
    own = np.log1p(daily_net(positions, returns, cost)).sum()
    shifts = draw.integers(BLOCK, len(positions) - BLOCK, DRAWS)
    found = np.array([np.log1p(daily_net(np.roll(positions, shift), returns, cost)).sum() for shift in shifts])
    return {
        "growth_median": round(float(np.expm1(np.median(found))), 4),
        "p_value": round(float((found >= own).mean()), 3),
    }


def auc_interval(rises: Values, scores: Values, seed: int = 0) -> list[float]:
    """Return the 95 % interval of the area under the curve over blocks of days drawn with replacement."""
    from sklearn.metrics import roc_auc_score

    draw = np.random.default_rng(seed)
    starts = np.arange(len(rises) - BLOCK + 1)
    found = []
    for _ in range(DRAWS):
        rows = (draw.choice(starts, len(rises) // BLOCK)[:, None] + np.arange(BLOCK)).ravel()
        if 0 < rises[rows].sum() < len(rows):
            found.append(roc_auc_score(rises[rows], scores[rows]))
    return [round(float(edge), 3) for edge in np.percentile(found, [2.5, 97.5])]


def model_scores(model: Path, rows: Path) -> Values:
    """Return the released model's score of each row, (rows,): by its own predict.py."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.npy"
        command = [sys.executable, str(model / "predict.py"), "--outputs", str(outputs), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"The model in {model} gives no scores: {done.stderr.strip()}")
        scores: Values = np.load(outputs)
    return np.asarray(scores[:, 1] - scores[:, 0] if scores.shape[1] > 1 else scores[:, 0])


def shuffled(rows: dict[str, Any], returns: Values, cost: float) -> dict[str, float]:
    """Return a logistic regression's test AUC on true labels, and its range and growth over shuffled train labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs, rises = rows["inputs"], rows["rises"]
    train, middle, test = (rows["split"] == name for name in ("train", "validation", "test"))

    def tried(labels: Values) -> tuple[float, float]:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(inputs[train], labels)
        scores = model.decision_function(inputs)
        held = (scores[test] > np.median(scores[middle])).astype(float)
        return roc_auc_score(rises[test], scores[test]), float(np.prod(1.0 + daily_net(held, returns, cost)) - 1.0)

    draw = np.random.default_rng(0)
    found = np.array([tried(draw.permutation(rises[train])) for _ in range(SHUFFLES)])
    areas, grown = found.T
    return {
        "logistic_auc": round(tried(rises[train])[0], 3),
        "auc_low": round(float(areas.min()), 3),
        "auc_high": round(float(areas.max()), 3),
        "growth_median": round(float(np.median(grown)), 4),
    }


def read_rows(folder: Path) -> tuple[dict[str, Any], Values]:
    """Return the rows by column, and the market's return of the day on which each row's position is held, (rows,)."""
    with (folder / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (folder / "prices.csv").open(encoding="utf-8", newline="") as file:
        prices = list(csv.DictReader(file))
    place = {row["date"]: number for number, row in enumerate(prices)}
    close = np.array([float(row["close"]) for row in prices])
    bought = np.array([place[row["date"]] + 1 for row in rows])
    names = [name for name in rows[0] if name not in {"date", "rises", "split"}]
    columns = {
        "inputs": np.array([[float(row[name]) for name in names] for row in rows]),
        "rises": np.array([row["rises"] == "yes" for row in rows]).astype(int),
        "split": np.array([row["split"] for row in rows]),
    }
    return columns, close[bought + 1] / close[bought] - 1.0


def report(model: Path, data: Path, cost: float) -> dict[str, object]:
    """Return all figures on the test years."""
    from sklearn.metrics import roc_auc_score

    rows, returns = read_rows(data)
    scores = model_scores(model, data / "rows.csv")
    test = rows["split"] == "test"
    positions = (scores[test] > np.median(scores[rows["split"] == "validation"])).astype(float)
    rises, market = rows["rises"][test], returns[test]
    always = np.ones(len(market))
    interval = auc_interval(rises, scores[test])
    return {
        "days": len(market),
        "auc": round(float(roc_auc_score(rises, scores[test])), 3),
        "auc_interval": interval,
        "model": summary(daily_net(positions, market, cost), positions),
        "buy_and_hold": summary(daily_net(always, market, cost), always),
        "chance": chance(positions, market, cost),
        "shuffled_labels": shuffled(rows, market, cost),
        "anything_there": interval[0] > 0.5,
    }


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(".trainwright/projects/trade/final_model"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--cost", type=float, default=5.0, help="of each change, in hundredths of a percent")
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(report(asked.model, asked.data, asked.cost / 10_000)) + "\n")


if __name__ == "__main__":
    main()
