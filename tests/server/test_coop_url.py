"""Where a program is told that its server is."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from tests.dialects.coop.harness import Server


def test_a_port_that_the_system_chose_is_told_as_chosen(tmp_path: Path) -> None:
    server = Server(["sh", "-c", 'printf %s "$COOP_URL" > told; echo written; exec sleep 100'], folder=tmp_path)
    try:
        server.wait_for_output(b"written")
        url = (tmp_path / "told").read_text()
        assert f":{server.port}" in url
        with urllib.request.urlopen(f"{url}/api/v1/health", timeout=5) as health:
            assert json.load(health)["status"] == "running"
    finally:
        server.close()
