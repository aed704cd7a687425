"""Evaluation of a trained model on its validation rows: figures that need predictions, and the predictions.

The worker records it when training is over, from the best epoch's weights, and never from test rows. The arrays of
`artifacts/predictions.npz` (numpy's format, without pickle; first dimension rows) are:

row            place in the validation split, (rows,)
target         class numbers (rows,), labels (rows, labels) of 0 and 1, or numbers (rows,) or (rows, numbers)
prediction     in the form of `target`; absent where a row has a class for each of its places
probability    (rows, classes) or (rows, labels), where there is room for them
loss           of the row alone, (rows,)
worst_images   of the worst rows, where inputs are images: (images, height, width, 1 or 3) of uint8
worst_targets, worst_predictions
               classes of these images' pixels where a row is a mask: (images, height, width) of uint8, 255 of none

And of some windows of a series, those of `Evaluation.forecasts` in order, the first target alone, in its own unit:

window_times     of the rows before the horizon and of the horizon, (windows, past + horizon): seconds since 1970, or
                 numbers of a column of numbers
window_values    what was measured then, (windows, past + horizon)
window_forecast  of the model, (windows, horizon)
window_naive     of the naive forecast, (windows, horizon)
"""

from __future__ import annotations

from trainwright.trainer.run.evidence import Part, Recorded

FILE = "predictions.npz"


class ShownRow(Recorded):
    """One validation row: its prediction beside its target."""

    row: int = 0
    """Place in the validation split."""
    source_row: int | None = None
    """Place among the rows that the data source read; None: not known."""
    loss: float = 0.0
    target: str | float | list[float] | None = None
    """Class name, or number in the target's unit."""
    prediction: str | float | list[float] | None = None
    probability: float | None = None
    """Of the predicted class."""
    inputs: dict[str, str | float | bool | None] = {}
    """Cells by column, of a table."""


class ShownWindow(Recorded):
    """One window of a series in the validation split, whose arrays are those of `window_...` at its place."""

    row: int = 0
    """Place in the validation split."""
    source_row: int = 0
    """Place among the rows that the data source read, of the first row that is forecast."""
    group: str | None = None
    """Whose series it is, where there are several."""
    chosen: str = "spread"
    """Why it is shown: spread evenly in time, or the best, the median, the worst, or among the worst."""
    score: float = 0.0
    rank: int = 0
    """Among the evaluated windows by the score, the best 1."""


class Forecasts(Recorded):
    """Forecasts of some windows of a series beside what was measured, and beside a naive forecast."""

    score: str = ""
    """What a window is ranked by, smaller is better: the metric that selects, or the loss of a row."""
    evaluated: int = 0
    """Windows that were ranked."""
    target: str = ""
    """The first one, which is shown."""
    targets: int = 1
    time: str = ""
    """Column of times."""
    is_dated: bool = False
    """Whether its times are dates."""
    every: str = ""
    """Time between two rows, in words."""
    naive: str = ""
    """The naive forecast in words."""
    quantile: float | None = None
    """Which the loss asks for; None: the middle."""
    windows: list[ShownWindow] = []


class Importance(Recorded):
    """How much worse the model is when one column's cells are permuted among the rows (Breiman 2001)."""

    column: str = ""
    """Its name; `sex + who` of columns of which one tells another, which are permuted together."""
    worsening: float = 0.0
    """Mean over the permutations, in the score's unit; above 0 the column matters."""
    deviation: float = 0.0
    """Standard deviation over the permutations."""
    interval: tuple[float, float] | None = None
    """Of the worsening, 95 %, over rows and permutations."""
    by_split: dict[str, float] = {}
    """The worsening on each split's rows."""

    @property
    def is_shown(self) -> bool:
        """Whether the interval lies above 0, and the worsening on each split; where there is none, the worsening."""
        least = self.interval[0] if self.interval is not None else self.worsening
        return min(least, *self.by_split.values(), least) > 0

    @property
    def interval_text(self) -> str:
        """Its interval for a table's cell."""
        return f"{self.interval[0]:.3g} to {self.interval[1]:.3g}" if self.interval is not None else "not measured"


class PermutationImportance(Recorded):
    """Importance of a table's columns, the largest first."""

    score: str = "loss"
    """Metric that is compared, or the mean loss of a row."""
    permutations: int = 0
    rows: int = 0
    splits: list[str] = ["validation"]
    """Whose rows these are."""
    columns: list[Importance] = []
    """Columns that tell each other are one, by both names."""
    alone: list[Importance] = []
    """Each of those by itself, while the others stay as they are."""
    left_out: int = 0
    """Columns that there was no time for."""

    @property
    def rows_text(self) -> str:
        """`60 validation and test rows`."""
        return f"{self.rows} {' and '.join(self.splits)} rows"


class Fifth(Recorded):
    """A fifth of the rows, by the order of targets or predictions."""

    low: float = 0.0
    high: float = 0.0
    error: float = 0.0
    """Mean of prediction - target."""
    standard_error: float = 0.0


class Ranges(Recorded):
    """Range of a predicted number beside that of its target, in the target's unit."""

    targets: tuple[float, float] = (0.0, 0.0)
    predictions: tuple[float, float] = (0.0, 0.0)
    deviation: float = 1.0
    """Standard deviation of the targets; above 0."""
    spread: float = 0.0
    """That of the predictions."""
    correlation: float = 0.0
    by_target: list[Fifth] = []
    """Five, the lowest first."""
    by_prediction: list[Fifth] = []


class Predictions(Recorded):
    """The file of arrays."""

    path: str = FILE
    """Below `artifacts/`."""
    digest: str | None = None
    bytes: int = 0
    arrays: list[str] = []


class Evaluation(Part, file="evaluation"):
    """Figures of the model on validation rows; `problem` says why there are none."""

    split: str = "validation"
    kind: str | None = None
    """classes, labels, numbers, or places: a class for each token or pixel of a row."""
    epoch: int | None = None
    checkpoint: str | None = None
    """None: the weights at the end of training."""
    size: int | None = None
    """Rows of the split."""
    rows: int = 0
    """Rows evaluated: all, or as many as the bounds allow."""
    loss: str | None = None
    """How a row's loss is computed: without weights, smoothing and the objective's further terms."""
    class_names: list[str] | None = None
    """Of labels too."""
    target_names: list[str] | None = None
    """Of numbers, where a row has several with a name."""
    confusion: list[list[int]] | None = None
    """Rows (or places) of each class, down, by predicted class, across."""
    ranges: list[Ranges] = []
    """Of each number that is predicted; empty of other kinds, and of under 50 rows."""
    worst: list[ShownRow] = []
    best: list[ShownRow] = []
    forecasts: Forecasts | None = None
    """Of windows of a series."""
    importance: PermutationImportance | None = None
    latency_ms: dict[str, float] | None = None
    """Median of a batch by its size, of the model in the training process on its device."""
    predictions: Predictions | None = None
    seconds: float = 0.0
    """What the evaluation cost the run."""
    problem: str | None = None

    def class_name(self, number: int) -> str:
        """Return a class by its number."""
        names = self.class_names or []
        return names[number] if 0 <= number < len(names) else str(number)
