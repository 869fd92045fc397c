"""The stores of logs, figures and spans that ``observability_enabled`` asked, as far as its answers tell of them."""

from __future__ import annotations

import json
from typing import Any

from .web import Answer, Request

RECORDED_URL = "http://127.0.0.1:38671"
"""Where they were."""

_LINES = '{"_msg":"a","n":3}\n{"_msg":"b","n":4}\n'


async def answer(request: Request) -> Answer:
    """One request to any of them."""
    query = request.fields.get("query", "")
    match request.path:
        case "/api/v1/query_range":
            return _range(query)
        case "/api/v1/query":
            return _figures("vector", [{"metric": {}, "value": [1700000000, "7"]}])
        case "/select/logsql/query":
            return Answer(body=b"" if query == "none" else _LINES.encode(), kind="application/stream+json")
        case "/select/traceql/query":
            return Answer(404, b"not here", "text/plain")
    return Answer(body=b"{}")


def _range(query: str) -> Answer:
    match query:
        case "ok":
            values = [[1700000000, "0.5"], [1700000060, "0.25"]]
            return _figures("matrix", [{"metric": {}, "values": values}])
        case "nan":
            return _figures("matrix", [{"metric": {}, "values": [[1700000000, "NaN"]]}])
        case "empty":
            return _figures("matrix", [])
        case "text":
            return Answer(body=b"plain text", kind="text/plain")
    return Answer(500, b"range queries fail", "text/plain")


def _figures(kind: str, result: list[dict[str, Any]]) -> Answer:
    return Answer(body=json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode())
