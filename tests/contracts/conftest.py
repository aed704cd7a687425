"""The engine's worlds, as the tests of its parts use them: run directories, forked workers, groups of two."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TRAINER = Path(__file__).parent.parent / "trainer"


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_engine = _loaded("contracts_engine", TRAINER / "conftest.py")
_groups = _loaded("contracts_groups", TRAINER / "distributed" / "conftest.py")

make_run, work, begin = _engine.make_run, _engine.work, _engine.begin
open_session, take_steps, recorded = _engine.open_session, _engine.take_steps, _engine.recorded
group_work, iris = _groups.group_work, _groups.iris
