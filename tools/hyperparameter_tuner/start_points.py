"""First trials of a search: the present configuration, then the guesses, before the method suggests any (TUNE-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.tools.hyperparameter_tuner.domain import Domain
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import near
from trainwright.trainer.config import SearchSection

ORIGIN = "origin"
"""Attribute of a trial that no method suggested."""
PRESENT, GUESS = "present", "guess"
NOTHING_BETTER = "the present configuration itself: the search found nothing better"


@dataclass(frozen=True)
class StartPoint:
    """Parameters of a trial that was given, not suggested."""

    parameters: dict[str, Any]
    origin: str


def start_points(search: SearchSection, domain: Domain) -> list[StartPoint]:
    """Return the search's first trials in order, each once, at most as many as it has trials."""
    points: dict[str, StartPoint] = {}
    if search.present_first and not why_not_present(domain):
        parameters = present_parameters(domain)
        points[canonical_json(parameters)] = StartPoint(parameters, PRESENT)
    for guess in search.guesses:
        parameters = completed(guess, domain)
        points.setdefault(canonical_json(parameters), StartPoint(parameters, GUESS))
    return list(points.values())[: search.trials]


def present_parameters(domain: Domain) -> dict[str, Any]:
    """Return the present configuration's values of the keys that are searched under them."""
    return domain.kept({key: domain.present.value(key) for key in domain.order})


def why_not_present(domain: Domain) -> str:
    """Return why the present configuration is none of the search's trials; empty where it is one."""
    parameters = present_parameters(domain)
    for key, value in parameters.items():
        if not domain.takes(key, value):
            return f"`{key}` = {value!r} is not {domain.where}"
    broken = domain.broken(parameters)
    return f"it does not meet {broken[0]}" if broken else ""


def begins_with(search: SearchSection, values: Mapping[str, Any]) -> list[str]:
    """Return a sentence where the search does not begin with the present configuration, though it was to."""
    why = why_not_present(Domain(search, values)) if search.present_first else ""
    return [f"the present configuration is none of the trials: {why}"] if why else []


def completed(guess: Mapping[str, Any], domain: Domain) -> dict[str, Any]:
    """Return a guess with the present values of the keys that it leaves out."""
    present = {key: domain.present.value(key) for key in domain.order if key not in guess}
    return domain.kept({**present, **guess})


def guess_problem(guess: Mapping[str, Any], domain: Domain) -> tuple[str, dict[str, Any] | None]:
    """Return what is wrong with a guess and, where that is known, the guess put right; ("", it) where nothing is."""
    shown = json.dumps(dict(guess))
    for key, value in guess.items():
        if key not in domain.space:
            meant = near(key, domain.space)
            hint = f"; did you mean `{meant[0]}`?" if meant else ""
            fixed = {meant[0] if name == key else name: other for name, other in guess.items()} if meant else None
            return f"guess {shown}: `{key}` is not searched{hint}", fixed
        if not domain.takes(key, value):
            range_ = domain.space[key].model_dump(mode="json", exclude_none=True, exclude={"when"})
            return f"guess {shown}: `{key}` = {value!r} is not {domain.where} {json.dumps(range_)}", None
    whole = completed(guess, domain)
    for key in guess:
        if key not in whole:
            fixed = {name: value for name, value in guess.items() if name != key}
            return f"guess {shown}: `{key}` is searched only when {json.dumps(domain.space[key].when)}", fixed or None
    for key, value in whole.items():
        if not domain.takes(key, value):
            return f"guess {shown} leaves `{key}` out, whose present value {value!r} is not {domain.where}", None
    broken = domain.broken(whole)
    return (f"guess {shown} does not meet {broken[0]}", None) if broken else ("", dict(guess))
