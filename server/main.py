"""The ready-made server for `mcp dev server/main.py` and `mcp run server/main.py`."""

from trainwright.server.default import mcp

__all__ = ["mcp"]

if __name__ == "__main__":
    mcp.run("stdio")
