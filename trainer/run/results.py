"""Results of replays, exports and probes, as models: evidence of runs that train to compare, or not at all."""

from __future__ import annotations

from typing import Any, ClassVar

from trainwright.trainer.run.artifacts import Parity
from trainwright.trainer.run.evaluation import PermutationImportance
from trainwright.trainer.run.evidence import Part, Recorded, Split

ROWS = "rows.csv"
"""Of final_model/: number in the data's files and split of each row, where rows have such numbers."""


class TestSetAccess(Split, Part, file="test_look"):
    """The test split as an export is about to evaluate it."""

    __test__: ClassVar[bool] = False

    samples: list[str] = []
    """Digests."""
    inputs: list[str] = []
    """Digests of the samples without their targets, where these tell them apart."""
    source: str = ""
    """Digest of the files that hold the rows; empty where they are not known by their places there."""
    places: list[int] = []
    """Numbers of the rows in these files, of at most 20,000."""


class Comparison(Part, file="comparison"):
    """A replay against its source; of a short one the metrics alone (REPRO-5)."""

    steps: int | None = None
    identical: bool | None = None
    tensors: int | None = None
    different: list[dict[str, Any]] = []
    relative_difference: float | None = None
    weights_digest: str | None = None
    source_weights_digest: str | None = None
    metrics_identical: bool | None = None
    first_difference_step: int | None = None
    causes: list[str] | None = None
    fingerprint_differences: dict[str, Any] = {}


class Evaluated(Recorded):
    """A split as the export evaluated it; no metrics where the data has no such split."""

    size: int = 0
    fingerprint: str | None = None
    metrics: dict[str, float] | None = None


class Onnx(Parity):
    """The ONNX file, compared with the model."""

    opset: int | None = None
    inputs: dict[str, str] = {}
    """Type by name."""
    shapes: dict[str, list[Any]] = {}


class Variant(Recorded):
    """A smaller file of the ONNX program; without a path, `problem` says why there is none."""

    name: str = ""
    """fp16 or int8."""
    path: str | None = None
    """Below `artifacts/`."""
    digest: str | None = None
    """SHA-256."""
    bytes: int = 0
    share: float = 0.0
    """Of the program's bytes."""
    problem: str | None = None


class Skew(Recorded):
    """Raw inputs through the shipped predict.py, compared with what training gave the model."""

    kind: str = "table"
    """Of input."""
    answer: str = ""
    """Kind of it."""
    rows_compared: int = 0
    max_abs_difference: float = 0.0
    tolerance: float = 0.0
    passed: bool = False
    beyond: dict[str, int] = {}
    """Of the columns in which compared rows hold what training never met: how many do."""


class Loaded(Recorded):
    """The shipped load.py, whose model was compared with the trained one."""

    kind: str | None = None
    """How it makes the model; None: there is no load.py."""
    needs: str = ""
    made_with: dict[str, Any] | None = None
    """The call of its class or function, with the values that it was given: {__call__, args, options}."""
    problem: str | None = None
    """Why there is none."""
    rows_compared: int = 0
    max_abs_difference: float | None = None
    tolerance: float | None = None


class Safetensors(Recorded):
    """The file of weights, read back."""

    tensors: int | None = None
    reloaded_identical: bool | None = None


class Merged(Recorded):
    """An adapter taken into the weights, or read by peft, compared with base plus adapter.

    No `passed` where no row could be.
    """

    rows_compared: int = 0
    max_abs_difference: float | None = None
    largest_output: float | None = None
    tolerance: float | None = None
    passed: bool | None = None


