"""Values of a sample become arrays, or are named: lists of numbers are what tokenised data sets hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.plain_values import plain_sample

pytestmark = pytest.mark.requirement("TRAIN-7", "GATE-6")


def test_a_row_of_a_tokenised_data_set_is_the_same_as_its_arrays() -> None:
    lists: dict[str, Any] = {"input_ids": [5, 6, 7], "shares": [0.25, 0.5], "label": 1}
    found, wanted = plain_sample(lists), plain_sample({name: np.array(value) for name, value in lists.items()})
    assert found.target == wanted.target
    assert found.inputs.keys() == wanted.inputs.keys()
    for name, array in found.inputs.items():
        assert array.dtype == wanted.inputs[name].dtype
        np.testing.assert_array_equal(array, wanted.inputs[name])


@pytest.mark.parametrize("value", [[], [[1, 2], [3]], [1, None], ["a"], [2**70], [1, "2"]], ids=repr)
def test_a_list_of_anything_else_is_named_with_what_to_return(value: list[Any]) -> None:
    with pytest.raises(DataError, match="`input_ids` is .* no plain array") as caught:
        plain_sample({"input_ids": value, "label": 0})
    assert caught.value.remedy
