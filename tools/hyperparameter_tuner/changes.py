"""Ledger entries about a study: an ablation study's are of a kind of their own, which no gate reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.ledger.events import AblationChanged, StudyChanged

if TYPE_CHECKING:
    from trainwright.tools.workspace.tables import Study


def change_of(study: Study, state: str, **fields: Any) -> StudyChanged | AblationChanged:
    """Return the event that brings a study to a state."""
    kind = AblationChanged if study.is_ablation else StudyChanged
    return kind(study_id=study.id, state=state, **fields)
