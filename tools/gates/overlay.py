"""Overlay of a final run: the keys that say how long and how carefully it trains (PHASE-12, CONF-4).

The list is closed. Keys that decide what is learnt and how it is evaluated stay as the gates accepted; the run meets
that configuration's result by `finalization.drift_bounded`, and its replay repeats it with the overlay.
"""

from __future__ import annotations

from typing import Any

from trainwright.tools.documents import SKILL
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import apply_changes, config_digest, flatten, load_yaml, parse_config
from trainwright.trainer.config.cross_rules import without_the_trainers

KEYS = (
    "training.epochs", "training.max_steps", "training.validate_every_n_epochs", "training.device", "early_stopping",
    "schedule", "weight_averaging", "checkpoints", "distributed",
)  # fmt: skip
"""Keys, and sections with all that is below them."""
TEMPLATE = "production"
DOCUMENT = "phases/05_finalization/workflow.md"


def overlay_of(
    accepted: dict[str, Any], project: str, *, template: str | None, changes: dict[str, Any], searched: list[str]
) -> dict[str, Any]:
    """Return the dotted changes that a final run makes to the accepted configuration; empty where none has an effect.

    Args:
        accepted: the configuration that optimization accepted.
        template: production, whose keys of the list lie below the changes.
        searched: keys that a search decided; the template leaves them, and the section `schedule` where one is in it.

    Raises:
        ConfigurationError: a key that is not on the list; the remedy keeps the others.
    """
    wanted = _dotted(changes)
    refused = [key for key in wanted if not is_allowed(key)]
    if refused:
        raise _refusal(project, template, wanted, refused)
    below = _from_template(searched, is_handed_over=bool(accepted.get("trainer"))) if template else {}
    free = {key: value for key, value in below.items() if not any(key.startswith(f"{name}.") for name in wanted)}
    laid = dict(sorted({**free, **wanted}.items()))  # a section before its keys, as the ledger keeps it
    changed = apply_changes(accepted, laid)
    is_same = config_digest(parse_config(changed)) == config_digest(parse_config(accepted))
    return {} if is_same else laid


def is_allowed(key: str) -> bool:
    """Return whether a final run may set a key."""
    return any(key == name or key.startswith(f"{name}.") for name in KEYS)


def is_of_export(key: str) -> bool:
    """Return whether a key decides the export alone, which no run depends on."""
    return key.partition(".")[0] == "deployment" or key == "evaluation_gate.reference"


def accepts(accepted: dict[str, Any], overlay: dict[str, Any], digest: str) -> bool:
    """Return whether a run of this configuration digest is the accepted configuration with this overlay on the list."""
    laid = config_digest(parse_config(apply_changes(accepted, overlay)))
    return digest == laid and all(map(is_allowed, overlay))


def _dotted(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes by dotted key; a section on the list is not split, so that it can be replaced."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        found |= flatten({key: value}) if isinstance(value, dict) and not is_allowed(key) else {key: value}
    return found


def _from_template(searched: list[str], *, is_handed_over: bool) -> dict[str, Any]:
    path = SKILL / "configs" / f"{TEMPLATE}_template.yaml"
    values = load_yaml(path.read_text(encoding="utf-8"), source=path.name)
    values = without_the_trainers(values) if is_handed_over else values
    kept = any(key.startswith("schedule") for key in searched)
    whole = {} if kept or "schedule" not in values else {"schedule": values["schedule"]}
    flat = flatten({name: section for name, section in values.items() if name != "schedule"})
    return whole | {key: value for key, value in flat.items() if is_allowed(key) and key not in searched}


def _refusal(project: str, template: str | None, wanted: dict[str, Any], refused: list[str]) -> ConfigurationError:
    kept = {key: value for key, value in wanted.items() if key not in refused}
    rest = {key: wanted[key] for key in refused}
    alone = all(map(is_of_export, refused))
    then = "then export_model: no run depends on it" if alone else "the rest is another configuration, every gate anew"
    given = (f", template={template!r}" if template else "") + (f", changes={kept!r}" if kept else "")
    return ConfigurationError(
        f"A final run may not set {', '.join(refused)[:200]}; over the accepted configuration it may lay "
        f"{', '.join(KEYS)}.",
        remedy=f"start_training(project={project!r}, kind='final'{given}); configure(project={project!r}, "
        f"changes={rest!r}), {then}.",
        document=DOCUMENT,
        details={"kept": kept, "refused": refused},
    )
