"""An MCP server with one tool, ``add``: lines of JSON on its standard streams, and nothing but the language's own.

It says nothing before the file exists that it is given the path of: so a test decides when it is there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

_NUMBER = {"type": "number"}
_TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {"type": "object", "properties": {"a": _NUMBER, "b": _NUMBER}, "required": ["a", "b"]},
}


def answer(method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The result of one request."""
    match method:
        case "initialize":
            about = {"name": "demo", "version": "1"}
            return {"protocolVersion": asked["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [_TOOL]}
        case "tools/call":
            given = asked["arguments"]
            return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}], "isError": False}
    return {}


def main() -> None:
    """Until its input ends."""
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
