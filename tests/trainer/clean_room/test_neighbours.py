"""Nearest rows of features: as scikit-learn's nearest neighbours have them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from trainwright.trainer.clean_room import metrics, neighbours

pytestmark = pytest.mark.requirement("GATE-6", "TRACK-1")


@pytest.mark.parametrize("rows", [2, 30, 2500])
def test_the_nearest_other_row_by_cosine_is_scikit_learns(rows: int) -> None:
    draw = np.random.default_rng(rows)
    targets = draw.integers(0, 4, rows)
    features = draw.normal(size=(rows, 6)) * draw.uniform(0.1, 9, (rows, 1)) + np.eye(6)[targets] * 3
    similar = cosine_similarity(features)
    np.fill_diagonal(similar, -2)
    wanted = float((targets[similar.argmax(1)] == targets).mean())
    assert metrics.compute("neighbour_accuracy", features, targets) == wanted


def test_rows_without_a_class_are_no_neighbours_and_have_none() -> None:
    features = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.9, 0.0]])
    assert neighbours.hits(neighbours.unit(features, np.array([1, 1, 2, -100])), np.array([1, 1, 2, -100])).tolist()[
        :3
    ] == [1, 1, 0]
    assert metrics.compute("neighbour_accuracy", features, np.array([1, 1, 2, -100])) == pytest.approx(2 / 3)
    assert np.isnan(metrics.compute("neighbour_accuracy", features[:1], np.array([1])))
    with pytest.raises(ValueError, match="one vector of features"):
        metrics.compute("neighbour_accuracy", features[None], np.array([1]))
