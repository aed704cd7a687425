"""Files of the user's code that a changed configuration names, held to those that planning's smoke run imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trainwright.tools.gates.records import Records
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.config import TrainingConfig, flatten
from trainwright.trainer.config.schema import FUNCTION


def parts_of(config: TrainingConfig) -> dict[str, Any]:
    """Return the parts that a configuration names, by key: `{"model.use": "net.py:Net", "loss": "mse"}`."""
    values = flatten(config.model_dump(mode="json"))
    return {key: value for key, value in values.items() if key.endswith("use") or _names_code(value)}


def require_planned_code(evidence: Records, changes: Iterable[Mapping[str, Any]], *, called: str) -> None:
    """Refuse changes that name code which planning's smoke run did not import: their runs would end as they begin.

    Args:
        changes: of one run each, dotted keys to values.
        called: what is to be started: `An ablation`.

    Raises:
        ConflictError: names the files, and the call by which every run imports them.
    """
    if evidence.smoke is None:
        return
    values = [value for one in changes for value in flatten(dict(one)).values()]
    named = {value.partition(":")[0].removeprefix("./") for value in values if _names_code(value)}
    if new := sorted(named - evidence.smoke.code.files.keys()):
        added = {"code_files": sorted({*evidence.config.code_files, *new})}
        raise ConflictError(
            f"{called} keeps the code that planning fixed, and {', '.join(new)} is new.",
            remedy=f"configure(project={evidence.name!r}, changes={added!r}, reason='variants to compare'), and then "
            "advance: every run imports these files, so that planning fixes them.",
            document="phases/04_optimization/ablation.md",
            details={"files": new},
        )


def _names_code(value: Any) -> bool:
    return isinstance(value, str) and re.match(FUNCTION, value) is not None
