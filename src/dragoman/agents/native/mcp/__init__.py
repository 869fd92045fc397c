"""MCP: tools of servers that a folder's configuration names, for the models of native sessions."""
