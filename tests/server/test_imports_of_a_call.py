"""Modules of the operations are imported by one thread at a time: two that need each other would meet half of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.function_text import body_of


def asked() -> None:
    """Ask for the workspace while another thread imports; print the operations that are there then, and after it."""
    import sys
    import threading
    from pathlib import Path

    from trainwright.server.context import OPERATIONS, AppContext

    app = AppContext(Path(sys.argv[1]))
    call = threading.Thread(target=app.workspace)
    with app._lock:  # as the thread that imports in the background holds it
        call.start()
        call.join(1.0)
        print([name for name in OPERATIONS if name in sys.modules])
    call.join()
    print(len([name for name in OPERATIONS if name in sys.modules]))
    app.close()


@pytest.mark.requirement("MCP-1")
def test_a_call_waits_for_the_background_imports_and_has_all_of_them_after(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", body_of(asked), str(tmp_path / "workspace")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "3"]
