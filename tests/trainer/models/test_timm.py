"""Models of timm, where it is there; and what is told where it is not, or stands on a torchvision of another torch."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from trainwright.trainer.base.errors import ConfigurationError

VALUES: dict[str, Any] = {
    "model": {"use": "timm", "args": {"model": "resnet10t"}},
    "data": {"use": "digits"},
    "logging": {"tensorboard": False},
}


@pytest.mark.requirement("TRAIN-1")
def test_a_model_by_its_name_takes_the_channels_and_classes_of_the_data(open_session: Any, take_steps: Any) -> None:
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm cannot be imported here: {str(error)[:80]}")
    session = open_session(VALUES)
    take_steps(session, 2)
    assert session.model.get_classifier().out_features == 10
    assert session.model.eval()(session.train_loader.samples[0][0][None]).shape == (1, 10)
    options = {"num_classes": 10, "in_chans": 1, "pretrained": False}
    assert session.model.made_with == {"__call__": "timm:create_model", "args": ["resnet10t"], "options": options}
    with pytest.raises(ConfigurationError, match="is no model of timm"):
        open_session({**VALUES, "model": {"use": "timm", "args": {"model": "resnet10x"}}}, "unknown")
    assert timm


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("raise ImportError('no timm')", "needs the package timm, which cannot be imported: no timm"),
        (
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "torchvision was built for another torch: operator torchvision::nms does not exist",
        ),
    ],
)
def test_a_timm_that_cannot_be_imported_is_told_with_the_way_out(
    package: str, told: str, tmp_path: Any, open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "timm.py").write_text(package)
    monkeypatch.syspath_prepend(str(tmp_path / "libraries"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigurationError, match=told) as caught:
        open_session(VALUES)
    assert "built-in resnet" in caught.value.remedy
