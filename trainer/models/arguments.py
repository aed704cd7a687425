"""Arguments of the built-in models, and the models made of them, sized by the data and the loss.

Free of torch, for the server reads arguments too: a network's module is imported where it is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Probability, Section, Width

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainwright.trainer.data.series import Series
    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.losses.loss import Loss

Widths = Annotated[list[Width], Field(max_length=1000)]
Depth = Annotated[int, Field(ge=1, le=1000)]


@dataclass(frozen=True)
class Surroundings:
    """Properties of the data and the loss that a model is sized by."""

    shape: tuple[int, ...]
    """Of one input; empty where the model is not sized by it."""
    outputs: int
    splits: Splits
    loss: Loss
    code_root: Path
    require_room: Callable[[Callable[[Any], int]], None]
    """Refuses weights beyond the free memory, of which the function that it is given returns the bytes."""
    imagined: bool = False
    """Whether the model is of sizes only, for an estimate: then weights are not read from files."""


class ModelSection(Section):
    """A built-in model's arguments, and the model made of them.

    Attributes:
        made_by: the network's class by its full name; empty where the model is made otherwise.
        of_images: its inputs are images (channels, height, width).
        of_library: its module is another library's, which takes no sizes to try before it is built.
        sized_by_inputs: it is made for the shape of one input.
    """

    made_by: ClassVar[str] = ""
    of_images: ClassVar[bool] = False
    of_library: ClassVar[bool] = False
    sized_by_inputs: ClassVar[bool] = True

    @classmethod
    def first_modules(cls, args: dict[str, Any]) -> tuple[str, ...]:  # noqa: ARG003 - some read them
        """Return the modules of other libraries that building it needs (see catalog/first_modules.py)."""
        return ()

    def require_input(self, name: str, inputs: Tensor, loss: Loss) -> None:  # noqa: ARG002 - some check the loss
        """Refuse a sample's input (of any shape), or a loss, that the model is not for.

        Raises:
            ConfigurationError: names the inputs that it takes.
        """
        if self.of_images and inputs.dim() != 3:
            raise ConfigurationError(
                f"{name} needs images (channels, height, width); the data has inputs of shape {tuple(inputs.shape)}.",
                remedy="Use model mlp, or give images.",
            )

    def build(self, around: Surroundings, **changed: Any) -> nn.Module:
        """Return the model; `changed` replaces arguments of the same names.

        Raises:
            ConfigurationError: a library is missing, or cannot build it.
            ValueError: an argument does not fit the data.
        """
        return self._made(around.shape, around.outputs, **{**self.model_dump(), **changed})

    def _made(self, *args: Any, **options: Any) -> nn.Module:
        """Return the network, which knows as `made_with` what it was called with: plain values."""
        model: Any = self._network()(*args, **options)
        model.made_with = {"args": list(args), "options": options}
        result: nn.Module = model
        return result

    def _network(self) -> Callable[..., nn.Module]:
        """Return the class of the network: called with the shape of an input, the number of outputs and arguments."""
        module, _, name = self.made_by.rpartition(".")
        network: Callable[..., nn.Module] = getattr(import_module(module), name)
        return network

    def files(self, code_root: Path) -> list[Path]:  # noqa: ARG002 - of random weights there are none
        """Return the files that the first weights come from."""
        return []


class MlpArgs(ModelSection):
    """A multilayer perceptron."""

    made_by = "trainwright.trainer.models.small.MLP"

    hidden: Widths = Field(default_factory=lambda: [128, 64])
    dropout: Probability = 0.0
    norm: Literal["batch", "layer"] | None = None
    activation: Literal["relu", "leaky_relu", "gelu", "tanh"] = "relu"


class TabularSection(ModelSection):
    """A model for the rows of a table, told which neighbouring columns of a row are one feature."""

    layers: Depth = 3
    width: Width = 128
    hidden_factor: Annotated[float, Field(gt=0.0, le=64.0)] = 2.0
    """Width of a block's inner layer, as a multiple of `width`."""
    dropout: Probability = 0.1

    def require_input(self, name: str, inputs: Tensor, loss: Loss) -> None:  # noqa: ARG002 - of the protocol
        """Refuse all but a row of numbers, (columns,). Raises ConfigurationError."""
        if inputs.dim() != 1:
            raise ConfigurationError(
                f"{name} needs the rows of a table (columns); the data has inputs of shape {tuple(inputs.shape)}.",
                remedy="Use model cnn or resnet for images, mlp for anything small, or give a table.",
            )

    def build(self, around: Surroundings, **changed: Any) -> nn.Module:
        """Return the model; where the data have no groups of columns, each is a feature."""
        groups = around.splits.feature_groups or [1] * around.shape[0]
        return self._made(groups, around.outputs, **{**self.model_dump(), **changed})


class TabularResnetArgs(TabularSection):
    """A residual network for tables."""

    made_by = "trainwright.trainer.models.tabular_resnet.TabularResNet"

    norm: Literal["batch", "layer"] = "batch"


