"""Models of the Transformers library: from a folder, from a configuration (random weights), or from its hub.

Weights are read from safetensors files alone, and code that a folder brings is never run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine_folder, files_among
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.models.arguments import TransformersArgs

_REMEDY = (
    "Give one of path (a folder under code_root), hub (an id, with revision) or config ({model_type: bert, ...}): "
    "model: {use: transformers, args: {path: models/bert}}."
)


def build_transformer(
    args: dict[str, Any],
    splits: Splits,
    loss: Loss,
    outputs: int,
    *,
    code_root: Path,
    require_room: Callable[[Any], None],
) -> nn.Module:
    """Return the model for what the loss asks: next tokens of a causal model, else outputs of a sequence.

    Args:
        require_room: refuses weights beyond the free memory; called with a function that measures their bytes.

    Raises:
        ConfigurationError: arguments that mean nothing, no such model, or one too small for the data.
    """
    given = TransformersArgs.model_validate(args)
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = None if given.path is None else confine_folder(given.path, code_root, key="model.args.path")
    causal = loss.task == "language_model"
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSequenceClassification
    origin = given.path or given.hub or f"a {(given.config or {}).get('model_type')}"
    try:
        config = _configuration(given, folder, splits)
        _fit(config, splits, None if causal else outputs, loss)
        require_room(lambda _: weights_bytes(kind, config))
        if given.config is not None:
            model = kind.from_config(config)
        else:
            model = kind.from_pretrained(
                given.hub if folder is None else str(folder),
                config=config,
                revision=given.revision,
                local_files_only=folder is not None,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=not causal,  # a head for other classes is made anew
            ).float()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
        raise ConfigurationError(f"The model {origin} cannot be built: {str(error)[:300]}", remedy=_REMEDY) from error
    result: nn.Module = model
    return result


def weights_bytes(kind: Any, config: Any) -> int:
    """Return the bytes in fp32 of the weights, shared ones counted once, of a model that takes no memory itself."""
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes

    with init_empty_weights():
        model = kind.from_config(config, dtype=torch.float32)
    model.tie_weights()
    return int(calculate_maximum_sizes(model)[0])


def _configuration(given: TransformersArgs, folder: Path | None, splits: Splits) -> Any:
    from transformers import AutoConfig

    if given.config is not None:
        values = dict(given.config)
        if splits.text is not None:
            values.setdefault("vocab_size", splits.text.vocabulary_size)
        config = AutoConfig.for_model(values.pop("model_type"), **values)
    else:
        config = AutoConfig.from_pretrained(
            given.hub if folder is None else str(folder),
            revision=given.revision,
            local_files_only=folder is not None,
            trust_remote_code=False,
        )
    unknown = [key for key in given.overrides if not hasattr(config, key)]
    if unknown:
        raise ValueError(f"overrides.{unknown[0]} is no key of its configuration ({type(config).__name__})")
    config.update(given.overrides)
    return config


def _fit(config: Any, splits: Splits, outputs: int | None, loss: Loss) -> None:
    """Set what the data decides, and refuse what would fail at the first long text or rare token."""
    if outputs is not None:
        names = splits.class_names or [str(label) for label in range(outputs)]
        config.num_labels = outputs
        config.id2label = dict(enumerate(names))
        config.label2id = {name: label for label, name in enumerate(names)}
        config.problem_type = {"regression": "regression"}.get(loss.task or "", "single_label_classification")
    if splits.text is None:
        return
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = splits.text.padding
    size = getattr(config, "vocab_size", None)
    if size is not None and size < splits.text.vocabulary_size:
        raise ValueError(
            f"its vocabulary of {size} is smaller than the tokenizer's of {splits.text.vocabulary_size}; set "
            "data.args.tokenizer to the folder of the model's own tokenizer"
        )
    longest, limit = splits.text.longest, getattr(config, "max_position_embeddings", None)
    if limit is not None and longest > limit:
        raise ValueError(
            f"it takes at most {limit} tokens, and the data has {longest}; lower data.args.max_length or block_size"
        )


def model_files(args: dict[str, Any], code_root: Path) -> list[Path]:
    """Return the files of a model in a folder, for the evidence; none for the other origins."""
    given = TransformersArgs.model_validate(args)
    if given.path is None:
        return []
    return sorted(files_among(confine_folder(given.path, code_root, key="model.args.path").iterdir()))
