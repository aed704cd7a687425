"""Modules of the operations are imported by one thread at a time: two that need each other would meet half of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASKED = """
import sys, threading
from pathlib import Path
from trainwright.server.context import AppContext
app = AppContext(Path(sys.argv[1]))
with app._lock:  # as the thread that imports in the background holds it
    call = threading.Thread(target=app.workspace)
    call.start()
    call.join(1.0)
    print(sorted(name for name in sys.modules if name.startswith("trainwright.tools.")))
call.join()
print("trainwright.tools.hyperparameter_tuner" in sys.modules)
app.close()
"""


@pytest.mark.requirement("MCP-1")
def test_a_call_waits_for_the_background_imports_and_has_all_of_them_after(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKED, str(tmp_path / "workspace")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]
