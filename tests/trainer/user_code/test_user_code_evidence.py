"""The code that is recorded is the code that runs: no stale or forged cache, no compiled file, no import after it."""

from __future__ import annotations

import importlib.util
import marshal
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.paths import own_name, users_name
from trainwright.trainer.run import RunDirectory, RunState

pytestmark = pytest.mark.slow

NET = """
import torch
from .parts import WIDTH
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, WIDTH)
"""
DATA = """
import torch
def data():
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
"""
IN_FORWARD = """
    def forward(self, x):
        Net.calls = getattr(Net, "calls", 0) + 1
        if Net.calls == 8:
            LATE
        return super().forward(x)
"""
FILES = {"pkg/__init__.py": "", "pkg/net.py": NET, "pkg/parts.py": "WIDTH = 2\n", "odd-name.py": DATA}
VALUES: dict[str, Any] = {
    "model": {"use": "pkg.net:Net"},
    "data": {"use": "odd-name.py:data"},
    "loader": {"batch_size": 8},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}


def poison(source: Path, cached: Path) -> None:
    """Write bytecode of other code with a header that names the time and size of the honest source."""
    code = compile(f"raise RuntimeError('the cache of {source.name} ran')", str(source), "exec")
    stat = source.stat()
    header = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(stat.st_mtime), stat.st_size)
    cached.parent.mkdir(exist_ok=True)
    cached.write_bytes(header + marshal.dumps(code))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The user's project."""
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def ended(tmp_path: Path, root: Path, make_run: Any, work: Any) -> Any:
    """`ended(**values)` works on a run over the project and returns its directory."""

    def run_it(**values: Any) -> RunDirectory:
        run: RunDirectory = make_run(tmp_path / "run", {**VALUES, **values}, code_root=str(root))
        work(run)
        return run

    return run_it


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_a_poisoned_bytecode_cache_is_not_read(root: Path, ended: Any) -> None:
    for name in FILES:
        poison(root / name, Path(importlib.util.cache_from_source(str(root / name))))
    run = ended()
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert run.evidence("code")["files"] == {name: digest_file(root / name) for name in FILES}


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_the_poison_of_these_tests_works_on_plain_python(root: Path) -> None:
    poison(root / "pkg/parts.py", Path(importlib.util.cache_from_source(str(root / "pkg/parts.py"))))
    spec = importlib.util.spec_from_file_location("parts_of_a_test", root / "pkg/parts.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(RuntimeError, match=r"the cache of parts\.py ran"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.requirement("GATE-1", "GATE-5")
@pytest.mark.parametrize("kind", ["a .pyc", "an archive"])
def test_code_without_source_is_refused_by_name(kind: str, root: Path, ended: Any) -> None:
    net = NET.replace("from .parts import WIDTH", "from hidden import WIDTH")
    if kind == "a .pyc":
        (root / "hidden.py").write_text("WIDTH = 2\n")
        poison(root / "hidden.py", root / "hidden.pyc")
        (root / "hidden.py").unlink()
    else:
        with zipfile.ZipFile(root / "hidden.zip", "w") as archive:
            archive.writestr("hidden.py", "WIDTH = 2\n")
        net = f"import sys\nsys.path.insert(0, {str(root / 'hidden.zip')!r})\n" + net
    (root / "pkg/net.py").write_text(net)
    failure = ended().status().failure
    assert failure.category == "reproducibility", failure
    assert f"hidden{'.pyc' if kind == 'a .pyc' else '.zip'} under the code root holds compiled code" in failure.message
    assert "`.py` files" in failure.remedy


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_own_code_is_recorded_wherever_under_the_root_it_hides(tmp_path: Path, root: Path, ended: Any) -> None:
    (root / "site-packages").mkdir()
    (root / "site-packages/aside.py").write_text("")
    (tmp_path / "elsewhere.py").write_text("")
    (root / "linked.py").symlink_to(tmp_path / "elsewhere.py")
    (root / "removed.py").write_text("")
    lines = [
        "import sys, importlib.util",
        f"sys.path.insert(0, {str(root / 'site-packages')!r})",
        "import aside, linked, removed",
        "del sys.modules['removed']",
    ]
    (root / "pkg/parts.py").write_text("\n".join([*lines, "WIDTH = 2"]))
    run = ended()
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    hidden = ["linked.py", "removed.py", "site-packages/aside.py"]
    assert sorted(run.evidence("code")["files"]) == sorted([*FILES, *hidden])


@pytest.mark.requirement("GATE-1", "GATE-5", "REPRO-4")
def test_code_from_elsewhere_is_recorded_by_its_path_unless_it_is_an_installed_package(
    tmp_path: Path, root: Path, ended: Any
) -> None:
    for folder in ("elsewhere", "module/site-packages"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"helper_in_{Path(folder).name.replace('-', '_')}.py").write_text("WIDTH = 2\n")
    folders = [str(tmp_path / "elsewhere"), str(tmp_path / "module/site-packages")]
    lines = ["import sys", f"sys.path[:0] = {folders}", "import helper_in_elsewhere, helper_in_site_packages"]
    (root / "pkg/parts.py").write_text("\n".join([*lines, "WIDTH = 2"]))
    run = ended()
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    helper = str(tmp_path / "elsewhere" / "helper_in_elsewhere.py")
    assert sorted(run.evidence("code")["files"]) == sorted([*FILES, helper])


@pytest.mark.requirement("GATE-1", "GATE-5")
@pytest.mark.parametrize("kind", ["late", "an archive"])
def test_code_from_elsewhere_that_no_record_could_hold_is_refused(
    kind: str, tmp_path: Path, root: Path, ended: Any
) -> None:
    (tmp_path / "elsewhere").mkdir()
    net = (root / "pkg/net.py").read_text()
    if kind == "late":
        (tmp_path / "elsewhere" / "late_helper.py").write_text("WIDTH = 2\n")
        net += IN_FORWARD.replace("LATE", "import late_helper")
        told = "elsewhere/late_helper.py was imported after the run's code was recorded"
        net = f"import sys\nsys.path.insert(0, {str(tmp_path / 'elsewhere')!r})\n" + net
    else:
        with zipfile.ZipFile(tmp_path / "elsewhere" / "hidden.zip", "w") as archive:
            archive.writestr("hidden.py", "WIDTH = 2\n")
        told = "hidden.zip outside the code root and the installed packages holds compiled code"
        net = f"import sys\nsys.path.insert(0, {str(tmp_path / 'elsewhere/hidden.zip')!r})\nimport hidden\n" + net
    (root / "pkg/net.py").write_text(net)
    failure = ended().status().failure
    assert failure.category == "reproducibility", failure
    assert told in failure.message


@pytest.mark.requirement("GATE-1")
def test_libraries_are_not_own_code_even_when_the_interpreter_lies_under_the_root() -> None:
    import torch

    for library in (torch.__file__, os.__file__):
        assert own_name(library, Path(sys.prefix)) is None
        assert own_name(library, Path("/")) is None
        assert users_name(library, Path("/nowhere")) is None


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_a_file_that_changes_between_two_imports_fails_the_run(root: Path, ended: Any) -> None:
    lines = ["import importlib, pathlib, other", "pathlib.Path(other.__file__).write_text('WIDTH = 2')"]
    (root / "other.py").write_text("WIDTH = 3\n")
    (root / "pkg/parts.py").write_text("\n".join([*lines, "WIDTH = importlib.reload(other).WIDTH"]))
    failure = ended().status().failure
    assert failure.category == "reproducibility", failure
    assert "other.py was imported twice in this run, with different content" in failure.message


BY_HAND = (
    "import sys, types; m = types.ModuleType('late'); m.__file__ = FILE; "
    "exec(open(FILE).read(), vars(m)); sys.modules['late'] = m"
)
IN_A_SAMPLE = """
    return Late()
class Late(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            import late
        return torch.full((4,), float(index)), index % 2
"""


@pytest.mark.requirement("GATE-1", "GATE-5", "REPRO-3")
@pytest.mark.parametrize(
    "how", variants(["an import", "by hand", "in a loader worker", "another content"], quick=["an import", "by hand"])
)
def test_code_that_comes_after_the_record_fails_the_run_by_name(how: str, root: Path, ended: Any) -> None:
    (root / "late.py").write_text("FACTOR = 2\n")
    late = {
        "an import": "import late",
        "by hand": BY_HAND.replace("FILE", repr(str(root / "late.py"))),
        "another content": "open(late.__file__, 'a').write('#'); importlib.reload(late)",
    }
    if how in late:
        top = "import importlib, late\n" if how == "another content" else ""
        (root / "pkg/net.py").write_text(top + NET + IN_FORWARD.replace("LATE", late[how]))
    else:
        (root / "odd-name.py").write_text("import torch\ndef data():" + IN_A_SAMPLE)
        (root / "pkg/net.py").write_text(NET)
    run = ended(loader={"batch_size": 8, "num_workers": 1 if how == "in a loader worker" else 0})
    status = run.status()
    assert status.state is RunState.FAILED
    assert status.failure.category == "reproducibility", status.failure
    assert status.failure.message.startswith("late.py was imported "), status.failure.message
    assert "Import it at the top of the module" in status.failure.remedy
    assert run.evidence("summary") is None


@pytest.mark.requirement("GATE-1", "REPRO-3")
def test_code_that_the_first_batch_imports_is_recorded(root: Path, ended: Any) -> None:
    (root / "late.py").write_text("")
    (root / "pkg/net.py").write_text(NET + IN_FORWARD.replace("Net.calls == 8", "True").replace("LATE", "import late"))
    run = ended()
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert run.evidence("code")["files"]["late.py"] == digest_file(root / "late.py")


def test_the_module_that_an_older_torch_writes_is_no_users_code_and_another_of_its_name_is(tmp_path: Path) -> None:
    from torch.distributed.nn.jit.templates.remote_module_template import get_remote_module_template

    none = dict.fromkeys(("arrow_and_return_type", "arrow_and_future_return_type", "jit_script_decorator"), "")
    said = {"args": "*args", "kwargs": "**kwargs", "arg_types": "*args, **kwargs"}
    text = get_remote_module_template(True).format(
        **none, **said, assign_module_interface_cls="module_interface_cls = None"
    )
    place = tmp_path.resolve() / "_remote_module_non_scriptable.py"
    place.write_text(text)
    assert users_name(str(place), Path("/nowhere")) is None
    place.write_text(f"{text}import os\n")
    assert users_name(str(place), Path("/nowhere")) == str(place)
