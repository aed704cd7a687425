"""Laying changes over a configuration as it is meant: sections merge, and what belonged to another choice goes."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.config.meant import meant_by
from trainwright.trainer.config.overlay import laid_over


def merge_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with the changes laid over them; None removes a key. The result is not checked.

    A mapping is merged into the section that it names, as `{"optimizer": {"learning_rate": 0.01}}` and
    `{"optimizer.learning_rate": 0.01}` say the same. `settle` does the same, and checks the result.

    Raises:
        ConfigurationError: a key that is not dotted or goes through a single value, or a value that is not plain.
    """
    return laid_over(values, meant_by(changes, values).leaves)