class FtTransformerArgs(TabularSection):
    """A transformer whose tokens are a table's features."""

    made_by = "trainwright.trainer.models.ft_transformer.FTTransformer"

    heads: Depth = 8
    width: Width = 96
    hidden_factor: Annotated[float, Field(gt=0.0, le=64.0)] = 4 / 3
    attention_dropout: Probability = 0.2

    @model_validator(mode="after")
    def _heads_of_one_width(self) -> Self:
        _require_heads(self.width, self.heads)
        return self


def _require_heads(width: int, heads: int) -> None:
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, and {width} is none of {heads}")


class DLinearArgs(ModelSection):
    """Linear layers on windows of a series: on their trend, and on the rest."""

    made_by = "trainwright.trainer.models.dlinear.DLinear"

    moving_average: Annotated[int, Field(ge=1, le=10_001)] = 25
    """Rows over which the trend is averaged; an odd number."""
    from_last: bool = False
    """Whether what is forecast is added to the targets' last row."""

    @model_validator(mode="after")
    def _average_with_a_middle(self) -> Self:
        if self.moving_average % 2 == 0:
            raise ValueError(f"moving_average must be odd, to have a middle, and {self.moving_average} is even")
        return self

    def require_input(self, name: str, inputs: Tensor, loss: Loss) -> None:  # noqa: ARG002 - of the protocol
        """Refuse all but a window, (time, columns). Raises ConfigurationError."""
        if inputs.dim() != 2:
            raise ConfigurationError(
                f"{name} needs windows (time, columns); the data has inputs of shape {tuple(inputs.shape)}.",
                remedy="Give data.args.series with a window and a horizon (configs/tables.md), or use model mlp.",
            )

    def build(self, around: Surroundings, **changed: Any) -> nn.Module:
        """Return the model. Raises ConfigurationError where it goes on from a past that it does not see."""
        series, places = around.splits.series, list[int]()
        if self.from_last and around.imagined and series is not None:  # its contents are not there to be compared
            places = [*range(series.targets.shape[1])]
        elif self.from_last:
            places = _places_of_targets(series)
        return self._made(around.shape, around.outputs, places, **{**self.model_dump(), **changed})


def _places_of_targets(series: Series | None) -> list[int]:
    """Return the column of each target's own past among a window's columns. Raises ConfigurationError for none."""
    columns = [] if series is None else [*series.inputs.T]
    targets = [] if series is None else [*series.targets.T]
    found = [[place for place, one in enumerate(columns) if one.equal(target)] for target in targets]
    if not found or not all(found):
        raise ConfigurationError(
            "dlinear's `from_last` adds to the target's last row, which the windows do not hold.",
            remedy="Name the target in data.args.features too, or leave from_last out.",
            document="configs/tables.md",
        )
    return [places[0] for places in found]


class CnnArgs(ModelSection):
    """A small convolutional network."""

    made_by = "trainwright.trainer.models.small.CNN"
    of_images = True

    channels: Widths = Field(default_factory=lambda: [32, 64])
    dropout: Probability = 0.0


class ResnetArgs(ModelSection):
    """A residual network for small images."""

    made_by = "trainwright.trainer.models.resnet.ResNet"
    of_images = True

    depth: Annotated[int, Field(ge=8, le=6002)] = 20
    width: Width = 16
    norm: Literal["batch", "group", "none"] = "batch"
    dropout: Probability = 0.0

    @model_validator(mode="after")
    def _three_stages_of_whole_blocks(self) -> Self:
        if (self.depth - 2) % 6:
            raise ValueError(f"depth is 6n + 2 (8, 14, 20, 32, 44, 56, 110), not {self.depth}")
        return self


class UnetArgs(ModelSection):
    """A U-Net, which gives every pixel a class."""

    made_by = "trainwright.trainer.models.unet.UNet"
    of_images = True

    depth: Annotated[int, Field(ge=1, le=8)] = 3
    width: Width = 16
    norm: Literal["batch", "group", "none"] = "batch"


class GptArgs(ModelSection):
    """A decoder-only transformer."""

    made_by = "trainwright.trainer.models.gpt.GPT"

    layers: Depth = 4
    heads: Depth = 4
    width: Width = 128
    context: Width | None = None
    """Longest input in tokens; that of the data where it is left out."""
    dropout: Probability = 0.0

    @model_validator(mode="after")
    def _heads_of_one_width(self) -> Self:
        _require_heads(self.width, self.heads)
        return self

    def require_input(self, name: str, inputs: Tensor, loss: Loss) -> None:
        """Refuse all but tokens, (time,), and the loss of the next one. Raises ConfigurationError."""
        if inputs.is_floating_point() or inputs.dim() != 1 or loss.task != "language_model":
            raise ConfigurationError(
                f"{name} predicts the next token: it needs inputs (tokens) of integers, not "
                f"{tuple(inputs.shape)} {inputs.dtype}, and loss next_token, not {loss.name}.",
                remedy="Use data text and loss next_token, or another model.",
            )
