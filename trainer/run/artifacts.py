"""Evidence for an independent evaluation: the rows fixed at planning, and the program that a run exported.

A clean process (clean_room) evaluates the program on the rows: neither of them needs the user's code. Digests here are
SHA-256, which it can compute with Python's own library. Free of torch.
"""

from __future__ import annotations

from typing import Any

from trainwright.trainer.run.evidence import Part, Recorded

ROWS = "rows"
"""Folder of the arrays, in the artifacts of the run that fixed them."""


class Array(Recorded):
    """One array of fixed rows, first dimension rows, as a .npy file.

    Rows of different shapes are flattened one behind the other; `shapes` is then the array of their shapes,
    (rows, dimensions).
    """

    path: str
    """Below `artifacts/`."""
    digest: str
    dtype: str
    shape: list[int]
    shapes: Array | None = None


class FixedSplit(Recorded):
    """The rows of one split, as they come from the data, before any collation."""

    size: int = 0
    """Of the split."""
    rows: int = 0
    """Kept: all, or a sample drawn by a seed that no code of the user's knew beforehand."""
    chosen: Array | None = None
    """Indices of the rows kept; None: all of them."""
    inputs: dict[str, Array] = {}
    """By the name of the model's input: `input`, or `input_0`, `input_1` … in the order of the call, or keywords."""
    order: list[str] = []
    """Names of the inputs, in the order in which a sample has them."""
    target: Array | None = None
    groups: Array | None = None
    """Number of each row's group, (rows,), where rows are split by groups: those of one are not independent."""
    whole_groups: bool = False
    """Whether the rows kept are those of whole groups, where not all are kept."""
    grouped_by: str = "groups"
    """What the groups are: `times`, where a split by time has several rows at each."""
    bytes_per_target: float = 1.0
    """Mean UTF-8 bytes behind a target, of text."""


class FixedRows(Part, file="fixed_rows"):
    """Validation and test rows that planning fixed; `problem` says why there are none."""

    splits: dict[str, FixedSplit] = {}
    problem: str | None = None
    remedy: str | None = None
    target_scaling: dict[str, Any] | None = None
    """Mean and scale of the train split's targets, where the loss is computed in deviations from the mean."""
    naive_errors: list[float] = []
    """What the value one season before is off by on the train rows of a series, of each target: the scale of mase."""
    train_counts: list[list[float]] = []
    """Train targets of each class, (1, classes), or negatives and positives of each label, (2, labels).

    Only where the loss has weights that are measured by them.
    """
    first: list[str] = []
    """Digests of the first train samples of the user's code, as the process that fixed the rows read them."""
    seconds: float = 0.0
    """What fixing them cost the run."""
    validation: str | None = None
    """Digest of the part `validation`, whose verdicts the same process made."""
    signature: str | None = None
    """By a key that the worker forgot before it imported user code."""


class Parity(Recorded):
    """An exported program, compared with the trained model."""

    rows_compared: int = 0
    random_compared: int = 0
    extreme_compared: int = 0
    batch_sizes: list[int] = []
    max_abs_difference: float = float("nan")
    largest_output: float | None = None
    ratio: float | None = None
    """The largest difference of a batch, by its largest output where that is above 1: what the tolerance bounds."""
    tolerance: float | None = None
    passed: bool = False


class Program(Part, file="program"):
    """The program that a run exported of its best checkpoint.

    `problem` says why there is none; beside a path, why its figures may differ from the reported ones.
    """

    form: str | None = None
    """onnx or torch_export."""
    path: str | None = None
    """Below `artifacts/`."""
    digest: str | None = None
    data: dict[str, str] = {}
    """Digests of the files beside it with its weights, by name: of an ONNX program above 2 GB."""
    bytes: int = 0
    """Those files included."""
    inputs: list[str] = []
    outputs: list[str] = []
    checkpoint: str | None = None
    checkpoint_digest: str | None = None
    parity: Parity = Parity()
    seconds: float = 0.0
    """What making it cost the run."""
    problem: str | None = None
    remedy: str | None = None


class ExportProbe(Part, file="export_probe"):
    """The export that a smoke run tried of its model, as ONNX.

    `reason` says why it was not tried, `problem` why there would be no ONNX.
    """

    parity: Parity = Parity()
    difference: float | None = None
    """By which the program differs from the model, of its largest output where above 1; None: not for that."""
    reason: str = ""
    problem: str = ""
    remedy: str = ""
    changes: dict[str, Any] = {}
    """Of the configuration, under which the model is exported all the same."""
    own_reason: str = ""
    """Why the user's `data.prepare` and `data.present` were not tried, though there are such."""
    own_problem: str = ""
    """Why they would not answer raw inputs as the model does."""
    own_remedy: str = ""
    own_meanings: dict[str, str] = {}
    """Digest of what each file of these functions meant, by its name below the code root."""
    answers_outputs: bool = False
    """Whether, without a `data.present`, answers would be outputs that nothing says the meaning of."""
    seconds: float = 0.0
    """What it cost the run."""
