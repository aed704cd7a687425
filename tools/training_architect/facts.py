"""Facts that planning rules may ask for: their names, and what each says. A rule with another name is an error."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]
"""Name to value; one that is not known is absent, and no condition on it holds."""

FACTS: dict[str, str] = {
    "task": "what is learned, one of TASKS",
    "goal": "fastest, balanced or best_quality",
    "adapters": "whether the intent asks for LoRA or other adapters",
    "bound": "whether time or money is stated",
    "family": "transformers, gpt, table, image or other",
    "start": "pretrained or scratch",
    "from_last": "whether a forecast goes on from the last value, and so begins as good as it",
    "parameters": "weights of the model",
    "metric": "that the goal is in",
    "quantile_loss": "the loss that is least at the quantile that the goal's metric is of",
    "target_least": "the least number of what is predicted",
    "rows": "rows of the data, or blocks of documents, all splits together",
    "classes": "number of classes",
    "labels": "whether columns of yes or no are predicted together",
    "choices": "choices of a question",
    "entities": "whether tags are those of entities (B-PER, I-PER, O)",
    "imbalance": "rows of the largest class over those of the smallest",
    "tokens_p95": "tokens that 95 % of the texts do not exceed",
    "tokens_p99": "tokens that 99 % of the texts do not exceed",
    "most_tokens": "tokens that the model takes at most",
    "length_that_fits_99_percent": "the power of two, or multiple of 64, that tokens_p99 fits into",
    "block_that_fits_95_percent": "the same of tokens_p95, within 64 and 1024",
    "target_length_that_fits_99_percent": "the same of 99 % of the texts that are to be written",
    "window_of_contexts": "tokens of a question with a part of its context: at most 384",
    "shared_tokens": "tokens that neighbouring parts of a context have in common: a third of window_of_contexts",
    "decoder_start": "token that the model's decoder begins with, where it is not the padding",
    "picture_size": "height and width of the pictures that the model was made for",
    "device": "cpu or cuda",
    "hardware": "name of the device",
    "gpus": "devices",
    "cores": "processor cores",
    "memory_gib": "memory of one device",
    "bf16": "whether the device multiplies bf16 in hardware",
    "fp16": "whether the device multiplies fp16 in hardware",
    "way": "what is trained, an id among memory.md's ways",
    "fits_one": "whether one device holds the whole training",
    "effective_batch": "rows of an update",
    "micro_batch": "rows that are computed at once, by all devices together",
    "accumulation": "micro-batches of an update",
    "steps": "updates of the whole run",
    "epoch_minutes": "estimated minutes of an epoch",
    "run_minutes": "estimated minutes of the run",
    "steps_in_fifteen_minutes": "estimated updates in fifteen minutes",
    "loader_workers": "half of the cores of each device, eight at most",
}
TASKS = (
    "text_classification", "text_regression", "token_classification", "question_answering", "multiple_choice",
    "seq2seq", "language_model", "masked_language_model", "instruction", "table_classification", "table_regression",
    "series_regression", "image_classification",
)  # fmt: skip
OTHER_NAMES = {
    "sequence_classification": "text_classification", "causal_lm": "language_model",
    "time_series_forecasting": "series_regression", "forecasting": "series_regression",
    "masked_lm": "masked_language_model", "seq2seq_lm": "seq2seq", "chat": "instruction",
}  # fmt: skip
"""The library's names of tasks, and ours."""
GENERATIVE = ("language_model", "instruction")
IN_BLOCKS = (*GENERATIVE, "masked_language_model")
"""Tasks whose texts are cut into blocks."""
OF_VOCABULARY = (*IN_BLOCKS, "seq2seq")
"""Tasks whose outputs are as many as the vocabulary's tokens, for every token."""
PLAN_KEYS = ("plan.effective_batch", "plan.max_length", "plan.metric")
"""Decisions of a plan that stand in no single key of a configuration."""


def worded(value: Any) -> str:
    """Return a fact as it is shown in a reason: 66 M, 0.5, table_classification."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("_", " ") if value in TASKS else str(value)
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:.4g}"
