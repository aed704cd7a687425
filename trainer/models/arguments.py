"""The arguments of the built-in models. Sizes of input and output are not among them: data and loss say those."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import Probability, Section, Width

Widths = Annotated[list[Width], Field(max_length=1000)]
Depth = Annotated[int, Field(ge=1, le=1000)]


class MlpArgs(Section):
    """A multilayer perceptron."""

    hidden: Widths = Field(default_factory=lambda: [128, 64])
    dropout: Probability = 0.0
    norm: Literal["batch", "layer"] | None = None
    activation: Literal["relu", "leaky_relu", "gelu", "tanh"] = "relu"


class CnnArgs(Section):
    """A small convolutional network."""

    channels: Widths = Field(default_factory=lambda: [32, 64])
    dropout: Probability = 0.0


class ResnetArgs(Section):
    """A residual network for small images."""

    depth: Annotated[int, Field(ge=8, le=6002)] = 20
    width: Width = 16
    norm: Literal["batch", "group", "none"] = "batch"
    dropout: Probability = 0.0

    @model_validator(mode="after")
    def _three_stages_of_whole_blocks(self) -> Self:
        if (self.depth - 2) % 6:
            raise ValueError(f"depth is 6n + 2 (8, 14, 20, 32, 44, 56, 110), not {self.depth}")
        return self


class GptArgs(Section):
    """A decoder-only transformer."""

    layers: Depth = 4
    heads: Depth = 4
    width: Width = 128
    context: Width | None = None
    """Longest input in tokens; that of the data where it is left out."""
    dropout: Probability = 0.0

    @model_validator(mode="after")
    def _heads_of_one_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, and {self.width} is none of {self.heads}")
        return self


class TimmArgs(Section):
    """A model of timm."""

    model: str = Field(min_length=1)
    """Name in timm, for example resnet18 or vit_tiny_patch16_224."""
    pretrained: bool = False
    """Start from the published weights; needs a network the first time."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What that model takes besides, for example drop_rate or img_size."""


class TransformersArgs(Section):
    """A model of the Transformers library."""

    path: str | None = Field(default=None, min_length=1)
    """Folder under the code root, written by save_pretrained."""
    hub: str | None = Field(default=None, min_length=1)
    """Id on the library's hub; needs a network the first time."""
    revision: str | None = None
    """Commit or tag of the hub's model: without it another day may bring other weights."""
    config: dict[str, Any] | None = None
    """`model_type` and sizes of a model with random weights."""
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model's own configuration to change, for example dropout."""

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


MODELS: dict[str, type[Section]] = {
    "mlp": MlpArgs,
    "cnn": CnnArgs,
    "resnet": ResnetArgs,
    "gpt": GptArgs,
    "transformers": TransformersArgs,
    "timm": TimmArgs,
}
