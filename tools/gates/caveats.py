"""Caveats: what a project's figures do not show, for the head of its card and the words that end it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import found_leaks
from trainwright.tools.gates.rows_moved import Grown, rows_since
from trainwright.tools.gates.shown import certified_figure, gain
from trainwright.tools.gates.test_set_access import has_evaluated
from trainwright.trainer.data.cells import cell_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.looked_at import LookedAt, Opened

WEIGHTS = frozenset({".bin", ".ckpt", ".gguf", ".onnx", ".pt", ".pth", ".safetensors"})
"""Endings of files that hold weights; .npz and .h5 hold data as often."""
BEYOND_SHARE = 0.05
"""Of the held-out rows, from which on it is told that they lie beyond what training met."""
BEFORE_PLANNING = "How the rows were chosen and ordered, and the columns made, before planning is not known here."
MAX_FILES = 3


def caveats(evidence: Evidence) -> list[str]:
    """Return what the figures of a completed export do not show, a sentence each, what was measured first."""
    run = evidence.export
    if run is None or not run.is_complete:
        return []
    return [*(told for rule in RULES if (told := rule(evidence))), BEFORE_PLANNING]


def _scores_the_same(evidence: Evidence) -> str:
    """A predictor that learns nothing scores as the model does, on the same test rows."""
    tested = certified_figure(evidence.export, "test", evidence.goal_metric)
    look = evidence.smoke.part(LookedAt).splits.get("test") if evidence.smoke is not None else None
    if not tested or look is None:
        return ""
    worse = min(gain(evidence.goal, end) for end in tested.get("interval", [tested["value"]]))
    most = max((look.classes or {"": 0}).values()) / max(look.size, 1)
    constant = {name: max(value, most) if name == "accuracy" else value for name, value in look.constant.items()}
    known = {"the same answer for every row": constant, "the nearest train row's target": look.nearest_neighbour}
    scores = {who: found[evidence.goal_metric] for who, found in known.items() if evidence.goal_metric in found}
    alike = [f"{who} {score:.4g}" for who, score in scores.items() if gain(evidence.goal, score) >= worse]
    return f"Not shown to be better on the test rows than {' and '.join(alike)}." if alike else ""


def _division_chosen(evidence: Evidence) -> str:
    """Somebody chose how the rows are divided, by code, a column or a seed: the kindest of many ways could be it."""
    if evidence.smoke is not None and not evidence.smoke.data.split:
        return "The user's code divided the rows: how it chose those that test is not known here."
    data = evidence.config.data
    split: Any = getattr(data, "split", None)
    usual = SplitSection.model_fields["seed"].default
    if not isinstance(split, SplitSection) or split.by == "time":
        return ""
    if split.by == "given":
        return f"Which rows test is said by {split.of}: how these were chosen is not known here."
    if split.seed == usual:
        return ""
    return f"The rows were divided by seed {split.seed}, which was chosen, and not the usual {usual}."


def _left_out(evidence: Evidence) -> str:
    """Rows or files are in no split, or were in the release before and are gone."""
    if evidence.smoke is None:
        return ""
    skipped, grown = evidence.smoke.data.skipped, rows_since(evidence, evidence.smoke)
    told = f"{skipped} rows without a target, or files that could not be read, are in no split. " if skipped else ""
    return (told + _gone(evidence, grown) if grown is not None else told).strip()


def _tested_before(evidence: Evidence) -> str:
    """Rows on which a model was evaluated are for training now, as a column decides, or the time that has passed."""
    grown = rows_since(evidence, evidence.smoke) if evidence.smoke is not None else None
    if grown is None or not (grown.was_planned and grown.moved.test_in_train):
        return ""
    earlier = evidence.run(grown.since)
    if earlier is None or not has_evaluated(evidence, earlier):
        return ""
    about = "About " if grown.moved.estimated else ""
    return f"{about}{grown.moved.test_in_train} rows that tested {grown.since} are trained on now."


def _gone(evidence: Evidence, grown: Grown) -> str:
    if not (grown.moved.gone and grown.was_planned):
        return ""
    about = "about " if grown.moved.estimated else ""
    if grown.is_other:
        return (
            f"Of the rows of {grown.since} {about}{grown.moved.gone} are not found again: whether those that it tested "
            "on are trained on now, in another form, is not known here."
        )
    earlier = evidence.run(grown.since)
    names = earlier.data.class_names or [] if earlier is not None else []
    counts = [(name, grown.moved.gone_by_target.get(cell_of(name))) for name in names]
    classes = [f"{count[0]} of {count[1]} {name}" for name, count in counts if count is not None]
    by_class = f" ({_named(classes)})" * bool(classes)
    return f"Since {grown.since} {about}{grown.moved.gone} rows are gone{by_class}: its figures are of other rows."


def _began_from(evidence: Evidence) -> str:
    """The user's code opened files of weights, which may know the test rows."""
    opened = {name for one in _opened(evidence) for name in one.files}
    names = sorted(name for name in opened if PurePath(name).suffix.lower() in WEIGHTS)
    if not names:
        return ""
    return f"It begins from {_named(names)}: on which rows these were trained is not known here."


