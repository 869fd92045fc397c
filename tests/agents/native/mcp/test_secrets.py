"""What an entry carries that nobody is to see: not in an event, a log line, an error."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dragoman.agents.native.mcp.hiding import EntrySecrets, shown_url
from dragoman.hub.workspace_config import McpServer
from tests.agents.native.native_rig import script

from .mcp_rig import Configs, demo, ends, mcp_hub, program, said

SECRETS = {"API_KEY": "sk-entry-0123456789", "PLAIN": "in-the-environment"}


async def test_an_entrys_environment_reaches_its_program_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-server-0123456789")
    monkeypatch.setenv("SAME_UNDER_ANOTHER_NAME", "sk-of-the-server-0123456789")
    caplog.set_level(logging.DEBUG)
    talkative = "import os, sys; print(os.environ['API_KEY'], os.environ['PLAIN'], file=sys.stderr); sys.exit(2)"
    configs = Configs(demo(env=SECRETS), program("talks", talkative, env=SECRETS))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        (end,) = ends(await hub.turn(session, script("call mcp__demo__environment {}")))
        shown = end.output["content"][0]["text"].splitlines()
        assert "API_KEY=***" in shown
        assert "PLAIN=in-the-environment" in shown, "a value is no secret by its place alone"
        assert not [line for line in shown if "sk-of-the-server" in line]
        assert "*** ***" in await said(session, "Failed to connect to talks")
        written = "".join(map(str, await hub.facts(session)))
        assert "sk-entry" not in written
        assert "sk-of-the-server" not in written
    assert "sk-entry" not in caplog.text


def entry(**more: object) -> McpServer:
    return McpServer(name="n", layer="user", transport="http", **more)  # type: ignore[arg-type]


def test_a_url_is_shown_without_what_it_carries() -> None:
    assert shown_url("https://me:secret@example.org:8443/mcp/x?key=abc#part") == "https://example.org:8443/mcp/x"
    assert shown_url("http://[::1") == "(no URL)"


def test_every_part_of_a_url_and_a_header_is_hidden() -> None:
    hidden = EntrySecrets(
        entry(url="https://us%20er:pa%3Ass@h/p?token=to%2Bken&x=1", headers={"Authorization": "Bearer tok-12345678"})
    )
    text = "us er us%20er pa:ss pa%3Ass to+ken to%2Bken tok-12345678 Bearer x"
    assert hidden.clean(text) == "*** *** *** *** *** *** *** Bearer x"
    assert hidden.hide({"a": ["tok-12345678", 5]}) == {"a": ["***", 5]}


def test_short_and_plain_values_are_left_in_results() -> None:
    hidden = EntrySecrets(entry(env={"NODE_ENV": "production", "DEBUG": "1", "PASSWORD": "hunter2-hunter2"}))
    assert hidden.hide("production 1 hunter2-hunter2") == "production 1 ***"
    assert hidden.clean("production 1") == "*** 1"
