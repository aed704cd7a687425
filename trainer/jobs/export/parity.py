"""Parity of an exported program with the trained model: on real rows, random and extreme inputs, in several sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor

from trainwright.trainer.jobs.export.inputs import Inputs, Rows
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.run.artifacts import Parity

Call = Callable[[Inputs], list[Tensor]]
"""A written program: inputs by name to outputs in their order."""
SIZES = (1, 2, 7)
SINGLES = 16
"""Ragged rows that are compared one by one too."""
BEYOND = 3.0
"""Random inputs reach so many ranges of the observed values beyond them."""
LARGE = 1e4
NUDGE = 1e-6
"""Relative change of an input under which a well-conditioned model's outputs hardly move."""


@dataclass
class Worst:
    """The largest difference relative to what is allowed, and where it was met."""

    ratio: float = 0.0
    difference: float = 0.0
    scale: float = 0.0
    where: str = ""

    def __str__(self) -> str:
        return f"{self.difference:g} on {self.where}, where outputs reach {self.scale:g}"


@dataclass
class Comparison:
    """Compares a program with the model, batch by batch.

    Attributes:
        serving: the model; on the CPU, in evaluation mode.
        tolerance: largest difference that passes, times the largest output where that is above 1.
        until: `time.monotonic()` after which no further batch is compared.
    """

    serving: Serving
    call: Call
    tolerance: float
    until: float = math.inf
    counts: dict[str, int] = field(default_factory=lambda: {"rows": 0, "random": 0, "extreme": 0})
    sizes: set[int] = field(default_factory=set)
    largest: float = 0.0
    scale: float = 0.0
    worst: Worst = field(default_factory=Worst)

    @property
    def differs(self) -> bool:
        """Whether something differed by more than the tolerance."""
        return not self.worst.ratio <= self.tolerance

    @property
    def passed(self) -> bool:
        """Whether anything was compared, and nothing differed by more than the tolerance."""
        return self.counts["rows"] > 0 and not self.differs

    def rows(self, inputs: Inputs, *, counted: bool = True) -> None:
        """Compare on real rows. Raises the model's errors."""
        count = length(inputs)
        found = self._met(inputs, wanted_of(self.serving, inputs), f"{count} real rows")
        self.sizes.add(count)
        self.counts["rows"] += count if counted else 0
        self.largest, self.scale = max(self.largest, found.difference), max(self.scale, found.scale)
        self._keep(found)

    def made_up(self, kind: str, inputs: Inputs) -> None:
        """Compare on inputs that nobody measured, unless the model refuses them or depends on their last bit."""
        try:
            wanted = wanted_of(self.serving, inputs)
        except Exception:  # noqa: BLE001 - the model's own refusal of inputs that make no sense
            return
        found = self._met(inputs, wanted, f"{kind} inputs")
        if found.ratio > self.tolerance and self._is_unstable(inputs, wanted, found):
            return
        self.counts[kind] += length(inputs)
        self._keep(found)

    def as_evidence(self) -> Parity:
        """Return the record."""
        return Parity(
            rows_compared=self.counts["rows"],
            random_compared=self.counts["random"],
            extreme_compared=self.counts["extreme"],
            batch_sizes=sorted(self.sizes),
            max_abs_difference=self.largest,
            largest_output=self.scale,
            ratio=self.worst.ratio,
            tolerance=self.tolerance,
            passed=self.passed,
        )

    def _met(self, inputs: Inputs, wanted: list[Tensor], where: str) -> Worst:
        try:
            given = self.call(inputs)
        except Exception as error:  # noqa: BLE001 - whatever the runtime raises: the model took these inputs
            return Worst(math.inf, math.inf, 0.0, f"{where} ({type(error).__name__}: {str(error)[:120]})")
        return max(
            (difference(*pair, where) for pair in zip(given, wanted, strict=True)), key=lambda found: found.ratio
        )

    def _is_unstable(self, inputs: Inputs, wanted: list[Tensor], found: Worst) -> bool:
        moved = {name: value * (1.0 + NUDGE) if value.is_floating_point() else value for name, value in inputs.items()}
        again = wanted_of(self.serving, moved)
        moves = max(difference(*pair, "").difference for pair in zip(again, wanted, strict=True))
        return 10.0 * moves >= found.difference

    def _keep(self, found: Worst) -> None:
        if not found.ratio <= self.worst.ratio:
            self.worst = found