class AdapterExport(Recorded):
    """The adapter of a run: alone in peft's layout, and merged where its kind can be."""

    kind: str | None = None
    folder: str | None = None
    """Below the model's folder: adapter_config.json and adapter_model.safetensors."""
    tensors: int = 0
    parameters: int = 0
    bytes: int = 0
    base: str | None = None
    """Hub id or folder of the frozen model; None: it comes from the run's seed, or from the user's code."""
    revision: str | None = None
    base_digest: str | None = None
    """Of the frozen tensors, as checkpoints have it."""
    reloaded_identical: bool | None = None
    merged_in: str | None = None
    """File or folder with the merged weights; None: it cannot be merged, or nothing was compared or agreed."""
    merged: Merged | None = None
    alone: Merged | None = None
    """What plain peft reads, beside the base from its hub or folder; None where it was not compared.

    It may differ where the run made a frozen layer anew, which is in the merged weights alone.
    """

    @property
    def is_sound(self) -> bool:
        """Whether the files give what base plus adapter gave."""
        return self.reloaded_identical is True and (self.merged is None or self.merged.passed is not False)


class Export(Part, file="export"):
    """The exported model: its files, its comparison with the trained one, and its metrics."""

    source_run: str | None = None
    checkpoint: str | None = None
    checkpoint_digest: str | None = None
    validation: Evaluated = Evaluated()
    test: Evaluated = Evaluated()
    safetensors: Safetensors = Safetensors()
    library: dict[str, Any] | None = None
    adapter: AdapterExport | None = None
    onnx: Onnx | None = None
    programs: dict[str, Parity] = {}
    """By file: programs for those who run PyTorch, compared with the model beside the evaluated one."""
    variants: list[Variant] = []
    """Of the ONNX program; the clean room evaluates them on the validation rows."""
    skew: Skew | None = None
    """Of the folder's predict.py; None: it was not there, or there was no raw input to compare."""
    unproven: str = ""
    """Why there was none."""
    loaded: Loaded | None = None
    """None where nothing could be called."""
    latency_ms: dict[str, float] | None = None
    importance: PermutationImportance | None = None
    """Of a table's columns, on validation and test rows together; None: the run's own, of validation rows, is all."""
    files: dict[str, dict[str, Any]] = {}
    """{bytes, digest} by name in the folder."""


class Trace(Part, file="trace"):
    """A trace of a few steps by PyTorch's profiler."""

    steps: int = 0
    path: str | None = None
    """Below the run's folder; None: it was too large to keep."""
    bytes: int = 0
    operations: list[dict[str, Any]] = []
    """{name, calls, self_ms} of those that took longest themselves."""


class Bottleneck(Recorded):
    """The part of a step that is worth shortening, and the changes that would."""

    phase: str | None = None
    percent: float | None = None
    why: str | None = None
    changes: dict[str, Any] = {}


class Profile(Recorded):
    """Time and memory of a step."""

    steps: int = 0
    step_ms: float | None = None
    phases_ms: dict[str, float] = {}
    phases_percent: dict[str, float] | None = None
    samples_per_second: float | None = None
    peak_memory_bytes: int | None = None
    epoch_seconds: float | None = None
    run_seconds: float | None = None
    bottleneck: Bottleneck = Bottleneck()


class Suggestion(Recorded):
    """Suggestion of a range test of learning rates, or of batch sizes."""

    suggested: float | None = None
    why: str | None = None


class RateTest(Suggestion):
    """The range test of learning rates."""

    steps: int = 0
    ended: str | None = None
    points: list[tuple[float, float, float]] = []
    """(rate, loss, smoothed loss) of each step."""
    at_minimum: float | None = None
    plot: str | None = None


class SizeTest(Suggestion):
    """The range test of batch sizes."""

    suggested: int | None = None
    tried: list[dict[str, Any]] = []
    """{batch_size, and samples_per_second and peak_memory_bytes, or failure}."""


class ThreadTest(Suggestion):
    """The steps' times by number of CPU threads."""

    suggested: int | None = None
    tried: dict[int, float] = {}
    """Milliseconds of a step by number of threads."""


class Probe(Part, file="probe"):
    """Measurements of a run's first steps by a probe run."""

    profile: Profile = Profile()
    learning_rate: RateTest = RateTest()
    batch_size: SizeTest = SizeTest()
    threads: ThreadTest = ThreadTest()
    schedule_plot: str | None = None
    changes: dict[str, Any] | None = None
