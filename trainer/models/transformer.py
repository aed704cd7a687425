"""Models of the Transformers library: from a folder, from a configuration (random weights), or from its hub.

Wolf et al. 2020, arXiv:1910.03771. Weights are read from safetensors alone; code that a folder brings is never run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine_folder, files_among
from trainwright.trainer.models.arguments import ModelSection, Surroundings

if TYPE_CHECKING:
    from torch import nn

    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.losses.loss import Loss

_REMEDY = (
    "Give one of path (a folder under code_root), hub (an id, with revision) or config ({model_type: bert, ...}): "
    "model: {use: transformers, args: {path: models/bert}}."
)


class TransformersArgs(ModelSection):
    """A model of the Transformers library."""

    of_library = True
    sized_by_inputs = False

    path: str | None = Field(default=None, min_length=1)
    """Folder under the code root, written by save_pretrained."""
    hub: str | None = Field(default=None, min_length=1)
    """Id on the library's hub; needs a network the first time."""
    revision: str | None = None
    """Commit or tag of the hub's model: without it another day may bring other weights."""
    config: dict[str, Any] | None = None
    """`model_type` and sizes of a model with random weights."""
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model's configuration to change, for example dropout."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum(value is not None for value in (self.path, self.hub, self.config)) != 1:
            raise ValueError(
                "exactly one of path (a folder under code_root), hub (an id, with revision) and config "
                "({model_type: bert, ...}) is needed"
            )
        if self.revision is not None and self.hub is None:
            raise ValueError("revision is for hub")
        if self.config is not None and not isinstance(self.config.get("model_type"), str):
            raise ValueError("config needs model_type, for example bert or gpt2")
        return self

    def build(self, around: Surroundings, **_: Any) -> nn.Module:
        """Return the model that the loss needs: next tokens of a causal model, else outputs of a sequence.

        Raises:
            ConfigurationError: arguments that mean nothing, no such model, or one too small for the data.
        """
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        folder = self._folder(around.code_root)
        causal = around.loss.task == "language_model"
        kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSequenceClassification
        origin = self.path or self.hub or f"a {(self.config or {}).get('model_type')}"
        try:
            config = _configuration(self, folder, around.splits)
            _fit(config, around.splits, None if causal else around.outputs, around.loss)
            around.require_room(lambda _: weights_bytes(kind, config))
            if self.config is not None:
                model = kind.from_config(config)
            else:
                model = kind.from_pretrained(
                    self.hub if folder is None else str(folder),
                    config=config,
                    revision=self.revision,
                    local_files_only=folder is not None,
                    trust_remote_code=False,
                    use_safetensors=True,
                    ignore_mismatched_sizes=not causal,  # a head for other classes is made anew
                ).float()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise ConfigurationError(
                f"The model {origin} cannot be built: {str(error)[:300]}", remedy=_REMEDY
            ) from error
        result: nn.Module = model
        return result

    def files(self, code_root: Path) -> list[Path]:
        """Return the files of a model in a folder, for the evidence; none for the other origins."""
        folder = self._folder(code_root)
        return [] if folder is None else sorted(files_among(folder.iterdir()))

    def _folder(self, code_root: Path) -> Path | None:
        return None if self.path is None else confine_folder(self.path, code_root, key="model.args.path")


def weights_bytes(kind: Any, config: Any) -> int:
    """Return the bytes in fp32 of the weights, shared ones counted once, of a model that takes no memory itself."""
    import torch
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
    """Set the sizes that the data decides, and refuse those that would fail at the first long text or rare token."""
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
            "data.args.tokenizer to the folder of the model's tokenizer"
        )
    longest, limit = splits.text.longest, getattr(config, "max_position_embeddings", None)
    if limit is not None and longest > limit:
        raise ValueError(
            f"it takes at most {limit} tokens, and the data has {longest}; lower data.args.max_length or block_size"
        )
