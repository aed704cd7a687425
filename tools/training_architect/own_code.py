"""Own code in the call of a plan: a plan cannot look at it, and the call that creates its project needs no plan."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.training_architect.places import is_inside, place_of
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import MEASURED
from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.config.metric_words import NUMBER_METRICS
from trainwright.trainer.config.search_words import is_asked

ENTRY = re.compile(r"[\w./-]+:[A-Za-z_]\w*")
"""`file.py:name` or `package.module:name`."""
FILE = re.compile(r"[\w./-]*\w\.py\b")
MODULES = ("Module", "nn.Module", "torch.nn.Module")
TRAINER = re.compile(r"^[^#\n]*\b\w*Trainer\(", re.MULTILINE)
WHOLE = ({"data", "model"}, {"task"})
"""What a configuration names, either of them."""


def own_model(given: Mapping[str, Any], entry_of: Callable[[str, Any], dict[str, Any]]) -> dict[str, Any] | None:
    """Return a model of the user's that is named beside files, which can be planned; None where no code is named.

    All else of own code is refused, with the call that goes on from there.

    Args:
        given: arguments of the plan.
        entry_of: gives what is no code of the user's as a configuration has it.

    Raises:
        ConfigurationError: the call names code of the user's.
    """
    own = {key: entry for key in ("data", "model", "task") if (entry := _entry(given.get(key))) is not None}
    if not own:
        return None
    _refuse_trainer(own, str(given.get("code_root", ".")))
    if own.keys() == {"model"} and given.get("data") is not None:
        return own["model"]
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


def network_in(intent: str, root: Path) -> dict[str, Any] | None:
    """Return the only network of the only file of code under the root that a sentence names; None for none or several.

    The file is parsed, and not run. A file that does more than define things is a script, and no network's.
    """
    named = [one for one in FILE.finditer(intent) if is_asked(intent[: one.start()])]
    places = {place_of(root, one[0]) for one in named}
    files = [place for place in places if place is not None and is_inside(root, place)]
    if len(files) != 1:
        return None
    try:
        body = ast.parse(files[0].read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return None
    is_script = any(isinstance(one, ast.For | ast.While | ast.With) or _is_a_call(one) for one in body)
    networks = [one.name for one in body if isinstance(one, ast.ClassDef) and _is_network(one)]
    if is_script or len(networks) != 1:
        return None
    return {"use": f"{files[0].relative_to(root.resolve())}:{networks[0]}"}


def _is_a_call(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)


def _is_network(one: ast.ClassDef) -> bool:
    """Whether it derives from torch's Module alone, is made without arguments, and maps one input: a loss takes two."""
    methods = {part.name: part for part in one.body if isinstance(part, ast.FunctionDef)}
    if "forward" not in methods or not any(ast.unparse(base) in MODULES for base in one.bases):
        return False
    made = _required(methods["__init__"]) if "__init__" in methods else 1
    return (made, _required(methods["forward"])) == (len(("self",)), len(("self", "input")))


def _required(method: ast.FunctionDef) -> int:
    """Return how many arguments a method has to be given, `self` among them."""
    of = method.args
    by_name = sum(default is None for default in of.kw_defaults)
    return len(of.posonlyargs) + len(of.args) - len(of.defaults) + by_name


def refuse_texts(model: Mapping[str, Any]) -> ConfigurationError:
    """Return the refusal to plan texts for a network of the user's, which takes tokens of a tokenizer of its own."""
    return ConfigurationError(
        f"{model['use']!r} is code of yours, and a plan of texts settles model and tokenizer together.",
        remedy=f"create_project with config={{'model': {dict(model)!r}, 'data': …}}; the page shows texts as data.",
        document="configs/text.md",
    )


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
