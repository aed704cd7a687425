"""The ablation study that a call asks for, read completely before anything is started."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from trainwright.tools.hyperparameter_tuner.ablation.design import (
    ONE,
    Arm,
    Contrast,
    Design,
    combination_name,
    design_of,
    level_name,
)
from trainwright.tools.hyperparameter_tuner.experiments.verdict import looks_up_to
from trainwright.tools.hyperparameter_tuner.space import held_by
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config import apply_changes, config_digest, merge_changes, parse_config

DOCUMENT = "phases/04_optimization/ablation.md"
KEY = "ablation"
"""Of the search that asks for one."""
MAX_FACTORS = 10
MAX_RUNS = 1000
BESIDE = {"width", "stalled_seconds"}
"""Keys of the search that hold for an ablation study too."""


class AblationSection(Closed):
    """An ablation study: factors, each with the values that take the place of the present one."""

    factors: dict[str, Annotated[list[Any], Field(min_length=1, max_length=20)]]
    """Dotted configuration key to alternative values."""
    combinations: Annotated[
        list[Annotated[dict[str, Any], Field(min_length=1)]], Field(max_length=20, default_factory=list)
    ]
    """Of several keys with one value each, trained beside the levels; with no factors either, the configuration alone
    is repeated."""
    design: Literal["one_at_a_time", "factorial"] = "one_at_a_time"
    repeats: Annotated[int, Field(ge=3, le=20)] = 5
    """Seeds, drawn by the server, on which every arm is trained."""

    @property
    def is_repetition(self) -> bool:
        """Whether nothing is changed: the configuration alone is repeated."""
        return not self.factors and not self.combinations


class ExperimentSection(Closed):
    """An experiment as the ledger keeps it: its state of code and configuration, and that of the incumbent."""

    idea: str
    number: int
    code: str
    """Digest of the snapshot of the code."""
    changes: dict[str, Any]
    against: str
    """The incumbent's name: `experiment-3`, or `planned`."""
    against_code: str
    against_changes: dict[str, Any]
    confirms: bool = False
    """Whether all of its seeds are trained before the only look."""
    look: int = 1
    """How many times the very same was judged, this one included."""
    margin: float = 0.0
    """How much worse it may be where it saves lines or parameters."""
    lines: tuple[int, int] = (0, 0)
    """Lines of code added to the incumbent's, and taken from it."""
    meanings: tuple[str, str] = ("", "")
    """Digests of what the incumbent's code and the experiment's do, however they are written."""

    @property
    def design(self) -> Design:
        """The incumbent and the experiment, and their difference."""
        name = f"experiment-{self.number}"
        arms = [Arm(self.against, self.against_changes, self.against_code), Arm(name, self.changes, self.code)]
        return Design(arms, [Contrast(f"{name}: {self.idea}", (-1.0, 1.0))], {})


class AblationSearch(Closed):
    """What `start_tuning` is given for one."""

    ablation: AblationSection
    experiment: ExperimentSection | None = None
    """Of an experiment, which `ablation.repeats` bounds."""
    width: Annotated[int, Field(ge=1, le=64)] = 1
    """Runs side by side."""
    stalled_seconds: Annotated[float, Field(ge=1.0, le=86_400.0)] = 1800.0
    """A run that makes no step for so long is ended and resumed once; one that hangs again has failed."""

    @property
    def design(self) -> Design:
        """The arms and contrasts."""
        return design_of(self.ablation) if self.experiment is None else self.experiment.design

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds after which it may end."""
        is_one = self.experiment is None or self.experiment.confirms
        return (self.ablation.repeats,) if is_one else looks_up_to(self.ablation.repeats)

    @property
    def runs(self) -> int:
        """Number of the study's runs."""
        return len(self.design.arms) * self.ablation.repeats

    def recorded(self) -> dict[str, Any]:
        """Return what the study's row and the ledger keep; `trials` counts against the project's limit."""
        of_experiment = {} if self.experiment is None else {"experiment": self.experiment.model_dump(mode="json")}
        return {**self.model_dump(mode="json", exclude={"experiment"}), **of_experiment, "trials": self.runs}


def is_ablation(search: dict[str, Any] | None) -> bool:
    """Return whether a search, as asked for or as recorded, is an ablation study."""
    return isinstance(search, dict) and KEY in search


def recorded_search(search: dict[str, Any]) -> AblationSearch:
    """Return the search that a study's row holds."""
    return AblationSearch.model_validate({name: value for name, value in search.items() if name != "trials"})


