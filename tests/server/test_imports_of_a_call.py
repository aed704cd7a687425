"""Modules of the operations are imported by one thread at a time: two that need each other would meet half of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.function_text import body_of


def asked() -> None:
    """Call a tool that imports much while another thread does; print what the call has imported then, and after it."""
    import asyncio
    import sys
    import threading
    from pathlib import Path
    from types import SimpleNamespace

    from trainwright.server.context import OPERATIONS, AppContext
    from trainwright.server.surface.architect import plan_training

    app = AppContext(Path(sys.argv[1]))
    session = SimpleNamespace(lifespan_context=app)
    context = SimpleNamespace(request_context=session, client_capabilities=None)
    tools = OPERATIONS[1].removesuffix("projects")
    before = {name for name in sys.modules if name.startswith(tools)}

    def asked() -> None:
        asyncio.run(plan_training.run({"intent": "tell flowers apart"}, context))

    call = threading.Thread(target=asked)
    with app._lock:  # as the thread that imports in the background holds it
        call.start()
        call.join(1.0)
        print(sorted({name for name in sys.modules if name.startswith(tools)} - before))
    call.join()
    print(app.is_ready, len([name for name in OPERATIONS if name in sys.modules]) == len(OPERATIONS))
    app.close()


@pytest.mark.long
@pytest.mark.requirement("MCP-1")
def test_a_call_waits_for_the_background_imports_and_has_all_of_them_after(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", body_of(asked), str(tmp_path / "workspace")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True True"]
