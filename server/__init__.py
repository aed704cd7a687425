"""What agents see: MCP tools, resources, prompts, transports and the command line. It adapts and decides nothing."""
