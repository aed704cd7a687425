"""Counted words of texts, and a logistic regression on them: it reads no order, and is hard to beat on topics.

Weights by rarity (TF-IDF: Spärck Jones 1972), scikit-learn's. Words are those of the tokens that the model reads: of
bytes and characters what they spell, of a learned vocabulary the tokens themselves, and pairs of both.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.blocks import TokenRows
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, UnfitError, is_one_class, logits_of, targets_of
from trainwright.trainer.evidence.rivals.tables import seed_of

MAX_TOKENS = 10_000_000
"""Of the train split."""
MAX_CLASSES = 50
MAX_WORDS = 50_000
MAX_ITERATIONS = 200
SPELLED = frozenset({"bytes", "characters"})
"""Tokenizers whose tokens are no words."""


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:
    """Return counted words for texts with one class each; none for other data. Raises UnfitError."""
    train = splits.samples["train"]
    if type(train) is not TokenRows or splits.text is None or not is_one_class(targets := targets_of(train)):
        return []
    if len(train.tokens) > MAX_TOKENS or len(np.unique(targets)) > MAX_CLASSES:
        raise UnfitError(f"more than {MAX_TOKENS} tokens, or {MAX_CLASSES} classes")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    is_spelled = splits.text.tokenizer["name"] in SPELLED
    pattern = {} if is_spelled else {"token_pattern": r"\S+"}
    counts = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=MAX_WORDS, **pattern)
    words: Any = make_pipeline(
        counts, LogisticRegression(C=10.0, max_iter=MAX_ITERATIONS, random_state=seed_of(config))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so many iterations some do not converge
        words.fit(_texts(train, is_spelled=is_spelled), targets.reshape(-1))
    names = splits.class_names or ()
    told = f"counted {'words' if is_spelled else 'tokens'} and pairs of them (TF-IDF) with a logistic regression"

    def outputs(samples: Any) -> Array:
        found = words.predict_proba(_texts(samples, is_spelled=is_spelled))
        return logits_of(found, words.classes_, len(names))

    return [Fitted("counted_words", told, ("accuracy",), outputs)]


def _texts(samples: TokenRows, *, is_spelled: bool) -> list[str]:
    """Return each text of the tokens that the model reads: what they spell, or their numbers."""
    tokens = samples.tokens.tolist()
    each = (tokens[start:stop] for start, stop in zip(samples.edges, samples.edges[1:], strict=False))
    return ["".join(map(chr, one)) if is_spelled else " ".join(map(str, one)) for one in each]
