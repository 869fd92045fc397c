"""The seed's flows around a turn: models, providers and signing in, commands, skills, backups, observability."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.errors import Refused

from .conftest import MakeServer
from .rig import BEGIN, END, Coworker, calls, kinds, of, script, without_stream

# Models and providers


async def test_model_change(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        config = await link.client.set_model(" gpt-5.2 ", "openai")
        assert kinds(link.frames[link.mark :]) == ["config_updated"]
        hello = link.frames[0]["config"]
        assert config == {**hello, "provider": "openai", "model": "gpt-5.2"}
        assert await link.client.set_model("made-up") == {**config, "model": "made-up"}
        with pytest.raises(Refused) as refused:
            await link.client.set_model("x", "nope")
        assert (refused.value.code, refused.value.message) == ("validation_failed", "set_model invalid provider: nope")


async def test_provider_bootstrap(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        catalog, methods, status = await asyncio.gather(
            link.client.catalog(), link.client.auth_methods(), link.client.provider_status()
        )
        assert sorted(kinds(link.frames[link.mark :])) == [
            "provider_auth_methods",
            "provider_catalog",
            "provider_status",
        ]
        ids = ["google", "openai", "anthropic", "codex-cli", "claude-code"]
        assert [entry["id"] for entry in catalog["all"]] == ids == list(catalog["default"]) == list(methods)
        assert {entry["defaultModel"] == catalog["default"][entry["id"]] for entry in catalog["all"]} == {True}
        assert [entry["provider"] for entry in status] == ids
        assert methods["openai"] == [{"id": "api_key", "type": "api", "label": "API key"}]
        assert methods["codex-cli"][0] == {
            "id": "oauth_cli",
            "type": "oauth",
            "label": "Sign in with Codex CLI",
            "oauthMode": "auto",
        }
        for entry in status:
            assert datetime.fromisoformat(entry["checkedAt"]).utcoffset() == timedelta(0)
        assert status[0] | {"checkedAt": ""} == {
            "provider": "google",
            "authorized": False,
            "verified": False,
            "mode": "missing",
            "account": None,
            "message": "Not connected.",
            "checkedAt": "",
        }


FAKE_CODEX = """#!/bin/sh
[ "$1" = login ] || exit 1
echo open https://auth.example/
mkdir -p "$HOME/.codex"
echo '{"tokens":{"access_token":"x","refresh_token":"y"}}' > "$HOME/.codex/auth.json"
"""


async def test_provider_auth_by_oauth(make_server: MakeServer, tmp_path: Path) -> None:
    codex = tmp_path / "codex"
    codex.write_text(FAKE_CODEX)
    codex.chmod(0o755)
    served = await make_server(codex=str(codex))
    async with served.client() as link:
        await link.connected()
        challenge = await link.client.authorize("codex-cli", "oauth_cli")
        assert challenge == {
            "method": "auto",
            "instructions": "Run Codex CLI sign-in, then continue.",
            "command": "codex login",
        }
        result = await link.client.sign_in("codex-cli", "oauth_cli")
        assert (result["ok"], result["mode"]) == (True, "oauth")
        await link.next("provider_auth_result")
        status = await link.next("provider_status")
        await link.next("provider_catalog")
        told = [kind for kind in kinds(link.frames) if kind != "log"]
        assert told[6:] == ["provider_auth_challenge", "provider_auth_result", "provider_status", "provider_catalog"]
        assert status["providers"][3]["mode"] == "oauth"
        lines = [frame["line"] for frame in of(link.frames, "log")]
        assert lines == [
            f"[connect codex-cli] [auth] {line}" for line in ("running: codex login", "open https://auth.example/")
        ]


async def test_provider_auth_by_key(make_server: MakeServer) -> None:
    served = await make_server()
    async with served.client() as link:
        await link.connected()
        result = await link.client.set_key("openai", "  sk-proj-0123456789abcdef  ")
        assert result == {
            "type": "provider_auth_result",
            "sessionId": link.client.session,
            "provider": "openai",
            "methodId": "api_key",
            "ok": True,
            "mode": "api_key",
            "message": "Provider key saved.",
        }
        await link.next("provider_auth_result")
        status, catalog = await link.next("provider_status"), await link.next("provider_catalog")
        assert (status["providers"][1]["authorized"], status["providers"][1]["mode"]) == (True, "api_key")
        assert catalog["connected"] == ["openai"]
        with pytest.raises(Refused) as refused:
            await link.client.authorize("openai", "api_key")
        assert refused.value.message == 'Auth method "api_key" does not support authorization.'
        assert (refused.value.code, refused.value.detail["source"]) == ("provider_error", "provider")
        wrong = await link.client.sign_in("openai", "api_key")
        assert (wrong["ok"], wrong["message"]) == (False, 'Method "api_key" is not an OAuth method.')
        assert "mode" not in wrong
    assert "0123456789abcdef" not in json.dumps(link.frames) + served.log.read_text()


# Commands and skills


async def test_command_execution(served: Coworker) -> None:
    (served.work / ".agent").mkdir(exist_ok=True)
    command = {"greet": {"template": script("say Hello $1 and $2"), "description": "greet people"}}
    (served.work / ".agent" / "config.json").write_text(json.dumps({"command": command}))
    async with served.client() as link:
        await link.connected()
        commands = {found["name"]: found for found in await link.client.commands()}
        assert {"init", "review", "greet"} <= commands.keys()
        assert commands["greet"] == {
            "name": "greet",
            "description": "greet people",
            "source": "command",
            "hints": ["$1", "$2"],
        }
        link.mark = len(link.frames)
        echo = await link.client.run("GREET", "  Ann 'Bob C'  ", message_id="cm-123")
        assert (echo["text"], echo["clientMessageId"]) == ("/greet Ann 'Bob C'", "cm-123")
        frames = await link.settled()
        assert without_stream(frames) == [*BEGIN, "assistant_message", *END]
        assert of(frames, "assistant_message")[0]["text"] == "Hello Ann and Bob C"
        with pytest.raises(Refused) as refused:
            await link.client.run("nope")
        assert (refused.value.code, refused.value.message) == ("validation_failed", "Unknown command: nope")
        assert refused.value.detail["source"] == "session"


async def test_skills_are_listed_read_switched_and_deleted(served: Coworker) -> None:
    folder = served.home / ".cowork" / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: Use for forms\n---\n\n# PDF\nTRIGGERS: pdf, form\n")
    async with served.client() as link:
        await link.connected()
        (skill,) = [skill for skill in await link.client.skills() if skill["name"] == "pdf"]
        assert skill | {"path": ""} == {
            "name": "pdf",
            "path": "",
            "source": "global",
            "enabled": True,
            "triggers": ["pdf", "form"],
            "description": "Use for forms",
        }
        read = await link.client.read_skill(" pdf ")
        assert (read["skill"], read["content"]) == (skill, "# PDF\nTRIGGERS: pdf, form\n")
        link.mark = len(link.frames)
        off = await link.client.disable_skill("pdf")
        assert [one["enabled"] for one in off if one["name"] == "pdf"] == [False]
        await link.next("commands")
        assert kinds(link.frames[link.mark - 2 : link.mark]) == ["skills_list", "commands"]
        assert (served.home / ".cowork" / "disabled-skills" / "pdf").is_dir()
        await link.client.enable_skill("pdf")
        assert "pdf" not in [one["name"] for one in await link.client.delete_skill("pdf")]
        assert not folder.exists()
        for problem, change in (
            ('Skill "pdf" not found.', link.client.read_skill("pdf")),
            ("Only global skills can be disabled in v1.", link.client.disable_skill("debug")),
        ):
            with pytest.raises(Refused) as refused:
                await change
            assert (refused.value.code, refused.value.message) == ("validation_failed", problem)


# Backups


async def test_backup_and_checkpoint_flow(make_server: MakeServer) -> None:
    served = await make_server()
    file = served.work / "notes.txt"
    file.write_text("before")
    async with served.client() as link:
        await link.connected()
        state = await link.client.backup()
        assert (state["status"], state["sessionId"], state["checkpoints"]) == ("ready", link.client.session, [])
        assert state["workingDirectory"] == str(served.work)
        assert state["backupDirectory"] == str(served.home / ".cowork" / "session-backups" / link.client.session)
        assert state["originalSnapshot"] == {"kind": "directory"}
        frames = await link.turn(script(*calls(("write", {"filePath": "notes.txt", "content": "after"})), "say Done."))
        (saved,) = of(frames, "session_backup_state")
        assert saved["reason"] == "auto_checkpoint"
        (checkpoint,) = saved["backup"]["checkpoints"]
        assert (checkpoint["id"], checkpoint["index"], checkpoint["trigger"]) == ("cp-0001", 1, "auto")
        assert (checkpoint["changed"], checkpoint["patchBytes"] > 0) == (True, True)
        await link.turn(script(*calls(("write", {"filePath": "notes.txt", "content": "later"})), "say Done."))
        assert len((await link.client.restore("cp-0001"))["checkpoints"]) == 2
        assert file.read_text() == "after"
        await link.client.restore()
        assert file.read_text() == "before"
        unchanged = (await link.client.checkpoint())["checkpoints"][-1]
        assert (unchanged["trigger"], unchanged["changed"]) == ("manual", False)
        left = (await link.client.delete_checkpoint("cp-0001"))["checkpoints"]
        assert "cp-0001" not in [one["id"] for one in left]
        again = (await link.client.checkpoint())["checkpoints"]
        assert len({one["id"] for one in again}) == len(again), "no id is used twice"
        assert [frame["reason"] for frame in of(link.frames, "session_backup_state")] == [
            *("requested", "auto_checkpoint", "auto_checkpoint", "restore", "restore"),
            *("manual_checkpoint", "delete", "manual_checkpoint"),
        ]
        with pytest.raises(Refused) as refused:
            await link.client.delete_checkpoint("cp-0099")
        assert (refused.value.code, refused.value.message) == ("validation_failed", "Unknown checkpoint id: cp-0099")
        with pytest.raises(Refused) as refused:
            await link.client.restore("cp-0099")
        assert (refused.value.code, refused.value.detail["source"]) == ("backup_error", "backup")
        assert file.read_text() == "before"


# Observability and harness


async def test_harness_context_queries_and_promises(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        assert await link.client.harness_context() is None
        given: dict[str, Any] = {
            "runId": " run-01 ",
            "taskId": " ",
            "objective": "Improve startup",
            "acceptanceCriteria": ["startup < 800ms", " "],
            "constraints": [],
            "metadata": {"owner": "platform"},
            "unknown": 1,
        }
        kept = await link.client.set_harness_context(given)
        assert datetime.fromisoformat(kept.pop("updatedAt")).utcoffset() == timedelta(0)
        assert kept == {
            "runId": "run-01",
            "objective": "Improve startup",
            "acceptanceCriteria": ["startup < 800ms"],
            "constraints": [],
            "metadata": {"owner": "platform"},
        }
        result = await link.client.query({"queryType": "promql", "query": "up", "fromMs": 1000.7, "toMs": 2000})
        assert result == {
            "queryType": "promql",
            "query": "up",
            "fromMs": 1000,
            "toMs": 2000,
            "status": "error",
            "data": None,
            "error": "Observability is disabled for this session.",
        }
        check = {"type": "custom", "queryType": "promql", "query": "up", "op": "<=", "threshold": 0, "windowSec": 300}
        outcome = await link.client.evaluate([{"id": "errors", **check}])
        assert (outcome["reportOnly"], outcome["strictMode"], outcome["passed"]) == (True, False, False)
        assert outcome["checks"] == [
            {"id": "errors", **check, "actual": None, "pass": False, "reason": result["error"]},
        ]
        await link.client.set_enable_mcp(enable=False)
        assert (await link.next("session_settings", enableMcp=False))["enableMcp"] is False
