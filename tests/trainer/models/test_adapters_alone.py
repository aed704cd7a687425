"""Adapters of a released model: plain transformers and peft read them alone, and load.py those that are not merged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from tests.releases import param

from trainwright.trainer.base import releases
from trainwright.trainer.jobs.export.adapters import export_adapter
from trainwright.trainer.jobs.export.inputs import example_rows
from trainwright.trainer.jobs.export.loaded import ship_loader
from trainwright.trainer.jobs.export.served import rows_to_call_with, served_of

pytestmark = [pytest.mark.slow, pytest.mark.requirement("CKPT-5", "PHASE-6")]


def exported(session: Any, folder: Path) -> Any:
    session.model.cpu().eval()
    found = export_adapter(session, example_rows(session)[0], folder)
    assert found is not None
    return found


def test_an_adapter_is_compared_alone_beside_the_base_from_where_it_came(
    saved: dict[str, Any], open_session: Any, take_steps: Any, project: Path, tmp_path: Path
) -> None:
    session = open_session({**saved, "adapter": {"rank": 2}})
    take_steps(session, 8)
    alone = exported(session, tmp_path / "m").alone
    assert (alone.passed, alone.rows_compared > 20) == (True, True)
    session.model.state_dict()["bert.embeddings.LayerNorm.bias"] += 1.0  # frozen, and no longer the base's
    other = exported(session, tmp_path / "n")
    assert (other.alone.passed, other.is_sound) == (False, True)
    shutil.move(project / "bert", project / "moved")
    assert exported(session, tmp_path / "o").alone is None


@pytest.mark.parametrize("kind", [param("prompt", releases.VOCABULARY), pytest.param("prefix", marks=pytest.mark.long)])
def test_a_prompt_is_made_again_by_plain_transformers_and_peft(
    kind: str, saved: dict[str, Any], open_session: Any, take_steps: Any, tmp_path: Path
) -> None:
    saved["data"]["args"]["max_length"] = 40
    session, folder = open_session({**saved, "adapter": {"name": kind, "tokens": 3}}), tmp_path / "m"
    take_steps(session, 4)
    adapter = exported(session, folder)
    assert (adapter.merged_in, adapter.alone.passed) == (None, True)
    save_file({name: one.contiguous().clone() for name, one in session.model.state_dict().items()},
              folder / "model.safetensors")  # fmt: skip
    rows, are_real = rows_to_call_with(session)
    serving = served_of(session, rows, are_real=are_real).serving
    found = ship_loader(session, serving, rows, folder, {"library": None, "adapter": adapter})
    assert (found.problem, found.kind, found.needs) == (None, "from_adapter", "torch transformers peft")
    assert found.max_abs_difference is not None
    assert found.max_abs_difference <= 1e-6
