"""Large arguments cost little: one call must not hold up the others, and patterns must not look twice."""

from __future__ import annotations

import pytest

from trainwright.server.argument_repair import MAX_ARGUMENTS, normalized_arguments
from trainwright.server.surface import TOOLS
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.secret_kinds import known_in
from trainwright.trainer.config.value_coercion import coerced, number_in

pytestmark = pytest.mark.requirement("MCP-4")
MANY = 200_000


@pytest.mark.parametrize(
    "text", ["1" * MANY + "x", "1_" * MANY + "x", "1." + "1" * MANY, "1e" * MANY, "9" * 4400, "1e400"]
)
def test_a_long_text_is_no_number(text: str) -> None:
    assert number_in(text) is None


@pytest.mark.parametrize("text", ["1", "1.", "1.5", ".5", "1_000", "1_000.5", "1e-3", "-2", "+.5E+3", "20%"])
def test_numbers_are_read_as_before(text: str) -> None:
    assert number_in(text) == pytest.approx(float(text.rstrip("%")) / (100 if text[-1] == "%" else 1))


@pytest.mark.parametrize("text", ["://" * MANY, "http://a" * MANY, "://" + "&a" * MANY, "://" + "a-" * MANY])
def test_a_long_text_is_searched_for_secrets_once(text: str) -> None:
    assert list(known_in(text)) == []


def test_a_whole_number_beyond_any_float_is_left_to_be_refused() -> None:
    assert coerced(float, 10**400) == 10**400
    assert coerced(list[str], "," * MANY) == ["," * MANY], "one name, which nothing has, and no list of them"


def test_a_call_with_many_unknown_arguments_is_refused_before_they_are_looked_for() -> None:
    (tool,) = [one for one in TOOLS if one.name == "configure"]
    given = {f"unknown_{number}": 1 for number in range(MAX_ARGUMENTS + 1)}
    with pytest.raises(ConfigurationError, match="has 65 arguments, and at most 64 are read"):
        normalized_arguments(tool.fn_metadata.arg_model, given)
