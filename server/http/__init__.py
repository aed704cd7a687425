"""MCP over Streamable HTTP: who may call what, the tokens, the limits, the server."""