def checked_ablation(search: dict[str, Any], base: dict[str, Any], project: str) -> tuple[AblationSearch, list[str]]:
    """Return the search with its keys as they are meant, and how they were read.

    Args:
        base: values of the configuration that is the reference.

    Raises:
        ConfigurationError: it breaks the form, a key is unknown or cannot be varied, a level is the present value, or
            the factors do not fit the design; the remedy is the same call put right.
    """
    asked = _read(search, base, project)
    seen: set[str] = set()
    factors, problems, notes = _checked_factors(asked.ablation.factors, base, seen)
    combinations = _checked_combinations(asked.ablation.combinations, base, seen, problems, notes)
    section = asked.ablation.model_copy(update={"factors": factors, "combinations": combinations})
    if not problems and (text := _misfit(section)):
        problems, section = [text], section.model_copy(update={"design": ONE})
    right = asked.model_copy(update={KEY: section})
    if problems:
        left = right if len(right.design.arms) > 1 or asked.ablation.is_repetition else None
        raise refusal("; ".join(problems), left, base, project)
    if right.runs > MAX_RUNS:
        raise ConfigurationError(
            f"The design takes {right.runs} runs; at most {MAX_RUNS}.",
            remedy=f"Make the same call with fewer factors, levels or repeats, or with design {ONE!r}.",
            document=DOCUMENT,
        )
    for arm in right.design.arms:
        try:
            parse_config(apply_changes(base, arm.changes))
        except ConfigurationError as error:
            alone = right.model_copy(update={KEY: section.model_copy(update={"design": ONE})})
            raise refusal(
                f"The levels do not go together: {arm.name}: {error.message}", alone, base, project
            ) from error
    return right, notes


def checked_changes(changes: dict[str, Any], base: dict[str, Any], project: str) -> tuple[dict[str, Any], list[str]]:
    """Return one arm's changes by the keys that were meant, and how they were read. They have to be valid together.

    Raises:
        ConfigurationError: a key is unknown, or decides how results are judged, or the values do not go together.
    """
    held = [f"`{key}` cannot be varied: {why}." for key in changes if (why := held_by(key, base)) is not None]
    if held:
        raise ConfigurationError(
            "; ".join(held),
            remedy=f"Leave it out; for the whole project: configure(project={project!r}, changes={{…}}).",
            document=DOCUMENT,
        )
    merged = merge_changes(changes, base, argument="changes")
    parse_config(merged.values)
    return merged.changes, list(merged.notes)


def example(base: dict[str, Any]) -> dict[str, Any]:
    """Return a search that fits the configuration."""
    rate = parse_config(base).optimizer.rate()
    tried = [("optimizer.weight_decay", 0.0), ("schedule.name", "constant")]
    tried += [(rate[0], rate[1] / 2)] if rate is not None else []
    fitting = [(key, level) for key, level in tried if _level(key, level, base)[1] == ""]
    key, level = fitting[0] if fitting else ("training.epochs", parse_config(base).training.epochs + 1)
    return {KEY: {"factors": {key: [level]}}}


def refusal(
    text: str, right: AblationSearch | None, base: dict[str, Any], project: str, *, given: dict[str, Any] | None = None
) -> ConfigurationError:
    """Return the error with the search put right, or with an example of one."""
    whole = given or (right.model_dump(mode="json", exclude_defaults=True) if right is not None else example(base))
    return ConfigurationError(
        text,
        remedy=f"start_tuning(project={project!r}, search={json.dumps(whole)}).",
        document=DOCUMENT,
        details={"amend": {"search": whole}},
    )


def _read(search: dict[str, Any], base: dict[str, Any], project: str) -> AblationSearch:
    """Return the search in its form; single values count as lists of one, and bare keys as factors."""
    inner = search[KEY] if isinstance(search.get(KEY), dict) else {}
    own = {name: value for name, value in inner.items() if name in AblationSection.model_fields}
    rest = {name: value for name, value in inner.items() if name not in AblationSection.model_fields}
    if "factors" not in own and (rest or own):  # `repeats` alone: of the configuration
        own, rest = {**own, "factors": rest}, {}
    if isinstance(own.get("factors"), dict):
        own["factors"] = {
            key: value if isinstance(value, list) else [value] for key, value in own["factors"].items()
        }  # fmt: skip
    beside = {name: value for name, value in search.items() if name != KEY}
    try:
        return AblationSearch.model_validate({**beside, KEY: {**own, **rest}})
    except ValidationError as error:
        problems = error.errors(include_url=False)[:4]
    named = "; ".join(f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in problems)
    wrong = {tuple(map(str, one["loc"])) for one in problems}
    kept = {name: value for name, value in own.items() if not any(loc[:2] == (KEY, name) for loc in wrong)}
    further = {name: value for name, value in beside.items() if name in BESIDE and (name,) not in wrong}
    given = {KEY: kept, **further} if "factors" in kept else example(base)
    raise refusal(f"The ablation study is not valid: {named}.", None, base, project, given=given)


