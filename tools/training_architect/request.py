"""Request of a plan in one form: data, model, task, hardware, goal and limits, and what a person answered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from trainwright.tools.training_architect import own_code
from trainwright.tools.training_architect.facts import OTHER_NAMES, TASKS
from trainwright.tools.training_architect.places import named_in, place_of, tables_in, unread, unread_in
from trainwright.trainer.base.download_log import is_remote
from trainwright.trainer.base.errors import ConfigurationError, near
from trainwright.trainer.catalog.names import BUILT_IN, from_library

OF_DATA = ("text_column", "target_column", "time_column", "group_column", "series_group", "horizon")
"""Answers that stand in the data of a configuration."""
NO_GROUP = "none"
"""Answer to which column groups the rows, where none does."""
LIMITS = ("memory_gib", "hours", "dollars", "dollars_per_hour")


@dataclass(frozen=True)
class PlanRequest:
    """The call's arguments, in one form."""

    intent: str
    data: dict[str, Any] | None = None
    """{use, args}."""
    model: dict[str, Any] | None = None
    network: dict[str, Any] | None = None
    """A model of the user's, `file.py:name`, which a plan does not run."""
    task: str | None = None
    hardware: str | None = None
    goal: str = "balanced"
    limits: dict[str, float] = field(default_factory=dict)
    metric: str | None = None
    """Of the goal: one of ours, or `file.py:function`."""
    target: float | None = None
    code_root: str = "."
    noted: tuple[str, ...] = ()
    """What is to be said of how the data were found."""
    of_intent: frozenset[str] = frozenset()
    """What was read from the intent: hardware, and names of limits. The next call reads it again, and says so again."""

    def with_answers(self, answers: dict[str, Any]) -> PlanRequest:
        """Return the request with what a person answered: data and its columns, task, target, an hour's price.

        Raises:
            ConfigurationError: data that a plan cannot look at, or no task of that name.
        """
        given = {name: value for name, value in answers.items() if value}
        request = self
        if "dollars_per_hour" in given:
            request = replace(request, limits={"dollars_per_hour": given["dollars_per_hour"], **request.limits})
        request = replace(request, **{name: given[name] for name in ("metric", "target") if name in given})
        if "task" in given and self.task is None:
            request = replace(request, task=known_task(given["task"]))
        if "data" in given and self.data is None:
            request = replace(request, data=entry_of("data", given["data"]))
        for name in OF_DATA:
            if name in given and request.data is not None:
                request = replace(request, data=placed(request.data, name, given[name]))
        return request

    def with_network(self, root: Path) -> PlanRequest:
        """Return the request with the network of the file that the sentence names, where it, or the call, has data."""
        if self.network or self.model or self.task or not (self.data or named_in(self.intent, root)):
            return self
        found = own_code.network_in(self.intent, root)
        said = () if found is None else (f"model {found['use']!r} was read from the intent",)
        return replace(self, network=found, noted=(*self.noted, *said))

    def located(self, root: Path) -> PlanRequest:
        """Return the request with the file that the sentence names, and a folder's path for a model of a hub's name."""
        if self.data is None and (named := named_in(self.intent, root)) is not None:
            said = f"data {named!r} was read from the intent"
            return replace(self, data=entry_of("data", named), noted=(said,)).located(root)
        if self.data is None and (names := unread_in(self.intent, root)):
            raise unread(names)
        data = self.data or {}
        is_folder = data.get("use") == "images" and list(data["args"]) == ["path"]
        if is_folder and (found := tables_in(root, str(data["args"]["path"]))) is not None:
            return replace(
                self,
                data={**found[0], **data, **{key: found[0][key] for key in ("use", "args")}},
                noted=(*self.noted, found[1]),
            ).located(root)
        args = (self.model or {}).get("args") or {}
        hub = args.get("hub")
        if self.model is None or not hub or (place := place_of(root, str(hub))) is None or not place.is_dir():
            return self
        kept = {name: value for name, value in args.items() if name not in {"hub", "revision"}}
        return replace(self, model={"use": "transformers", "args": {**kept, "path": hub}})

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments with which plan_training is called again."""
        named = {
            "intent": self.intent, "data": self.data, "model": self.model or self.network, "task": self.task,
            "hardware": None if "hardware" in self.of_intent else self.hardware, "goal": self.goal,
            "limits": {name: value for name, value in self.limits.items() if name not in self.of_intent},
            "metric": self.metric, "target": self.target,
            "code_root": self.code_root if self.code_root != "." else None,
        }  # fmt: skip
        return {name: value for name, value in named.items() if value not in (None, {})}


def placed(data: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return data with an answer, one of OF_DATA, where a configuration has it."""
    if name == "time_column":
        return {**data, "split": {**(data.get("split") or {}), "by": "time", "time": value}}
    if name == "group_column":
        return {**data, "split": _split({**(data.get("split") or {}), "by": "group", "group": value})}
    args = dict(data.get("args") or {})
    if name in {"horizon", "series_group"}:
        args["series"] = {**(args.get("series") or {}), name.removeprefix("series_"): value}
    else:
        args[name.removesuffix("_column")] = value
    return {**data, "args": args}


