"""Surface for agents: MCP tools, resources, prompts, transports and the command line. It adapts and decides nothing."""
