"""The server over the default workspace: TRAINWRIGHT_HOME, else `./.trainwright`."""

from __future__ import annotations

from trainwright.server.app import build_server
from trainwright.server.workspace_path import workspace_path

mcp = build_server(workspace_path())