def _read_the_rows(evidence: Evidence) -> str:
    """The user's code opened the data's own files, which hold the rows that figures are of."""
    names = sorted({name for one in _opened(evidence) for name in one.sources})
    return f"The user's code itself read {_named(names)}, which holds the validation and test rows." if names else ""


def _read_more(evidence: Evidence) -> str:
    """The user's code opened files that are neither the built-in source's nor weights by their names."""
    found = {name for one in _opened(evidence) for name, file in one.files.items() if file.by_user}
    names = sorted(name for name in found if PurePath(name).suffix.lower() not in WEIGHTS)
    if not names:
        return ""
    return f"The user's code opened {_named(names)}: which held-out rows the model knows by that is not known here."


def _opened(evidence: Evidence) -> list[Opened]:
    runs = (evidence.final, evidence.baseline, evidence.export)
    return [one.part(Opened) for one in runs if one is not None]


def _could_hold_rows(evidence: Evidence) -> str:
    """The model has as many numbers that no training made as the test rows have."""
    untrained = evidence.final.resolved.untrained_numbers if evidence.final is not None else 0
    test = evidence.smoke.part(FixedRows).splits.get("test") if evidence.smoke is not None else None
    numbers = sum(math.prod(one.shape) for one in test.inputs.values()) if test is not None else 0
    if not numbers or untrained < numbers or _began_from(evidence):
        return ""
    return f"The model carries {untrained} numbers that training did not change: whether they are of rows is not known."


def _leaks_left(evidence: Evidence) -> str:
    """Planning found leaks that the project trained with."""
    left = [check for check in found_leaks(evidence) if check.severity != "info"]
    if not left:
        return ""
    more = f" And {len(left) - 1} more." if len(left) > 1 else ""
    return f"Planning found {left[0].place}, and it was left: {left[0].text.rstrip('.')}.{more}"


def _beyond_training(evidence: Evidence) -> str:
    """Many held-out rows hold what training never met, as later years do: a model says little of what is so."""
    exported = evidence.export.exported if evidence.export is not None else None
    skew = exported.skew if exported is not None else None
    if skew is None or not skew.beyond or max(skew.beyond.values()) < BEYOND_SHARE * skew.rows_compared:
        return ""
    columns = _named([f"{name} in {count}" for name, count in skew.beyond.items()])
    return f"Of {skew.rows_compared} held-out rows some lie beyond what training met: {columns}; so may those to come."


def _own_environment(evidence: Evidence) -> str:
    """Runs worked in an environment that whoever can write the project's folder can change."""
    environment = evidence.smoke.environment if evidence.smoke is not None else None
    if environment is None or not environment.path:
        return ""
    if environment.image_digest is not None:
        return (
            f"Runs worked in the image {environment.container_image}: its digest is recorded, what is in it nobody "
            "looked into, and the keys of its runs came through a pipe, which other processes of the user can read."
        )
    hooks = [PurePath(name).name for name in environment.hooks]
    starts = f", and Python starts there by running {_named(hooks)}" if hooks else ""
    return (
        f"Runs worked in the project's own environment (Python {environment.python}): its packages' versions are "
        f"recorded, not their content{starts}."
    )


RULES: tuple[Callable[[Evidence], str], ...] = (
    _scores_the_same, _leaks_left, _read_the_rows, _could_hold_rows, _left_out, _tested_before, _beyond_training,
    _division_chosen, _began_from, _read_more, _own_environment,
)  # fmt: skip


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else ""
    return f"{', '.join(names[:MAX_FILES])}{more}"
