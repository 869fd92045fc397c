"""The libraries that ours stands on, imported, and an empty application served: ``python -m bench.bare.startup``"""

from __future__ import annotations

import sqlite3  # noqa: F401  the time it takes to import is what is measured

import msgspec  # noqa: F401
import starlette.applications
import starlette.routing  # noqa: F401
import uvicorn  # noqa: F401
import uvloop

from .terminal import App, serve

if __name__ == "__main__":
    uvloop.run(serve(App([], joined=False)))
