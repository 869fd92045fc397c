"""The tools of a native agent: one module each, all against `tool.Tool` and `tool.ToolContext`."""
