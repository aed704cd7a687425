"""Section of every adapter: what is trained beside it, and where it starts. Free of torch, which `build` imports."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.base.section import Patterns, Section
from trainwright.trainer.models.adapters.saved import FILES, load_adapter
from trainwright.trainer.models.weight_types import raise_trained

if TYPE_CHECKING:
    from torch import nn

HEADS = ("classifier", "score", "classification_head", "qa_outputs", "lm_head", "head", "embed_out")
"""Names under which libraries keep the layer that gives the output."""


class AdapterSection(Section):
    """Small trained parts beside a frozen model.

    Attributes:
        merges: whether they can be taken into the model's own weights.
    """

    merges: ClassVar[bool] = False

    name: str
    train_also: Patterns | None = None
    """Parameters that are trained in full; a classifier's new output layer where it is left out."""
    start_from: str | None = Field(default=None, min_length=1)
    """Folder under the code root with an adapter in peft's layout, whose weights are the first ones."""

    def build(self, model: nn.Module, code_root: Path, *, imagined: bool = False) -> nn.Module:
        """Return the model with the adapter, everything else frozen; it starts from `start_from` where that is given.

        Args:
            imagined: whether parts have sizes and no contents: then no weights are read, and nothing is called.

        Raises:
            ConfigurationError: a pattern matches nothing, there is nothing to adapt, or no such adapter fits.
        """
        adapted = self._adapted(model)
        raise_trained(adapted)
        if not imagined:
            self._try(adapted)
        if self.start_from is not None and not imagined:
            load_adapter(adapted, self.folder(code_root))
        return adapted

    def require_texts(self, model: nn.Module, longest: int, *, packed: bool) -> None:
        """Check that the model takes the texts with the adapter. Raises ConfigurationError.

        Args:
            longest: in tokens.
            packed: whether several share a row.
        """

    def folder(self, code_root: Path) -> Path:
        """Return the folder of `start_from`. Raises ConfigurationError where it is none, or lacks a file."""
        assert self.start_from is not None  # noqa: S101 - asked of those alone
        folder = confine_folder(self.start_from, code_root, key="adapter.start_from")
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise ConfigurationError(
                f"`adapter.start_from` = {self.start_from!r} has no {missing[0]}.",
                remedy="Name a folder in peft's layout: the adapter/ of an export, or what save_pretrained wrote.",
                document="configs/adapters.md",
            )
        return folder

    def files(self, code_root: Path) -> list[Path]:
        """Return the files that the first weights come from, for the evidence."""
        return [self.folder(code_root) / name for name in FILES] if self.start_from is not None else []

    def _adapted(self, model: nn.Module) -> nn.Module:
        """Return the model with the adapter in it, or around it."""
        raise NotImplementedError

    def _try(self, adapted: nn.Module) -> None:
        """Call the adapted model once, where peft knows only by then which models it can adapt."""


class InjectedSection(AdapterSection):
    """An adapter whose parts stand in the model's own layers, by peft's inject_adapter_in_model.

    Attributes:
        mark: stands in the names of its parameters, and in no others.
    """

    merges = True
    mark: ClassVar[str]

    targets: Patterns | None = None
    """Modules to adapt: every linear layer but the output's where it is left out."""

    def _adapted(self, model: nn.Module) -> nn.Module:
        from peft import inject_adapter_in_model

        from trainwright.trainer.models.adapters.task_types import task_type

        parameters = [name for name, _ in model.named_parameters()]
        also, modules = self._trained_parts(parameters, linear_layers(model), model)
        if not modules:
            raise ConfigurationError(
                "`adapter`: the model has no linear layer to adapt.",
                remedy="Name its layers in adapter.targets, or take `adapter` out and train the full model.",
            )
        whole = sorted({name.rpartition(".")[0] for name in also} - {""})
        config = self._config(
            model, modules, task_type=task_type(model), modules_to_save=whole or None, base_model_name_or_path=None
        )
        written = config.modules_to_save
        config.modules_to_save = None  # trained where they stand; the saved adapter names them
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "fan_in_fan_out")  # settled by peft for each layer's kind
            inject_adapter_in_model(config, model)
        config.modules_to_save = written
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(self.mark in name or name in also)
        return model

    def _config(self, model: nn.Module, modules: list[str], **common: Any) -> Any:
        """Return peft's configuration for the named modules."""
        raise NotImplementedError

    def _trained_parts(self, parameters: list[str], layers: list[str], model: nn.Module) -> tuple[list[str], list[str]]:
        """Return the parameters that are trained in full, and the modules that are adapted."""
        from trainwright.trainer.optimization.parameters import matching

        also = matching(parameters, self.train_also, "adapter.train_also") if self.train_also else new_head(model)
        if self.targets is None:
            free = [name for name in layers if not any(part.startswith(f"{name}.") for part in also)]
            return also, self._preferred(model, without_known_head(model, free))
        chosen = matching([f"{name}.weight" for name in layers], self.targets, "adapter.targets")
        return also, [name.removesuffix(".weight") for name in chosen]

    def _preferred(self, model: nn.Module, layers: list[str]) -> list[str]:  # noqa: ARG002 - some look at the model
        """Return the layers to adapt where no targets are named."""
        return layers


def new_head(model: nn.Module) -> list[str]:
    """Return the parameters of the output layer; none of a library's language model, whose output is no new layer."""
    from trainwright.trainer.models.adapters.task_types import LANGUAGE, task_type

    if task_type(model) in LANGUAGE:
        return []
    return [name for name, _ in model.named_parameters() if set(name.split(".")) & set(HEADS)]


def without_known_head(model: nn.Module, layers: list[str]) -> list[str]:
    """Return the layers but for a language model's output: often it shares its weight with the embedding.

    An adapter beside a shared weight could not be merged: the embedding would change with it.
    """
    from trainwright.trainer.models.adapters.task_types import LANGUAGE, task_type

    known = set(HEADS) if task_type(model) in LANGUAGE else set()
    places = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    single = {name for name in layers if places[id(model.get_submodule(name).weight)] == 1}
    return [name for name in layers if name in single and not set(name.split(".")) & known]


def linear_layers(model: nn.Module) -> list[str]:
    """Return the names of linear layers, those of the Transformers library (GPT-2) included."""
    from torch import nn

    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear) or is_conv1d(module)]


def is_conv1d(module: nn.Module) -> bool:
    """Return whether it is a linear layer of GPT-2, whose weight is transposed."""
    return type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"