def wanted_of(serving: Serving, inputs: Inputs) -> list[Tensor]:
    """Return the model's outputs, (batch, ...), for inputs (batch, ...). Raises its errors."""
    with torch.no_grad():
        outputs = serving(*inputs.values())
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def difference(given: Tensor, wanted: Tensor, where: str) -> Worst:
    """Return the largest absolute difference of two outputs (batch, ...); where neither is finite, they are equal."""
    if given.shape != wanted.shape:
        return Worst(math.inf, math.inf, 0.0, f"{where} (shapes {tuple(given.shape)} and {tuple(wanted.shape)})")
    ours, theirs = given.double(), wanted.double()
    finite = torch.isfinite(ours) & torch.isfinite(theirs)
    same = finite | (torch.isfinite(ours) == torch.isfinite(theirs))
    if not bool(same.all()):
        return Worst(math.inf, math.inf, 0.0, f"{where} (one of them is not finite)")
    if not bool(finite.any()):
        return Worst(0.0, 0.0, 0.0, where)
    largest = (ours[finite] - theirs[finite]).abs().max().item()
    scale = theirs[finite].abs().max().item()
    return Worst(largest / max(1.0, scale), largest, scale, where)


def compare(comparison: Comparison, rows: Rows) -> None:
    """Compare on all real rows within the time, and on random and extreme inputs like the first batch's.

    Raises:
        Exception: the model's own, on real rows.
    """
    batches = rows.batches()
    first = next(batches)
    sizes = (part(first, 0, size) for size in SIZES if size < length(first))
    for inputs in chain(sizes, rows.singles(SINGLES)):
        comparison.rows(inputs, counted=False)
    for batch in chain([first], batches):
        comparison.rows(batch)
        if comparison.differs or time.monotonic() > comparison.until:
            break
    for kind, inputs in _made_up(first, rows.vocabulary):
        if not comparison.differs:
            comparison.made_up(kind, inputs)


def _made_up(observed: Inputs, vocabulary: int | None) -> Iterator[tuple[str, Inputs]]:
    generator = torch.Generator().manual_seed(0)
    sample = part(observed, 0, SIZES[-1])
    for reach in (0.0, BEYOND):
        yield "random", {name: _random(value, reach, vocabulary, generator) for name, value in sample.items()}
    shorter = {name: value[..., : max(value.shape[-1] // 2, 1)] for name, value in sample.items() if value.dim() > 1}
    if vocabulary is not None and len(shorter) == len(sample):
        yield "random", {name: _random(value, 0.0, vocabulary, generator) for name, value in shorter.items()}
    for place in (0.0, LARGE, -LARGE):
        yield "extreme", {name: _extreme(value, place) for name, value in sample.items()}


def _random(value: Tensor, reach: float, vocabulary: int | None, generator: torch.Generator) -> Tensor:
    """Return random values like those of `value`, of its shape: whole numbers within its range, others beyond it."""
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=generator) < 0.5
    if value.is_complex() or not value.numel():
        return value
    if not value.is_floating_point():
        low, high = value.min(), value.max()
        is_token = vocabulary is not None and int(low) >= 0 and 1 < int(high) < vocabulary  # else a mask, or numbers
        top = vocabulary if is_token and vocabulary is not None else int(high) + 1
        bottom = 0 if is_token else int(low)
        return torch.randint(bottom, max(top, bottom + 1), value.shape, generator=generator).to(value.dtype)
    low, high = value.amin(dim=0), value.amax(dim=0)
    span = (high - low).clamp(min=1e-3)
    drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64)
    return ((low - reach * span).double() + drawn * (1.0 + 2.0 * reach) * span.double()).to(value.dtype)


def _extreme(value: Tensor, place: float) -> Tensor:
    """Return zeros, or large numbers of a sign; of whole numbers the least and the greatest observed."""
    if value.dtype == torch.bool or value.is_complex() or not value.numel():
        return value
    if not value.is_floating_point():
        return torch.full_like(value, int(value.max() if place > 0 else value.min()))
    return torch.full_like(value, place * max(value.abs().max().item(), 1.0))


def part(inputs: Inputs, start: int, stop: int) -> Inputs:
    """Return some rows of a batch."""
    return {name: value[start:stop] for name, value in inputs.items()}


def length(inputs: Inputs) -> int:
    """Return the rows of a batch."""
    return len(next(iter(inputs.values())))


def is_repeatable(serving: Serving, inputs: Inputs) -> bool:
    """Return whether the model gives the same outputs for the same inputs again."""
    first, again = wanted_of(serving, inputs), wanted_of(serving, inputs)
    return all(difference(*pair, "").ratio <= NUDGE for pair in zip(first, again, strict=True))
