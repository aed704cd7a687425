"""The final model is signed in OpenSSF's form: its own verifier accepts the folder, and refuses a changed one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools.projects import pass_gate
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.model_signature import COMMAND, PUBLIC_KEY, SIGNATURE, ModelKey
from trainwright.tools.workspace.signing import VARIABLE, Signer, load_signer, model_public_path, new_key

NAME = "flowers"
At = Callable[[str], Workspace]


@pytest.fixture(autouse=True)
def no_key_of_the_developer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv(VARIABLE, raising=False)


def verifier(folder: Path, *further: str) -> tuple[int, str]:
    """Run the card's command where the model's folder lies; return its status and what it wrote."""
    command = [sys.executable, *COMMAND.split()[1:], *further]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.requirement("CKPT-5", "GATE-6", "PHASE-6")
def test_the_verifier_of_openssf_accepts_the_final_model_and_refuses_a_changed_one(at: At, tmp_path: Path) -> None:
    workspace = at("finished")
    model = shutil.copytree(workspace.project_folder(NAME) / "final_model", tmp_path / "final_model")
    card = (model / "README.md").read_text(encoding="utf-8")
    assert COMMAND in card.splitlines()
    assert "not who signed" in card
    assert verifier(model)[0] == 0
    (model / "README.md").write_text(card.replace("accuracy", "precision"), encoding="utf-8")
    status, said = verifier(model)
    assert (status, "README.md" in said) == (1, True)
    (model / "README.md").write_text(card, encoding="utf-8")
    (model / "further.txt").write_text("put beside the others")
    status, said = verifier(model)
    assert (status, "further.txt" in said) == (1, True)


@pytest.mark.requirement("CKPT-5", "GATE-5")
def test_the_owners_key_signs_the_model_and_is_the_one_that_the_owner_can_share(
    at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "owner" / "key"
    new_key(key)
    monkeypatch.setenv(VARIABLE, str(key))
    workspace = at("exported")
    pass_gate(workspace, NAME)
    model = workspace.project_folder(NAME) / "final_model"
    assert (model / PUBLIC_KEY).read_bytes() == model_public_path(key).read_bytes()
    assert "The key is the owner's" in (model / "README.md").read_text(encoding="utf-8")
    assert verifier(model)[0] == 0
    assert verify_workspace(workspace.path).problems == []
    (model / SIGNATURE).write_bytes(b"{}")
    assert any(SIGNATURE in finding.what for finding in verify_workspace(workspace.path).findings)


@pytest.mark.requirement("GATE-5")
def test_a_models_key_follows_from_the_owners_and_without_one_no_two_are_the_same(tmp_path: Path) -> None:
    signer = new_key(tmp_path / "a")
    other = new_key(tmp_path / "b")
    written = []
    for number, owner in enumerate((signer, Signer(signer._key), other, None, None)):
        (folder := tmp_path / str(number)).mkdir()
        ModelKey(owner).write_public(folder)
        written.append((folder / PUBLIC_KEY).read_bytes())
    assert written[0] == written[1] == model_public_path(tmp_path / "a").read_bytes()
    assert len(set(written)) == 4
    assert load_signer(tmp_path) is None
