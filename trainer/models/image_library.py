"""Models of timm, the collection of image models, by their names there (Wightman 2019, doi:10.5281/zenodo.4414861)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.models.arguments import ModelSection, Surroundings

if TYPE_CHECKING:
    from torch import nn


class TimmArgs(ModelSection):
    """A model of timm."""

    of_images = True
    of_library = True

    model: str = Field(min_length=1)
    """Name in timm, for example resnet18 or vit_tiny_patch16_224."""
    pretrained: bool = False
    """Start from the published weights; needs a network the first time."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of that model, for example drop_rate or img_size."""

    def build(self, around: Surroundings, **_: Any) -> nn.Module:
        """Return the model for images of so many channels.

        Raises:
            ConfigurationError: timm is missing or cannot be imported, no such model, or an option it does not take.
        """
        timm = import_timm()
        known = timm.list_models()
        if self.model.partition(".")[0] not in known:
            raise ConfigurationError(
                f"`model.args.model` = {self.model[:60]!r} is no model of timm.{near_matches(self.model, known)}",
                remedy="Use a name that timm.list_models() gives.",
            )
        try:
            sizes = {"num_classes": around.outputs, "in_chans": around.shape[0]}
            model: Any = timm.create_model(self.model, pretrained=self.pretrained, **sizes, **self.options)
        except (TypeError, ValueError, RuntimeError, OSError, AssertionError) as error:
            raise ConfigurationError(
                f"timm cannot build {self.model}: {str(error)[:300]}",
                remedy="Correct model.args.options; for pretrained a network, or weights in the hub's cache, are "
                "needed.",
            ) from error
        options = {**sizes, **self.options, "pretrained": False}
        model.made_with = {"__call__": "timm:create_model", "args": [self.model], "options": options}
        result: nn.Module = model
        return result


def import_timm() -> Any:
    """Return the module. Raises ConfigurationError when it, or the torchvision that it needs, cannot be used."""
    try:
        import timm
    except ImportError as error:
        raise ConfigurationError(
            f"model timm needs the package timm, which cannot be imported: {str(error)[:200]}",
            remedy="Install timm with a torchvision built for your torch; or use the built-in resnet, or transformers.",
        ) from error
    except RuntimeError as error:  # torchvision registers its operators while it is imported
        raise ConfigurationError(
            f"timm cannot be imported, for torchvision was built for another torch: {str(error)[:200]}",
            remedy="Install the torchvision that belongs to your torch (a CPU build for a CPU torch): a wrong one "
            "breaks transformers too. Or use the built-in resnet.",
        ) from error
    return timm
