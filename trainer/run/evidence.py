"""Evidence that a worker leaves of a training run, as models: the worker fills them, the server reads them.

Each part is `artifacts/<file>.json`. Every field has a default; a part that was not written is empty, and false.
Free of torch. The results of replays, exports and probes are in results.py.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict


class Recorded(BaseModel):
    """Values that a worker recorded together; false where it recorded none of them."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=(), defer_build=True)

    def __bool__(self) -> bool:
        return bool(self.model_fields_set)

    def as_dict(self) -> dict[str, Any]:
        """Return the recorded values, as in the file."""
        return self.model_dump(exclude_unset=True)


class Part(Recorded):
    """One file of the evidence."""

    file: ClassVar[str]

    def __init_subclass__(cls, *, file: str, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.file = file


P = TypeVar("P", bound=Part)


class PartOf(cached_property[P]):
    """Attribute of a class with a method `part`: that part of the evidence, read once, at the first access."""

    def __init__(self, kind: type[P]) -> None:
        super().__init__(lambda run: run.part(kind))


class Git(Recorded):
    """State of the user's repository; untracked files count as changes."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    diff_digest: str | None = None
    untracked: int = 0
    untracked_by_name_only: int = 0


class Environment(Part, file="environment"):
    """Packages, hardware and repository (REPRO-3)."""

    python: str | None = None
    platform: str | None = None
    packages: dict[str, str] = {}
    """Version by normalised name."""
    packages_digest: str | None = None
    path: list[str] = []
    """Where they are looked for; empty: in the server's own environment."""
    overlay: list[str] = []
    """Those that the environment lacks, and that the worker found beside it."""
    hooks: dict[str, str] = {}
    """Of a project's own environment: files by which it runs code as Python starts, with their digests."""
    unreleased: list[str] = []
    """Distributions that came from a folder or a repository: no index has them."""
    import_tested: dict[str, str] = {}
    import_failures: dict[str, str] = {}
    torch: dict[str, Any] = {}
    hardware: dict[str, Any] = {}
    git: Git | None = None
    author: str | None = None
    """Whose work it is: the name that git is configured with there, else the user's."""
    container_image: str | None = None
    image_digest: str | None = None
    """Of the image that the configuration names; None: it names none."""
    lock_files: dict[str, str] = {}
    command_line: list[str] = []
    fingerprint_basis: dict[str, Any] = {}
    """Facts on which bits depend: where one differs, runs are not expected to be identical."""
    fingerprint: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The known facts on which bits depend, the driver's version among them; a fact that is absent is unknown."""
        basis = self.fingerprint_basis
        driver = self.hardware.get("driver") if basis.get("device") == "cuda" else None
        return {name: value for name, value in {**basis, "driver": driver}.items() if value is not None}


class Draws(Recorded):
    """Results of the worker's tests that seeds and settings work."""

    draws_repeat: dict[str, bool | None] = {}
    """By generator; None where there is no such generator."""
    nondeterministic_operation_refused: bool | None = None
    reason: str | None = None


class Reproducibility(Part, file="reproducibility"):
    """Seeds and deterministic settings, probed (REPRO-1, REPRO-2)."""

    seed: int | None = None
    seeded: dict[str, bool | None] = {}
    probe: Draws = Draws()
    settings: dict[str, Any] = {}
    exemptions: list[str] = []
    """Non-deterministic operations that the owner allows."""
    passed: bool = False


class Split(Recorded):
    """One split of the data."""

    size: int = 0
    different: int | None = None
    """Samples that differ, among those read; None: not counted."""
    fingerprint: str | None = None
    classes: dict[str, int] | None = None


class AlikeSamples(Recorded):
    """Almost equal inputs of two splits; `near`: with another of the first split in their surroundings."""

    splits: tuple[str, str]
    alike: int = 0
    near: int = 0
    first: int = 0
    """Distinct inputs of the first split."""
    second: int = 0
    tolerance: float | None = None
    examples: list[tuple[int, int]] = []
    """Indices of almost equal samples, (in the first split, in the second)."""


class Data(Part, file="data"):
    """Splits, fingerprints, overlap and source files (REPRO-4)."""

    source: str | None = None
    splits: dict[str, Split] = {}
    disjoint: bool = False
    shared_samples: int | None = None
    shared_examples: list[dict[str, int]] = []
    """The first of them: number by split, in the data's files where rows have one there, else in the split."""
    alike_samples: list[AlikeSamples] = []
    split: Any = None
    """How the samples were divided."""
    text: dict[str, Any] | None = None
    preprocessing: dict[str, Any] = {}
    preprocessing_digest: str | None = None
    columns: list[dict[str, str]] | None = None
    """Of a table: name, kind and why of each column; `ignore` is left out."""
    files: dict[str, str] = {}
    """Digest by path under the code root."""
    class_names: list[str] | None = None
    target_names: list[str] | None = None
    """Of targets (rows, targets) by their columns, where there are several."""
    feature_names: list[str] | None = None
    places: dict[str, int] = {}
    """Which input each column of a table is, of those that are one input."""
    wide: dict[str, list[int]] = {}
    """First input and width of the columns that are several: texts, dates with a time of day."""
    categories: dict[str, list[str]] = {}
    """Values of each column of categories, in the order of their codes."""
    input: dict[str, Any] = {}
    understood: dict[str, Any] = {}
    """What the data were taken for, as their source states it."""
    skipped: int = 0
    """Files that could not be read, or rows without a target, left out as the configuration allows."""
    skipped_files: list[str] = []
    """The first of them."""
    fingerprint: str | None = None
    first_look: str | None = None
    sampled: bool = False
    """Whether of some split only a sample was read."""

    @property
    def sizes(self) -> dict[str, int]:
        """Samples by split."""
        return {name: split.size for name, split in self.splits.items()}

    def by_kind(self, most: int) -> dict[str, list[str]] | None:
        """Return columns by kind, at most so many of each; None for plain numbers.

        Those left out are with their reason, numbers and dates with how they are written where that says something.
        """
        found: dict[str, list[str]] = {}
        is_plain = True
        for column in self.columns or []:
            name, kind, reason = column["name"], column["kind"], column["reason"]
            told = (
                reason if kind == "ignore" else reason.partition(" are numbers ")[2] or reason.partition(" written ")[2]
            )
            found.setdefault("left out" if kind == "ignore" else kind, []).append(f"{name}: {told}" if told else name)
            is_plain = is_plain and kind == "number" and not told
        return None if is_plain else {kind: one[:most] for kind, one in found.items()}

    def by_class(self, most: int) -> dict[str, str] | None:
        """Return the samples of each class by split, at most so many classes; None where there are none."""
        names = {str(number): name for number, name in enumerate(self.class_names or [])}
        found: dict[str, str] = {}
        read = "of a sample: " if self.sampled else ""
        for split, one in self.splits.items():
            listed = [f"{names.get(label, label)} {count}" for label, count in (one.classes or {}).items()]
            more = [f"and {len(listed) - most} more classes"] if len(listed) > most else []
            found |= {split: read + ", ".join([*listed[:most], *more])} if listed else {}
        return found or None

    @property
    def test(self) -> Split:
        """The test split; empty where the data has none."""
        return self.splits.get("test", Split())


class Code(Part, file="code"):
    """The user's imported files, and the engine."""

    files: dict[str, str] = {}
    digest: str | None = None
    meanings: dict[str, str] = {}
    """Digests of the files without comments, docstrings and formatting."""
    meaning: str | None = None
    engine_version: str | None = None
    engine_digest: str | None = None

    def forms(self) -> dict[str, set[str]]:
        """Return by which digests each file is known: of its bytes, and of its meaning where that is recorded."""
        return {name: {digest, self.meanings.get(name, digest)} for name, digest in self.files.items()}


class Imported(Part, file="imported"):
    """The distributions that the run imported."""

    packages: list[str] = []


class Metric(Recorded):
    """A metric of the run, and whether the user's code computes it."""

    name: str
    user_defined: bool = False


class Resolved(Part, file="resolved"):
    """Settings resolved before training: how the model is called, sizes, steps."""

    returns: str | None = None
    objective: str | None = None
    objective_rests_on: dict[str, Any] = {}
    judged_by: str | None = None
    inputs: str | None = None
    told: list[str] | None = None
    """Short sentences on how the model's call was understood."""
    parameters: int = 0
    trainable_parameters: int = 0
    untrained_numbers: int = 0
    """Of buffers and of parameters that training does not change."""
    model_class: str | None = None
    model_files: dict[str, str] = {}
    model_arguments: list[str] | None = None
    """Names that `model.args` may have; None: not known."""
    device: str | None = None
    precision: str | None = None
    products: dict[str, int] | None = None
    """Layers that computed a product on the first batch, by number format."""
    products_apart: list[str] = []
    """Names of layers, at most 20, whose products have another format than most."""
    batch_size: int | None = None
    """Samples in a micro-batch, whoever decided it."""
    accumulation_steps: int | None = None
    steps_per_epoch: int | None = None
    total_steps: int | None = None
    warmup_steps: int | None = None
    parameter_groups: list[dict[str, Any]] = []
    target_scaling: dict[str, Any] | None = None
    loss: str | None = None
    user_loss: bool = False
    """Whether the user's code computes it."""
    metrics: list[Metric] | None = None
    ignored_keys: list[str] | None = None
    """Keys that were set and have no effect with the other values; None: not known."""
    keys_without_effect: list[str] = []
    """All of them, set or not."""
    deepspeed: dict[str, Any] | None = None


class BestEpoch(Recorded):
    """The best epoch by the selection metric."""

    epoch: int | None = None
    step: int | None = None
    metric: str | None = None
    value: float | None = None
    metrics: dict[str, float] = {}
    checkpoint: str | None = None


def rank(value: float, loss: float | None, direction: str) -> tuple[float, float]:
    """Return what orders epochs, the best one first: the selection metric, and of equal values the validation loss."""
    return (value if direction == "minimize" else -value), math.inf if loss is None else loss


class Summary(Part, file="summary"):
    """Results and costs of a run that ended in order."""

    stop_reason: str | None = None
    epochs: int = 0
    steps: int = 0
    train_seconds: float = 0.0
    data_wait_fraction: float | None = None
    samples_per_second: float | None = None
    final: dict[str, float] = {}
    """Last validation values by name, and the train values as `train/<name>`."""
    problems: dict[str, str] = {}
    """Why metrics say nothing about the validation targets, by name; a smoke run looks at all of them."""
    best: BestEpoch | None = None
    weights_digest: str | None = None
    skipped_updates: int = 0
    non_finite_steps: int = 0
    peak_memory_bytes: int | None = None
    cpu_percent_mean: float | None = None
    gpu_percent_mean: float | None = None
    gpus_sampled: int = 1
    early_stopping: dict[str, Any] = {}

    @property
    def best_metrics(self) -> dict[str, float]:
        """Validation metrics at the best epoch; none where no epoch was validated."""
        return self.best.metrics if self.best is not None else {}
