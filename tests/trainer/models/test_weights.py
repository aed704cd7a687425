"""Where a model of the Transformers library has no weights, the refusal names what trains without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.jobs.inspected_model import inspected_model
from trainwright.trainer.models.weights import weights_folder

pytestmark = pytest.mark.requirement("ARCH-1", "ARCH-4")


@pytest.mark.parametrize("task", ["text_classification", "language_model", "seq2seq", "image_classification"])
@pytest.mark.parametrize("args", [{}, {"path": "models/distilbert-base-uncased"}])
def test_the_remedy_of_absent_weights_is_a_small_model_that_can_be_planned(
    args: dict[str, str], task: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        inspected_model({"use": "transformers", "args": args}, tmp_path, task)
    remedy = caught.value.remedy
    assert ("hf download ID --local-dir models/distilbert-base-uncased" in remedy) == bool(args)
    named, _ = json.JSONDecoder().raw_decode(remedy[remedy.index("model={") + len("model=") :])
    sizes = inspected_model(named, tmp_path, task)
    assert sizes is not None
    assert 10_000 < sizes["parameters"] < 10_000_000


def test_a_folder_outside_the_code_root_stays_refused_as_that(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    with pytest.raises(ConfigurationError, match="outside the code root"):
        weights_folder("../outside", tmp_path / "root")
