"""The engine that runs inside a worker process. It trains; it knows no MCP and no workspace."""
