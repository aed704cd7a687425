"""Histograms hold what was there: the entries of the weights after a step, in bins whose edges are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.watch.test_bits import trained

from trainwright.trainer.run.histograms import HISTOGRAMS, LAST_BIN, left_edge, new_histograms
from trainwright.trainer.watch.inspectors.histograms import MOST_PARAMETERS, SAMPLED, bins_of, chosen, counts_of

VALUES: dict[str, Any] = {"model": {"use": "mlp", "args": {"hidden": [8]}}, "data": {"use": "iris"}}
ODD = [0.0, -0.0, 1e-45, -1e-30, 1.0, 1.4999999, 1.5, -1.5, -1.0, 2.0, 3.0, 6.0, 0.1, -0.3, 1e30, -3e38, 2.0**-40]


@pytest.mark.requirement("TRACK-1")
def test_each_number_is_in_the_bin_that_its_edges_hold() -> None:
    values = np.array(ODD, dtype=np.float32)
    for value, number in zip(values, bins_of(values), strict=True):
        if abs(number) < LAST_BIN:
            assert left_edge(number) <= value <= left_edge(number + 1)
        else:
            assert abs(value) >= left_edge(LAST_BIN)
    edges = [left_edge(number) for number in range(-LAST_BIN, LAST_BIN + 2)]
    assert edges == sorted(set(edges))


@pytest.mark.requirement("TRACK-1")
def test_what_is_not_finite_is_counted_apart() -> None:
    counts = counts_of({"some": torch.tensor([1.0, float("nan"), float("inf"), -2.0]), "none": torch.tensor([np.nan])})
    assert counts["none"] is None
    assert counts["some"] is not None
    assert (counts["some"].not_finite, counts["some"].lowest, counts["some"].highest) == (2, -2.0, 1.0)
    assert sum(counts["some"].bins.values()) == 2


@pytest.mark.requirement("TRACK-1", "MON-1")
def test_the_last_histogram_is_that_of_the_weights_as_they_are(open_session: Any) -> None:
    session = open_session(VALUES)
    trained(session, 3, inspects=True)
    found, reach = new_histograms(session.run, 0)
    last = {each.key: each for each in found if each.step == 3}
    for name, parameter in session.model.named_parameters():
        entries = parameter.detach().numpy().ravel()
        assert entries.size <= SAMPLED
        counts, edges = last[f"layers/weights/{name}"].dense()
        assert counts == np.histogram(entries.astype(np.float64), edges)[0].tolist()
        assert last[f"layers/weights/{name}"].counts.lowest == pytest.approx(entries.min())
    assert {f"layers/gradients/{name}" for name, _ in session.model.named_parameters()} <= last.keys()
    assert new_histograms(session.run, reach) == ([], reach), "a position is kept between looks"


@pytest.mark.requirement("TRACK-1")
def test_a_line_that_was_torn_or_edited_costs_no_other(open_session: Any) -> None:
    session = open_session(VALUES)
    trained(session, 2, inspects=True)
    path = session.run.path / HISTOGRAMS
    first, second = path.read_text().splitlines()
    edited = json.loads(second)
    edited["data"]["histograms"] = {"layers/weights/odd": {"bins": {"9000": 1}, "lowest": 0, "highest": 1}}
    path.write_text("\n".join([first[:40], json.dumps(edited), second, ""]))
    assert {each.step for each in new_histograms(session.run, 0)[0]} == {2}


@pytest.mark.requirement("TRACK-1", "MON-4")
def test_of_many_parameters_some_are_shown_from_the_first_to_the_last() -> None:
    shapes = {f"block.{number}.{part}": part for number in range(100) for part in ("weight", "bias")}
    named = {
        name: torch.nn.Parameter(torch.zeros(2, 2) if part == "weight" else torch.zeros(2))
        for name, part in shapes.items()
    }
    names = chosen(named)
    assert len(set(names)) == MOST_PARAMETERS
    assert (names[0], names[-1]) == ("block.0.weight", "block.99.weight")
    assert all(name.endswith("weight") for name in names)