def _split(given: Any) -> Any:
    """Return how rows are split: at random where the question of a group was answered with none."""
    if not isinstance(given, dict) or given.get("group") != NO_GROUP:
        return given
    return {**{name: value for name, value in given.items() if name != "group"}, "by": "random"}


def read_request(**given: Any) -> PlanRequest:
    """Return the call's arguments in one form. Raises ConfigurationError for unknown tasks, limits, or remote data."""
    if (network := own_code.own_model(given, entry_of)) is not None:
        given |= {"model": None, "network": network}
    for name in ("data", "model"):
        if given.get(name) is not None:
            given[name] = entry_of(name, given[name])
    given["task"] = known_task(given.get("task"))
    limits = given.get("limits") or {}
    wrong = [name for name, value in limits.items() if name not in LIMITS or not _is_positive(value)]
    if wrong:
        meant = near(wrong[0], LIMITS)
        raise ConfigurationError(
            f"limits.{wrong[0]} = {limits[wrong[0]]!r}: known are {', '.join(LIMITS)}, each a positive number.",
            remedy=f"Give {meant[0] if meant else 'memory_gib'} as a number.",
        )
    paths = (given.get("data") or {}).get("args", {}).get("path")
    if any(map(is_remote, paths if isinstance(paths, list) else [paths])):
        raise ConfigurationError(
            "The data lie elsewhere, and a plan reads files under code_root alone.",
            remedy="Plan with a sample of the rows in a file here, then give create_project the remote path.",
            document="configs/data_elsewhere.md",
        )
    return PlanRequest(**{name: value for name, value in {**given, "limits": limits}.items() if value is not None})


def known_task(name: str | None) -> str | None:
    """Return a task by our name or the library's. Raises ConfigurationError for others."""
    task = OTHER_NAMES.get(str(name), name)
    if task not in (None, *TASKS):
        raise ConfigurationError(
            f"task {str(task)[:60]!r} is not planned for; known: {', '.join(TASKS)}.", remedy="Leave task out."
        )
    return task


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def entry_of(key: str, given: Any) -> dict[str, Any]:
    """Return data or a model as {use, args}, from a file's name, a hub's id, a folder or a built-in name.

    Raises ConfigurationError for what a plan cannot look at.
    """
    known = BUILT_IN[f"{key}.use"]
    if isinstance(given, str) and given.startswith("<"):
        raise ConfigurationError(
            f"{key} {given[:80]!r} is a form that nobody has filled in.",
            remedy=f"Ask the user which {key} it is, and name {'the file or folder' if key == 'data' else 'it'}.",
        )
    if isinstance(given, str):
        given = _named(key, given, known)
    use = given.get("use")
    if key == "data" and isinstance(use, str) and PurePosixPath(use).suffix and ":" not in use:
        raise unread([use])
    if not isinstance(use, str) or use not in known:
        raise ConfigurationError(
            f"{key} {str(use)[:80]!r} cannot be looked at by a plan: code of yours runs in training runs only.",
            remedy=f"Name {'a file or a source' if key == 'data' else 'a folder, hub id or built-in model'}; "
            "with code of your own call create_project, then start_training(kind='probe').",
            document="configs/your_code.md",
        )
    beside = {name: value for name, value in given.items() if name not in {"use", "args", "split"}}
    split = {"split": _split(given["split"])} if given.get("split") else {}
    return {"use": use, "args": {**beside, **dict(given.get("args") or {})}, **split}


def _named(key: str, name: str, known: Any) -> dict[str, Any]:
    if name in known:
        return {"use": name}
    found = from_library(key, name)
    if found:
        use = found[f"{key}.use"]
        args = {part.rpartition(".")[2]: value for part, value in found.items() if ".args." in part}
        return {"use": use, "args": args}
    if key == "data":
        is_folder = ":" not in name and "." not in PurePosixPath(name).name
        return {"use": "images" if is_folder or name.endswith((".zip", ".tar")) else name, "args": {"path": name}}
    return {"use": "transformers", "args": {"path": name}} if "/" in name else {"use": name}
