"""Record of what was looked at: a smoke run's splits, and the user's files that a run opened. Free of torch.

Reported, and no gate by itself: whether chance explains near rows is for `trainwright.tools.gates.leakage`.
"""

from __future__ import annotations

from trainwright.trainer.run.evidence import AlikeSamples, Part, Recorded

TRANSFORMATIONS = {
    "none": "as they are or rounded",
    "scaled": "scaled and offset",
    "flipped": "flipped or turned",
    "shifted": "shifted by some pixels",
    "cropped": "cropped and enlarged",
}
"""In words, how train rows are brought close to held-out ones."""


class SplitLook(Recorded):
    """One split, and what predictors that learn nothing score on it, by metric."""

    size: int = 0
    compared: int = 0
    """Rows that were read for the scores and for near rows."""
    classes: dict[str, int] | None = None
    """Samples by class; None where targets are no classes."""
    constant: dict[str, float] = {}
    """Of the train split's most frequent class, or its mean target."""
    nearest_neighbour: dict[str, float] = {}
    """Of the target of the nearest train row."""


class NearRows(AlikeSamples):
    """Rows of the train split that a transformation brings close to held-out rows.

    The tolerance is a share of the median distance between a train row and the nearest other one.
    """

    transformation: str = ""


class LookedAt(Part, file="looked_at"):
    """Plain predictors' scores and near rows, as the smoke run measured them before training."""

    splits: dict[str, SplitLook] = {}
    transformations: list[str] = []
    """Under which near rows were searched."""
    near_rows: list[NearRows] = []
    not_compared: str | None = None
    """Why no rows were compared."""
    not_scored: str | None = None
    """Why plain predictors have no scores."""


class OpenedFile(Recorded):
    """A file as it was when the run opened it first."""

    bytes: int = 0
    digest: str | None = None
    """None: large, and changed or removed while the run was at work."""
    by_user: bool = False
    """Whether the user's code opened it, by whichever library."""


class Opened(Part, file="opened"):
    """Files under the code root that the run opened, by path below it; see `trainwright.trainer.user_code`.

    Neither the imported code nor the files of built-in sources, which the parts `code` and `data` name.
    """

    files: dict[str, OpenedFile] = {}
    """Opened for reading, and not written by the run itself before."""
    sources: list[str] = []
    """Files of the built-in source that the user's code opened too, beside the engine."""
    written: dict[str, str] = {}
    """Digests of the files that the run wrote, as it left them."""
    more: int = 0
    """Files beyond the number that is named."""


class Listing(Part, file="listing"):
    """The files under the code root at the end of the smoke run."""

    files: dict[str, int] = {}
    """Bytes by path."""
    unlisted: list[str] = []
    """Folders whose files are not listed: links, version control, packages, the workspace; beyond bounds."""
    is_cut: bool = False
    """Whether there were too many of these folders to name."""
