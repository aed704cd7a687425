"""Models of timm, the collection of image models, by their names there."""

from __future__ import annotations

from typing import Any

from torch import nn

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.models.arguments import TimmArgs


def build_timm(args: dict[str, Any], channels: int, outputs: int) -> nn.Module:
    """Return a model of timm for images of so many channels.

    Raises:
        ConfigurationError: timm is missing or cannot be imported, no such model, or an option that it does not take.
    """
    given = TimmArgs.model_validate(args)
    timm = import_timm()
    known = timm.list_models()
    if given.model.partition(".")[0] not in known:
        raise ConfigurationError(
            f"`model.args.model` = {given.model[:60]!r} is no model of timm.{near_matches(given.model, known)}",
            remedy="Use a name that timm.list_models() gives.",
        )
    try:
        model: nn.Module = timm.create_model(
            given.model, pretrained=given.pretrained, num_classes=outputs, in_chans=channels, **given.options
        )
    except (TypeError, ValueError, RuntimeError, OSError, AssertionError) as error:
        raise ConfigurationError(
            f"timm cannot build {given.model}: {str(error)[:300]}",
            remedy="Correct model.args.options; for pretrained a network, or weights in the hub's cache, are needed.",
        ) from error
    return model


def import_timm() -> Any:
    """Return the module. Raises ConfigurationError when it, or the torchvision that it stands on, cannot be used."""
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
