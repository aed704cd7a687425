"""Own code in the call of a plan: a plan cannot look at it, and the call that creates its project needs no plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import MEASURED
from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.config.metric_words import NUMBER_METRICS

ENTRY = re.compile(r"[\w./-]+:[A-Za-z_]\w*")
"""`file.py:name` or `package.module:name`."""
TRAINER = re.compile(r"^[^#\n]*\b\w*Trainer\(", re.MULTILINE)
WHOLE = ({"data", "model"}, {"task"})
"""What a configuration names, either of them."""


def require_none(given: Mapping[str, Any], entry_of: Callable[[str, Any], dict[str, Any]]) -> None:
    """Refuse own code, with the call that goes on from there.

    Args:
        given: arguments of the plan.
        entry_of: gives what is no code of the user's as a configuration has it.

    Raises:
        ConfigurationError: the call names code of the user's.
    """
    own = {key: entry for key in ("data", "model", "task") if (entry := _entry(given.get(key))) is not None}
    if not own:
        return
    _refuse_trainer(own, str(given.get("code_root", ".")))
    if given.get("data") is not None and "data" not in own and "task" not in own:
        raise _refusal(
            own,
            f"Plan without it, then give create_project the plan's configuration with model {own['model']}",
            NextCall(tool="plan_training", arguments=_without_model(given), why="the rest is planned from the files"),
        )
    rest = {
        key: entry_of(key, given[key]) for key in ("data", "model") if given.get(key) is not None and key not in own
    }
    parts = {**own, **rest}
    if not any(whole <= parts.keys() for whole in WHOLE):
        lacking = "data" if "model" in parts else "model"
        raise _refusal(own, f"Name its {lacking} too, {lacking}='file.py:name' or a built-in one, and call again")
    goal, config = _goal(given), parts | ({"code_root": root} if (root := given.get("code_root", ".")) != "." else {})
    if goal is None:
        raise _refusal(own, f"Ask the user for a metric and its value, and call create_project with config={config}")
    config |= {"metrics": [goal["metric"]]} | ({"loss": "mse"} if goal["metric"] in NUMBER_METRICS else {})
    name = re.sub(r"[^a-z0-9]+", "-", next(iter(own.values()))["use"].partition(":")[0].removesuffix(".py").lower())
    call = {"name": name.strip("-")[:63], "intent": given["intent"], "goal": goal, "config": config}
    why = "its smoke run looks at the code; start_training(kind='probe') then measures rates and batch sizes"
    raise _refusal(own, "Create the project with it", NextCall(tool="create_project", arguments=call, why=why))


def _refuse_trainer(own: Mapping[str, dict[str, Any]], code_root: str) -> None:
    """Refuse a file that makes a Trainer, which is the configuration's own section. Raises ConfigurationError."""
    for entry in own.values():
        file, _, name = entry["use"].partition(":")
        try:
            text = Path(code_root, file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if TRAINER.search(text):
            use = f"{file}:{name if re.search(rf'^def {name}', text, re.MULTILINE) else 'make_trainer'}"
            raise ConfigurationError(
                f"{file} makes a Trainer, and a plan has nothing to decide there: its arguments are the script's.",
                remedy=f"create_project with config={{'trainer': {{'use': {use!r}}}}}, a function that returns it.",
                document="configs/own_trainer.md",
            )


def _entry(value: Any) -> dict[str, Any] | None:
    """Return an entry of the user's as a configuration has it; None for anything else."""
    use = value.get("use") if isinstance(value, dict) else value
    if not isinstance(use, str) or not ENTRY.fullmatch(use):
        return None
    return value if isinstance(value, dict) else {"use": use}


def _without_model(given: Mapping[str, Any]) -> dict[str, Any]:
    usual = {"goal": "balanced", "code_root": "."}
    return {
        name: value for name, value in given.items() if value not in (None, {}, usual.get(name)) and name != "model"
    }


def _goal(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the goal that the call or its sentence names; None where a part of it is missing."""
    named = [(one.word.metric, one.target) for one in spoken_goals(given["intent"]).named]
    metric, target = next(((name, value) for name, value in named if name and value is not None), (None, None))
    metric, target = given.get("metric") or metric, given.get("target") if given.get("target") is not None else target
    if metric not in MEASURED or target is None:
        return None
    return {"metric": metric, "direction": MEASURED[metric][0], "target": target}


def _refusal(own: Mapping[str, Any], remedy: str, call: NextCall | None = None) -> ConfigurationError:
    named = ", ".join(f"{key} {entry['use']!r}" for key, entry in own.items())
    return ConfigurationError(
        f"{named} cannot be looked at by a plan: code of yours runs in training runs only.",
        remedy=f"{remedy}.",
        document="configs/your_code.md",
        details={} if call is None else {"next": call.model_dump()},
    )
