"""Batches: reaching into one and into a model without assuming more than needed, and views drawn from it.

Those are in every checkpoint, so a resumed run sees the views it would have seen; and as they are drawn in the training
process, the number of loader workers makes no difference. B samples, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.objectives.supervised import describe, split_batch

if TYPE_CHECKING:
    from trainwright.trainer.objectives.sections import AugmentationSection


def input_of(batch: Any, key: str | None) -> Tensor:
    """Return the batch's one floating-point input, (batch, ...), or the one named `key`.

    Raises:
        ConfigurationError: there is none, or there are several and no key says which.
    """
    found = _inputs(batch)
    if key is not None:
        found = {name: value for name, value in found.items() if name == key}
    floating = {name: value for name, value in found.items() if value.is_floating_point()}
    if len(floating) == 1:
        return next(iter(floating.values()))
    if not floating:
        raise ConfigurationError(
            f"The objective changes an input of floating point, and the batch has none"
            f"{f' under the key {key!r}' if key else ''}: it is {describe(batch)}.",
            remedy="Give the inputs as floats; token numbers cannot be changed by small amounts.",
        )
    raise ConfigurationError(
        f"The batch has several inputs of floating point: {', '.join(floating)}.",
        remedy="Hand over mappings and set objective.input to the key of the one that is meant.",
    )


def with_input(batch: Any, old: Tensor, new: Tensor) -> Any:
    """Return the batch with one of its tensors replaced (by one of any shape)."""
    if batch is old:
        return new
    if isinstance(batch, Mapping):
        return {name: new if value is old else value for name, value in batch.items()}
    items = [new if value is old else value for value in batch]
    return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)


def _inputs(batch: Any) -> dict[str, Tensor]:
    args, named, _ = split_batch(batch)
    numbered = {str(number): value for number, value in enumerate(args)}
    return {name: value for name, value in {**numbered, **named}.items() if isinstance(value, Tensor)}


@contextmanager
def captured(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Yield a dictionary that fills with the outputs of the named modules as the model is called."""
    found: dict[str, Tensor] = {}

    def keeper(name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG001 - the hook's form
            found[name] = output[0] if isinstance(output, tuple | list) else output

        return keep

    with ExitStack() as hooks:
        for name in names:
            hooks.callback(model.get_submodule(name).register_forward_hook(keeper(name)).remove)
        yield found


def require_module(model: nn.Module, name: str, key: str) -> None:
    """Raise ConfigurationError, with near names, unless the model has a module of that name."""
    known = [known for known, _ in model.named_modules() if known]
    if name not in known:
        raise ConfigurationError(
            f"`{key}` = {name!r}: the model has no module of that name.{near_matches(name, known)}",
            remedy=f"It has: {', '.join(known[:16])}{' ...' if len(known) > 16 else ''}.",
        )


OF_IMAGES = ("crop", "flip", "rotate_degrees", "jitter")


class Augmentation:
    """Draws views: images (B, C, H, W) are cropped, turned, mirrored and lit differently; of everything else, such as
    table rows, some values are taken from other samples of the batch (Bahri et al. 2022, SCARF, arXiv:2106.15147).
    Both gain noise.
    """

    def __init__(self, section: AugmentationSection, *, images: bool) -> None:
        self.section, self.images = section, images
        self.crop = 0.7 if section.crop is None else section.crop
        self.jitter = 0.2 if section.jitter is None else section.jitter
        self.swap = 0.3 if section.swap is None else section.swap

    def __call__(self, x: Tensor) -> Tensor:
        """Return one view of each sample, of the same shape."""
        x = self._light(self._move(x)) if self.images else self._swap(x)
        return x + self.section.noise * torch.randn_like(x) if self.section.noise else x

    def _move(self, x_BCHW: Tensor) -> Tensor:  # noqa: N803 - shapes in the names
        """Crop, turn and mirror in one resampling; what lies outside the image is its border."""
        section = self.section
        if self.crop == 1.0 and not section.flip and not section.rotate_degrees:
            return x_BCHW
        draws = torch.rand(5, len(x_BCHW), device=x_BCHW.device)
        scale = self.crop + (1.0 - self.crop) * draws[0]
        shift_x, shift_y = ((2.0 * draw - 1.0) * (1.0 - scale) for draw in draws[1:3])
        angle = math.radians(section.rotate_degrees) * (2.0 * draws[3] - 1.0)
        side = 1.0 - 2.0 * (draws[4] < section.flip).float()
        cos, sin = scale * angle.cos(), scale * angle.sin()
        rows = torch.stack([torch.stack([side * cos, -sin, shift_x], 1), torch.stack([side * sin, cos, shift_y], 1)], 1)
        grid = F.affine_grid(rows, list(x_BCHW.shape), align_corners=False)
        return F.grid_sample(x_BCHW, grid.to(x_BCHW.dtype), padding_mode="border", align_corners=False)

    def _light(self, x_BCHW: Tensor) -> Tensor:  # noqa: N803
        """Change the contrast around each image's mean, and the mean."""
        if not self.jitter:
            return x_BCHW
        draws = torch.rand(2, len(x_BCHW), 1, 1, 1, device=x_BCHW.device)
        contrast, brightness = 1.0 + self.jitter * (2.0 * draws - 1.0)
        mean = x_BCHW.mean(dim=(1, 2, 3), keepdim=True)
        lit: Tensor = (x_BCHW - mean) * contrast + mean * brightness
        return lit

    def _swap(self, x: Tensor) -> Tensor:
        if not self.swap:
            return x
        other = torch.randint(len(x), x.shape, device=x.device)  # of each value its own sample: the column's marginal
        return torch.where(torch.rand_like(x) < self.swap, x.gather(0, other), x)


def build_augmentation(section: AugmentationSection, x: Tensor) -> Augmentation:
    """Return the augmentation for inputs like `x`: images where they are (B, C, H, W).

    Raises:
        ConfigurationError: a key that means nothing for such inputs.
    """
    images = x.dim() == 4
    wrong = ("swap",) if images else OF_IMAGES
    for key in wrong:
        if getattr(section, key) != type(section).model_fields[key].default:
            raise ConfigurationError(
                f"`objective.augmentation.{key}` is for {'flat inputs' if images else 'images'}; a batch of this data "
                f"has shape {tuple(x.shape)}.",
                remedy=f"Take it out; {'swap' if not images else ', '.join(OF_IMAGES)} and noise are for such inputs.",
            )
    return Augmentation(section, images=images)
