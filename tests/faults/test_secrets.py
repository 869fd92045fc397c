"""Secrets planted everywhere a user can put one are found nowhere they should not be (invariant 10)."""

from __future__ import annotations

import asyncio
import http.client
import json
import stat
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .process import Served, eventually

TOKEN = "token-3f9a1c"
WRONG = "wrong-77be02"
AUTH = "auth-5d20ee"
TYPED = "typed-c0ffee"
RAW = "raw-badcab1e"
KEY = "sk-env-8f8f8f"
SECRETS = (TOKEN, WRONG, AUTH, TYPED, RAW, KEY)


def request(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """One HTTP request of anybody's."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def test_planted_secrets_are_found_in_no_log_file_event_or_answer(tmp_path: Path) -> None:
    served = Served(tmp_path / "server", "--log-level", "debug", env={"DRAGOMAN_TOKEN": TOKEN})
    await served.start()
    port = int(served.ready["port"])
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    answers: list[bytes] = []

    def ask(method: str, path: str, body: Any = None, **headers: str) -> bytes:
        answers.append(request(port, method, path, body, **(headers or bearer))[1])
        return answers[-1]

    try:
        # a program that reads its input without an echo, with a key in its environment
        options = {"command": ["sh", "-c", "stty -echo; echo ready; cat >/dev/null"], "env": {"API_KEY": KEY}}
        made = ask("POST", "/hub/sessions", {"kind": "terminal", "cwd": str(tmp_path), "options": options})
        session = json.loads(made)["session"]
        await eventually(lambda: b"ready" in ask("GET", f"/hub/sessions/{session}/screen"), "the program is ready")
        ask("POST", f"/hub/sessions/{session}/input", {"text": TYPED, "enter": True})

        # tokens, right and wrong, in headers, queries and messages; typed input over coop
        for path in ("/hub/sessions", f"/coop/api/v1/status?session={session}", "/hub/nothing", "/coop/api/v1/nothing"):
            joint = "&" if "?" in path else "?"
            ask("GET", path, Authorization=f"Bearer {WRONG}")
            ask("GET", f"{path}{joint}token={WRONG}", Accept="*/*")
            ask("GET", f"{path}{joint}token={TOKEN}", Accept="*/*")
        for url in (served.ready["dialects"]["hub"], f"{served.ready['dialects']['coop']}?session={session}"):
            joint = "&" if "?" in url else "?"
            try:
                async with connect(f"{url}{joint}token={WRONG}", proxy=None):
                    raise AssertionError("a wrong token was let in")
            except InvalidStatus as refused:
                answers.append(bytes(refused.response.body or b""))
        async with connect(f"{served.ready['dialects']['coop']}?session={session}", proxy=None) as link:
            await link.send(json.dumps({"event": "auth", "token": AUTH}))
            answers.append(str(await link.recv()).encode())
            await link.send(json.dumps({"event": "auth", "token": TOKEN}))
            await link.send(json.dumps({"event": "input", "text": RAW, "enter": True}))
            await link.send(json.dumps({"event": "keys", "keys": [RAW]}))
            await link.send(json.dumps({"event": "ping"}))
            while "pong" not in (said := str(await link.recv())):
                if "unknown key" not in said:  # what was sent as a key's name comes back in that one answer
                    answers.append(said.encode())
        for path in ("events?limit=500", "", "screen?styled=1", "tape"):
            ask("GET", f"/hub/sessions/{session}/{path}".rstrip("/"))
        await asyncio.to_thread(ask, "DELETE", f"/hub/sessions/{session}")
    finally:
        served.stop()

    said = b"\n".join(answers)
    log = served.log.read_text()
    assert "hub link" in log or "GET" in log, "the log says something"
    for secret in SECRETS:
        assert secret.encode() not in said, f"{secret} in an answer"
        assert secret not in log, f"{secret} in the log"
        for file in served.folder.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), f"{secret} in {file.name}"


async def test_a_programs_environment_is_kept_for_its_next_start_where_only_we_can_read(served: Served) -> None:
    await served.start()
    folder = str(served.folder)
    command = ["sh", "-c", 'echo "key=$API_KEY token=$DRAGOMAN_TOKEN"; sleep 100']
    asked = {"kind": "terminal", "cwd": folder, "options": {"command": command, "env": {"API_KEY": KEY}}}
    session = (await served.asked("POST", "/sessions", asked))["session"]

    async def shown() -> str:
        async with asyncio.timeout(10):
            while "key=" not in (line := (await served.asked("GET", f"/sessions/{session}/screen"))["lines"][0]):
                await asyncio.sleep(0.02)
        return str(line)

    assert await shown() == f"key={KEY} token="
    snapshot = json.dumps(await served.asked("GET", f"/sessions/{session}"))
    log = json.dumps(await served.whole_log(session))
    assert KEY not in snapshot + log
    holders = [file for file in served.folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    kept = [file for file in holders if "terminals" in file.parts and file.name == "environment.json"]
    assert kept
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in kept)
    served.kill()
    await served.start()
    await served.asked("POST", f"/sessions/{session}/start")
    assert await shown() == f"key={KEY} token="
