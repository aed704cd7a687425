"""A leak that each of several targets has is one name: what is proposed for it is what a run takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.leak_prices import changes_without_leak, unpriced
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.validation import Report, Validation, Verdict

CHANGES = {"data.split.drop_copies": True}


def duplicate(severity: Literal["info", "warning"], **details: Any) -> Verdict:
    return Verdict(family="leaks", name="leak_duplicate", severity=severity, passed=False, details=details)


@pytest.mark.requirement("PIPE-2")
def test_of_equal_findings_of_several_targets_the_one_that_can_be_removed_is_priced() -> None:
    report = Report(checks=[duplicate("warning", changes=CHANGES), duplicate("info")])
    evidence: Any = SimpleNamespace(
        name="titanic", config_digest="d", facts=SimpleNamespace(started={}),
        smoke=SimpleNamespace(part=lambda _: Validation(report=report)), baseline=SimpleNamespace(is_complete=True),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments=arguments),
    )  # fmt: skip
    call = unpriced(evidence)
    assert call is not None
    assert changes_without_leak(evidence, RunKind.LEAK_PRICE, call.arguments["finding"], {}) == CHANGES
