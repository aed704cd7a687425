"""The one decision on what comes next: typed facts in, the first thing that applies, one call out.

`next`, `advance`, diagnoses and refusals print what is decided here; nothing else proposes. The facts are gathered
elsewhere: of a project in `next_call.py`, of the run that is asked about in `projects/about_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from trainwright.tools.answers import NextCall
from trainwright.trainer.base.records import Frozen

LOOKS_AT_TEST = frozenset({"export_model"})
"""Tools that use the test split."""


class Option(Frozen):
    """A call that may help, and what is known against it."""

    call: NextCall
    vain: str = ""
    """Why it would be refused, or repeat a known result; empty where it may help."""
    seconds: float | None = None
    """How long it takes, where that is known."""


class About(Frozen):
    """The run that a call asks about; empty where nothing is to be done about it."""

    lost: Option | None = None
    """Stops it: what it trains from here on is lost."""
    tried: Option | None = None
    """Waits for fixes of it, which are being tried."""
    broken: Option | None = None
    """Completes it, or starts another."""
    cures: list[Option] = Field(default_factory=list)
    """Fixes of its alerts, the proven ones first; none where it meets the goal."""


class Facts(Frozen):
    """What a proposal depends on. An option is absent where there is no reason for it."""

    about: About = About()
    is_finished: bool = False
    later: Option | None = None
    """Of a finished project: what its intent names for after the release."""
    trial: Option | None = None
    """Waits for fixes that are being tried, whose result would come too late for a later phase."""
    leak: Option | None = None
    """Takes out a column that gives the target away, at a measured price."""
    better: Option | None = None
    """Takes over what an ablation showed to be better than what would be released."""
    idea: NextCall | None = None
    """Goes on with ideas that are tried as experiments, for which an edited folder is the next one."""
    closed: list[Option] = Field(default_factory=list)
    """Remedies of the checks that keep the gate closed, in order; then alternatives."""
    document: NextCall | None = None
    """Of a closed gate: what to read where no call is left."""
    price: Option | None = None
    """Measures the price of such a column."""
    cures: list[Option] = Field(default_factory=list)
    """Fixes of the baseline's alerts that cured in short runs, before diagnostics are decided."""
    search: Option | None = None
    """A search that somebody asked for or began, or that a goal met by chance alone asks for."""
    gate: Option | None = None
    """Passes the gate, which no check keeps closed."""
    seconds_left: float | None = None
    """Of the time that the project may take."""
    after: NextCall | None = None
    """The call being answered, where it changes nothing."""


def decide(facts: Facts) -> NextCall | None:
    """Return the call to make now; None where nothing is left to do."""
    open_now = (option for option in _in_order(facts) if option is not None and not _against(facts, option))
    return next((option.call for option in open_now), None)


def _in_order(facts: Facts) -> Iterator[Option | None]:
    """Give what may be proposed, the most urgent first."""
    yield facts.about.lost  # a run whose further steps are lost is stopped, whatever else there is
    yield facts.about.tried  # the result of fixes under trial decides the rest
    if facts.is_finished:
        yield facts.later
        return  # a release wants nothing else; old alerts neither
    yield facts.about.broken
    yield facts.trial
    yield from facts.about.cures  # a sick run is cured before anything is built on it
    yield facts.leak
    yield from facts.cures  # a known cure comes before the gate, and before any search
    yield facts.better  # it costs nothing more to know, and no search begins from worse
    if facts.idea is not None:
        yield Option(call=facts.idea)  # before a gate that the edited code has closed: gates wait for the winner
    if facts.closed:
        yield from _opening(facts)
        return  # behind a closed gate nothing further is proposed
    yield facts.price
    yield facts.search  # skipping a search that was asked for is a decision, and not ours
    yield facts.gate


def _opening(facts: Facts) -> Iterator[Option]:
    """Give the calls that may open a closed gate, check by check, naming what is passed over; then the document.

    The test split is used only while no earlier check fails: a replay that failed stops the project.
    """
    passed_over, is_first = "", True
    for option in facts.closed:
        if is_first or option.call.tool not in LOOKS_AT_TEST:
            yield _naming(option, passed_over)
        passed_over, is_first = passed_over or _against(facts, option, named=True), False
    if facts.document is not None:
        yield _naming(Option(call=facts.document), passed_over)


def _naming(option: Option, passed_over: str) -> Option:
    why = f"{option.call.why} ({passed_over})"
    return option.model_copy(update={"call": option.call.model_copy(update={"why": why})}) if passed_over else option


def _against(facts: Facts, option: Option, *, named: bool = False) -> str:
    """Return why a call is not proposed; empty where nothing is known against it.

    Args:
        named: only what there is to say about it.
    """
    if option.vain:
        return option.vain
    if facts.seconds_left is not None and option.seconds is not None and option.seconds > facts.seconds_left:
        return f"{option.call.tool} takes {option.seconds:.0f} s, and {max(facts.seconds_left, 0.0):.0f} s are left"
    is_answered = facts.after is not None and _same(option.call, facts.after)
    return "it is being answered" if is_answered and not named else ""


def _same(one: NextCall, other: NextCall) -> bool:
    return (one.tool, one.arguments) == (other.tool, other.arguments)
