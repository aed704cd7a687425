"""Sizes of a Transformers model before a plan: counted from its configuration alone, and nothing is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.models.tasks import TASKS, ModelTask, longest_input
from trainwright.trainer.models.weights import small_model, weights_folder

LEFT_TO_RIGHT = ("language_model", "instruction", "chat")
KINDS = {
    "token_classification": "token_classification", "question_answering": "question_answering",
    "multiple_choice": "multiple_choice", "seq2seq": "seq2seq_lm", "masked_language_model": "masked_lm",
    **dict.fromkeys((*LEFT_TO_RIGHT, "text"), "causal_lm"),
    **dict.fromkeys(("image_classification", "images"), "image_classification"),
}  # fmt: skip
"""Task of a plan, or source of data, to the library's task."""


def tokenizer_of(model: dict[str, Any] | None, root: Path) -> str | None:
    """Return the folder of a model, as named, where a tokenizer lies in it."""
    path = (model or {}).get("args", {}).get("path") if (model or {}).get("use") == "transformers" else None
    if not path:
        return None
    folder = weights_folder(path, root)
    there = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"))
    return str(path) if there else None


def inspected_model(model: dict[str, Any], root: Path, task: str | None) -> dict[str, Any] | None:
    """Return sizes of a model of the Transformers library; None for others, which are counted with their data."""
    args = model.get("args") or {}
    if model["use"] != "transformers":
        return None
    try:
        config = _configuration(args, root, KINDS.get(str(task), ""))
    except (OSError, ValueError, KeyError) as error:
        if args.get("hub"):
            return {"unknown": str(error)[:200]}  # the plan goes by the table of known models
        raise
    is_masked = str((getattr(config, "architectures", None) or [""])[0]).endswith("ForMaskedLM")
    kind = KINDS.get(str(task), "sequence_classification")
    is_masked = is_masked and task not in LEFT_TO_RIGHT
    kind = "masked_lm" if kind == "causal_lm" and is_masked else kind
    size = getattr(config, "image_size", None)
    start, padding = (getattr(config, name, None) for name in ("decoder_start_token_id", "pad_token_id"))
    return {
        "parameters": _parameters(TASKS[kind], config),
        "model_type": config.model_type,
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "most_tokens": longest_input(config),
        "tokenizer": tokenizer_of(model, root),
        "masked": is_masked,
        "decoder_start": start if start not in {None, padding} else None,
        "picture_size": [size, size] if isinstance(size, int) else list(size) if size else None,
    }


def _configuration(args: dict[str, Any], root: Path, kind: str) -> Any:
    """Return the library's configuration of a model, of its folder, id or values.

    Raises as the library does, and ConfigurationError where nothing names a model.
    """
    from transformers import AutoConfig

    if not {"config", "path", "hub"} & args.keys():
        raise ConfigurationError(
            "model 'transformers' names a library and no model.",
            remedy=f"Name a folder or a hub's id; or a small one of random weights: model={small_model(kind)}.",
            document="configs/transformers.md",
        )
    if args.get("config"):
        values = dict(args["config"])
        return AutoConfig.for_model(values.pop("model_type"), **values)
    folder = weights_folder(args["path"], root, kind) if args.get("path") else None
    where = str(folder) if folder is not None else args["hub"]
    return AutoConfig.from_pretrained(where, local_files_only=True, trust_remote_code=False)


def _parameters(task: ModelTask, config: Any) -> int:
    """Return the entries of all weights, shared ones once, without allocating any.

    Raises:
        ConfigurationError: the library has no model of this type for the task.
    """
    import transformers
    from accelerate import init_empty_weights

    try:
        with init_empty_weights():
            model = getattr(transformers, task.auto).from_config(config)
    except ValueError as error:
        raise ConfigurationError(
            f"A model of type {config.model_type} has no form for {task.name}: {str(error)[:120]}",
            remedy=f"Name a model that has one ({task.auto}), or other data: {task.name} needs {task.data}.",
            document="configs/transformers.md",
        ) from error
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())
