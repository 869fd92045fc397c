"""A scripted model server: one script, four real APIs, every request judged as the real API would.

In a test: ``async with serving() as server``, ``server.script(...)``, then read ``server.journal`` and
``server.violations``. As a process: ``python -m tests.agents.native.model_server --port 0`` prints one JSON line with
its port; scripts go to ``PUT /scripts/NAME`` as JSON (or in a file, ``--scripts``) and are chosen by
``[[script:NAME]]`` in the newest user text; ``GET /journal`` shows what was asked.
"""

from __future__ import annotations

from .server import ModelServer, serving

__all__ = ["ModelServer", "serving"]
