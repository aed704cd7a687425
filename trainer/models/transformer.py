"""Models of the Transformers library: from a folder, from a configuration (random weights), or from its hub.

Wolf et al. 2020, arXiv:1910.03771. Weights are read from safetensors alone; code that a folder brings is never run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import files_among
from trainwright.trainer.base.releases import PACKED
from trainwright.trainer.models.arguments import ModelSection, Surroundings
from trainwright.trainer.models.tasks import require_tokens, task_of
from trainwright.trainer.models.weight_types import Dtype, Quantisation, held_in, quantised, type_of
from trainwright.trainer.models.weights import weights_folder

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainwright.trainer.data.splits import Splits

_REMEDY = (
    "Give one of path (a folder under code_root), hub (an id, with revision) or config ({model_type: bert, ...}): "
    "model: {use: transformers, args: {path: models/bert}}."
)


Task = Literal[
    "sequence_classification", "token_classification", "question_answering", "multiple_choice", "causal_lm",
    "masked_lm", "seq2seq_lm", "image_classification",
]  # fmt: skip


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
    task: Task | None = None
    """Left out: what the data are made for."""
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model's configuration to change, for example dropout."""
    dtype: Dtype = "float32"
    """In which the weights are held; what an adapter trains beside them stays float32."""
    quantize: Quantisation | None = None
    """Frozen weights in 8 or 4 bits, by bitsandbytes on CUDA; what is trained is an adapter."""

    @classmethod
    def first_modules(cls, args: dict[str, Any]) -> tuple[str, ...]:
        """Return the library's modules, and the module of the network where the configuration names its type."""
        kind = (args.get("config") or {}).get("model_type")
        network = f"transformers.models.{kind}.modeling_{kind}"
        named = (network,) if isinstance(kind, str) and kind.isidentifier() else ()
        return ("transformers.modeling_utils", "transformers.models.auto.modeling_auto", *named)

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum(value is not None for value in (self.path, self.hub, self.config)) != 1:
            raise ValueError(
                "exactly one of path (a folder under code_root), hub (an id, with revision) and config "
                "({model_type: bert, ...}) is needed"
            )
        if self.revision is not None and self.hub is None:
            raise ValueError("revision is for hub")
        if self.quantize is not None and self.config is not None:
            raise ValueError("quantize is for the weights of path or hub: random ones are made in full")
        if self.config is not None and not isinstance(self.config.get("model_type"), str):
            raise ValueError("config needs model_type, for example bert or gpt2")
        return self

    def build(self, around: Surroundings, **_: Any) -> nn.Module:
        """Return the model of the task that data and loss are for.

        Raises:
            ConfigurationError: arguments that mean nothing, no such model, or one too small for the data.
        """
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        folder = self._folder(around.code_root)
        origin = self.path or self.hub or f"a {(self.config or {}).get('model_type')}"
        try:
            task = task_of(self.task, around)
            kind = getattr(transformers, task.auto)
            config = _configuration(self, folder, around.splits)
            loading = quantised(None if around.imagined else self.quantize) or held_in(config, type_of(self.dtype))
            task.fit(config, around, self.config)
            require_tokens(config, around.splits)
            packed = hasattr(around.splits.samples["train"], "groups")
            if packed:
                config.use_cache = False  # with a kept past, the library lets packed documents see each other
            around.require_room(lambda _: weights_bytes(kind, config) // (1 if self.dtype == "float32" else 2))
            if self.config is not None or around.imagined:
                model = kind.from_config(config, **held_in(config, type_of(self.dtype)))
                if self.quantize is not None:
                    from trainwright.trainer.models.quantised_sizes import in_quantised_sizes

                    model = in_quantised_sizes(model, self.quantize)
            else:
                model = kind.from_pretrained(
                    self.hub if folder is None else str(folder),
                    config=config,
                    revision=self.revision,
                    local_files_only=folder is not None,
                    trust_remote_code=False,
                    use_safetensors=True,
                    ignore_mismatched_sizes=task.by_classes,  # a head for other classes is made anew
                    **loading,
                )
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
            raise ConfigurationError(
                f"The model {origin} cannot be built: {str(error)[:300]}", remedy=_REMEDY
            ) from error
        result: nn.Module = model
        if packed and not around.imagined:
            require_apart(result, around.splits.samples["train"])
        return result

    def files(self, code_root: Path) -> list[Path]:
        """Return the files of a model in a folder, for the evidence; none for the other origins."""
        folder = self._folder(code_root)
        return [] if folder is None else sorted(files_among(folder.iterdir()))

    def _folder(self, code_root: Path) -> Path | None:
        return None if self.path is None else weights_folder(self.path, code_root)


def weights_bytes(kind: Any, config: Any) -> int:
    """Return the bytes in fp32 of the weights, shared ones counted once, of a model that takes no memory itself."""
    import torch
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes

    # buffers too: else each layer is allocated on the CPU first, and filled where torch is to be deterministic
    with init_empty_weights(include_buffers=True):
        model = kind.from_config(config, **held_in(config, torch.float32))
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


# Packed documents in a model: it is shown on a real block that one document does not see another.

TOLERANCE = 1e-3
"""Largest difference of logits, times the largest where that is above 1: sums run in another order."""


def require_apart(model: nn.Module, samples: Any) -> None:
    """Refuse a model that gives other logits for a document packed than for it alone, on a first block of several.

    Raises:
        ConfigurationError: it does, or takes no positions.
    """
    import torch

    from trainwright.trainer.base import seeding

    several = next((place for place, group in enumerate(samples.groups) if len(group) > 1), None)
    if several is None:
        return
    block = samples.gather([several])
    inputs = {name: block[name] for name in ("input_ids", "position_ids")}
    start = int(samples.parts.lengths[samples.groups[several][0]])
    end = start + int(samples.parts.lengths[samples.groups[several][1]])
    was_training = model.training
    with torch.no_grad(), seeding.preserved():
        model.eval()
        try:
            beside = model(**inputs).logits[:, start:end]
            alone = model(**{name: value[:, start:end] for name, value in inputs.items()}).logits
        except TypeError as error:
            raise _refusal(model, f"takes no positions ({str(error)[:120]})") from error
        finally:
            model.train(was_training)
    if not _are_close(beside, alone):
        raise _refusal(model, "lets a document see those before it in its block")


def _are_close(one: Tensor, other: Tensor) -> bool:
    largest = max(float(other.abs().max()), 1.0)
    return bool((one - other).abs().max() <= TOLERANCE * largest)


def _refusal(model: nn.Module, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"`data.args.packed` puts several documents into a block, and {type(model).__name__} {why}.",
        remedy="Set data.args.packed false; or use a model that separates packed documents by position_ids "
        f"(gpt2, llama, qwen2 and most causal ones, from {PACKED.package} {PACKED.least} on).",
        document="configs/text.md",
        details={"changes": {"data.args.packed": False}},
    )
