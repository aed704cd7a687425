"""`trainwright dashboard`: the workspace's page in the browser, until Ctrl-C."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path


def serve_dashboard(path: Path, port: int, *, browser: bool) -> None:
    """Print the page's address and serve it. Raises ConflictError, StorageError, IntegrityError.

    Args:
        port: 0 for any that is free.
        browser: whether to open it in the user's browser.
    """
    from trainwright.server.dashboard.serving import Dashboard

    page = Dashboard(path, port)
    terminal = Terminal()
    terminal.line(page.access.address)
    terminal.line("This machine alone can open it, and who has the token in the address. Ctrl-C ends it.", "dim")
    if browser:
        webbrowser.open(page.access.address)
    page.run()