def _checked_factors(
    factors: dict[str, list[Any]], base: dict[str, Any], seen: set[str]
) -> tuple[dict[str, list[Any]], list[str], list[str]]:
    """Return the factors by the keys that were meant, without what is wrong, the problems, and the notes.

    Args:
        seen: the digests of the arms' configurations, which are added.
    """
    found: dict[str, list[Any]] = {}
    problems: list[str] = []
    notes: list[str] = []
    for key, levels in factors.items():
        for level in levels:
            (meant, value), problem, digest, said = _settled(key, level, base)
            if not problem and digest in seen:
                problem = f"`{level_name(key, level)}` is given twice."
            if problem:
                problems.append(problem)
                if meant is None:
                    continue
            notes += [note for note in said if note not in notes]
            if meant is not None and value not in found.setdefault(meant, []):
                seen.add(digest)
                found[meant].append(value)
    return found, problems, notes


def _checked_combinations(
    asked: list[dict[str, Any]], base: dict[str, Any], seen: set[str], problems: list[str], notes: list[str]
) -> list[dict[str, Any]]:
    """Return the combinations by the keys that were meant, without what is wrong; add digests, problems and notes."""
    found = []
    for combination in asked:
        settled = [_settled(key, level, base) for key, level in combination.items()]
        problems += [problem for _, problem, _, _ in settled if problem]
        notes += [note for *_, said in settled for note in said if note not in notes]
        meant = {key: value for (key, value), *_ in settled if key is not None}
        if not meant:
            continue
        try:
            digest = config_digest(parse_config(apply_changes(base, meant)))
        except ConfigurationError as error:
            problems.append(f"The levels do not go together: {combination_name(meant)}: {error.message}")
            continue
        if digest in seen:
            problems.append(f"`{combination_name(meant)}` is given twice.")
            continue
        seen.add(digest)
        found.append(meant)
    return found


def _settled(key: str, level: Any, base: dict[str, Any]) -> tuple[tuple[str | None, Any], str, str, list[str]]:
    """Return key and value as meant (None where nothing fits), the problem, the configuration's digest, and notes."""
    if (held := held_by(key, base)) is not None:
        return (None, level), f"`{key}` cannot be varied: {held}.", "", []
    digest, problem = _level(key, level, base)
    if not problem:
        return (key, level), "", digest, []
    if digest:  # it fits, and is the present value
        return (None, level), problem, digest, []
    try:
        merged = merge_changes({key: level}, base, argument="changes")
    except ConfigurationError as error:
        near = {name: value for name, value in error.details.get("changes", {}).items() if value == level}
        meant = next((name for name in near if not _level(name, level, base)[1]), None)
        return (meant, level), f"`{level_name(key, level)}`: {error.message}", "", []
    if len(merged.changes) != 1:
        return (None, level), problem, "", []
    meant, value = next(iter(merged.changes.items()))
    digest, problem = _level(meant, value, base)
    return (meant if not problem else None, value), problem, digest, list(merged.notes)


def _level(key: str, level: Any, base: dict[str, Any]) -> tuple[str, str]:
    """Return the digest of the configuration with one level, and what is wrong with it."""
    try:
        digest = config_digest(parse_config(apply_changes(base, {key: level})))
    except ConfigurationError as error:
        return "", f"`{level_name(key, level)}`: {error.message}"
    if digest == config_digest(parse_config(base)):
        return digest, f"`{level_name(key, level)}` is the present value: it would be compared with itself."
    return digest, ""


def _misfit(section: AblationSection) -> str:
    """Return why the factors do not fit the design; empty where they do."""
    count = len(section.factors)
    several = [key for key, levels in section.factors.items() if len(levels) > 1]
    if section.design == ONE:
        return ""
    if section.combinations:
        return f"A {section.design} design trains every combination of its factors by itself."
    if several:
        return f"A {section.design} design takes one alternative of each factor; `{several[0]}` has more."
    if count < 2:
        return f"A {section.design} design needs two factors or more; there is {count or 'none'}."
    return f"A {section.design} design takes at most {MAX_FACTORS} factors, not {count}." if count > MAX_FACTORS else ""
