#!/usr/bin/env python3
"""Weigh the released model against what needs no network of its own, on the same held-back texts.

    python compare.py                         # the model of the workspace in this folder
    pip install vaderSentiment                # then VADER's rules are compared, too

The most frequent class; a logistic regression on words and pairs of words (TF-IDF); VADER's compound score at its
authors' bounds. The model's figures are read from metrics.json. Prints JSON as its last line.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from pathlib import Path

VADER_BOUND = 0.05
Figures = dict[str, float]


def scored(true: list[str], found: list[str]) -> Figures:
    """Return accuracy and the mean F1 of the classes."""
    from sklearn.metrics import accuracy_score, f1_score

    share = f1_score(true, found, average="macro", zero_division=0)
    return {"accuracy": round(float(accuracy_score(true, found)), 4), "f1": round(float(share), 4)}


def majority(train: list[str], true: list[str]) -> Figures:
    """Return the figures of always saying the most frequent class of the train texts."""
    [(most, _)] = Counter(train).most_common(1)
    return scored(true, [most] * len(true))


def words(train: list[dict[str, str]], test: list[dict[str, str]]) -> Figures:
    """Return the figures of a logistic regression on the words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), LogisticRegression(C=3.0, max_iter=500)
    )
    model.fit([row["text"] for row in train], [row["mood"] for row in train])
    return scored([row["mood"] for row in test], list(model.predict([row["text"] for row in test])))


def rules(test: list[dict[str, str]]) -> Figures | None:
    """Return the figures of VADER; None where it is not installed."""
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError:
        return None
    score = SentimentIntensityAnalyzer().polarity_scores
    compound = [score(row["text"])["compound"] for row in test]
    found = ["neutral" if abs(each) < VADER_BOUND else "positive" if each > 0 else "negative" for each in compound]
    return scored([row["mood"] for row in test], found)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(".trainwright/projects/sentiment/final_model"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    asked = parser.parse_args()
    with (asked.data / "texts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    train, test = ([row for row in rows if row["split"] == name] for name in ("train", "test"))
    metrics = json.loads((asked.model / "metrics.json").read_text(encoding="utf-8"))["test"]["metrics"]
    found: dict[str, Figures | None] = {
        "model": {name: round(metrics[name], 4) for name in ("accuracy", "f1")},
        "majority": majority([row["mood"] for row in train], [row["mood"] for row in test]),
        "words": words(train, test),
        "vader": rules(test),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
