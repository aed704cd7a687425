"""Frozen base of a model: weights that a run never changes, so that its checkpoints name them by digest.

A model whose first weights come from a file, the hub or a seed is built again with the same bits; what training does
not change then need not stand in every checkpoint. The digests do, and a resumed run compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.fingerprint import sample_digest

Version = tuple[int, int]
"""Where a tensor's values are, and how often they were written in place."""


@dataclass
class FrozenBase:
    """Frozen weights by the names of the state, with the digests that they had when the model was built.

    Attributes:
        model: whose weights they are.
        names: of those that are never trained; none: every checkpoint holds the whole model.
    """

    model: nn.Module
    names: frozenset[str] = frozenset()
    built: dict[str, str] = field(default_factory=dict)
    present: dict[str, str] = field(default_factory=dict)
    """Digests as far as they were measured again."""
    versions: dict[str, Version] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Measure the weights as they are built."""
        self.built = self._measured()

    @classmethod
    def of(cls, model: nn.Module, trained: set[int], thawing: set[str]) -> FrozenBase:
        """Return the base of a model that is built anew with the same bits.

        Args:
            model: whole in this process.
            trained: ids of the parameters that an optimizer updates.
            thawing: names of those that are trained later.
        """
        named = list(model.named_parameters(remove_duplicate=False))
        shared = {id(parameter) for name, parameter in named if name in thawing} | trained
        kept = {name for name, each in named if not each.requires_grad and id(each) not in shared}
        # a quantised weight's scales stand beside it in the state, under its name
        beside = {name for name in model.state_dict() if any(part in kept for part in _owners(name))}
        return cls(model, frozenset(kept | beside))

    @property
    def is_needed(self) -> bool:
        """Whether there are frozen weights to leave out."""
        return bool(self.names)

    def record(self) -> dict[str, Any]:
        """Return the digests for a checkpoint: of the weights that are still as they were built.

        Those that something wrote to all the same are not among them, and the checkpoint holds them.
        """
        present, state = self._measured(), self.model.state_dict()
        same = {name: digest for name, digest in sorted(present.items()) if digest == self.built[name]}
        size = sum({_place(state[name]): state[name].nbytes for name in same}.values())
        return {"tensors": same, "digest": digest_json(same), "bytes": size}

    def require(self, checkpoint: str, recorded: Mapping[str, Any]) -> None:
        """Check that the model has the frozen weights that a checkpoint was written over.

        Raises:
            IntegrityError: names weights that are others by now.
        """
        wanted = recorded["tensors"]
        present = self._measured() if wanted else {}
        differing = [name for name, digest in wanted.items() if present.get(name) != digest]
        if differing:
            more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise IntegrityError(
                f"Checkpoint {checkpoint} continues from a frozen base of digest {recorded['digest'][:19]}; of the "
                f"model built now {len(differing)} of {len(wanted)} frozen tensors are others: "
                f"{', '.join(differing[:3])}{more}.",
                remedy="Put the model's files back as they were when the run began (model.args, the same revision and "
                "packages), then resume; or start a new run: start_training(project, kind).",
                document="checkpointing/strategy.md",
                details={"differing": differing[:20]},
            )

    def load(self, state: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
        """Put a checkpoint's weights into the model; the frozen ones that it only names stay as they are.

        Raises:
            RuntimeError: the weights do not fit, or some are in neither.
        """
        left_out = recorded["tensors"]
        missing, unknown = self.model.load_state_dict(dict(state), strict=False)
        lost = [name for name in missing if name not in left_out]
        if lost or unknown:
            raise RuntimeError(f"no {', '.join(lost[:3])}" if lost else f"there is no {', '.join(unknown[:3])}")

    def _measured(self) -> dict[str, str]:
        """Return the digests, read again where a tensor was written to or moved."""
        state = self.model.state_dict(keep_vars=True)
        for name in self.names:
            value = state.get(name)
            if isinstance(value, Tensor) and self.versions.get(name) != (version := _version(value)):
                self.versions[name], self.present[name] = version, sample_digest(value.detach().cpu())
        return dict(self.present)


def _owners(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _place(value: Tensor) -> tuple[int, int]:
    return value.data_ptr(), value.nbytes


def _version(value: Tensor) -> Version:
    return value.data_ptr(), value._version
