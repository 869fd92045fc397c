"""What Claude is launched with, and what is left alone: ``--resume``, ``--groom`` and ``--agent-config``.

From end to end: the fake agent stands for it, so that what it was given has its effect too.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.terminal.drivers.claude import HOOKS
from dragoman.agents.terminal.drivers.hook_socket import hook_command
from tests.dialects.coop.harness import Link, Server, eventually
from tests.fake_agent import record
from tests.fake_agent.rig import command

Json = dict[str, Any]


class Run:
    """One ``dragoman run`` in a place, and a client that sees states."""

    def __init__(self, place: Place, server: Server, link: Link) -> None:
        self.place, self.server, self.link = place, server, link

    async def pid(self) -> int:
        return int((await self.link.status())["pid"])

    async def added(self) -> list[str]:
        """What stands behind the command that was asked for."""
        words = Path(f"/proc/{await self.pid()}/cmdline").read_text().split("\0")[:-1]
        return words[len(self.place.command) :]

    async def environment(self) -> dict[str, str]:
        text = Path(f"/proc/{await self.pid()}/environ").read_text()
        return dict(line.split("=", 1) for line in text.split("\0")[:-1])

    async def becomes(self, state: str) -> Json:
        """Wait until a client is told so."""
        now = await self.link.ask({"event": "state:get"}, "transition")
        if now["next"] == state:
            return now
        return await self.link.expect(lambda frame: frame["event"] == "transition" and frame["next"] == state, 20)

    async def turn(self, prompt: str) -> Json:
        """A prompt from its delivery to the end of its turn."""
        await self.becomes("idle")
        result = await self.link.ask({"event": "nudge", "message": prompt}, "nudge:result")
        assert result["delivered"], result
        assert self.place.effects("submitted")[-1]["text"] == prompt
        return await self.becomes("idle")

    def facts(self) -> list[Json]:
        """All that is in the log."""
        (row,) = self.server.http("GET", "/hub/sessions").json["sessions"]
        path = f"/hub/sessions/{row['session']}/events"
        events: list[Json] = []
        while page := self.server.http("GET", f"{path}?after={len(events)}").json["events"]:
            events += page
        return [event["fact"] for event in events]

    async def said(self, text: str) -> list[str]:
        """Once it has said this, all messages in the log; prompts that went through us stand elsewhere."""

        def messages() -> list[str]:
            added = [fact["text"] for fact in self.facts() if fact["type"] == "message.added"]
            return added if text in added else []

        return await eventually(messages, text)


class Place:
    """A home and a project in which one agent is run after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.project, self.temporary = folder / "home", folder / "project", folder / "t"
        for made in (self.home, self.project, self.temporary):
            made.mkdir()
        self.record = folder / "record"
        self.command: list[str] = []
        self._runs = 0

    @property
    def transcript(self) -> Path:
        """The only one there is."""
        (found,) = self.home.glob(".claude/projects/*/*.jsonl")
        return found

    def effects(self, name: str) -> list[Json]:
        return [entry for entry in record.read(self.record) if entry.get("effect") == name]

    @contextlib.asynccontextmanager
    async def run(self, *args: str, agent: str = "claude", flags: tuple[str, ...] = ()) -> AsyncIterator[Run]:
        """``args`` are for ``run``, ``flags`` for the agent."""
        self._runs += 1
        self.command = command("--record", str(self.record), *flags)
        server = Server(
            self.command,
            folder=self.folder / f"run-{self._runs}",
            args=["--agent", agent, "--cols", "110", "--rows", "40", *args],
            env={"HOME": str(self.home), "TMPDIR": str(self.temporary)},
            cwd=self.project,
        )
        try:
            async with server.link("state") as link:
                yield Run(self, server, link)
        finally:
            server.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --resume


@pytest.mark.parametrize("flags", [(), ("--no-hooks",)], ids=["hooks", "no hooks"])
@pytest.mark.parametrize(
    "hint",
    [lambda place: str(place.transcript), lambda place: str(place.project), lambda place: place.transcript.stem],
    ids=["path", "folder", "id"],
)
async def test_a_resumed_session_goes_on_from_the_end_of_its_log(
    place: Place, hint: Callable[[Place], str], flags: tuple[str, ...]
) -> None:
    async with place.run() as run:
        await run.turn("[[say:The old answer.]]")
        assert await run.said("The old answer.") == ["The old answer."]
    before = place.transcript.read_text()
    assert "The old answer." in before
    async with place.run("--resume", hint(place), flags=flags) as run:
        resumed, session, with_settings, settings = await run.added()
        assert (resumed, session, with_settings) == ("--resume", place.transcript.stem, "--settings")
        assert set(json.loads(Path(settings).read_text())["hooks"]) == set(HOOKS)
        assert (await run.becomes("idle"))["last_message"] is None
        await run.turn("[[say:The new answer.]]")
        assert await run.said("The new answer.") == ["The new answer."]
        assert "The old answer." not in json.dumps(run.facts())
        assert place.transcript.read_text().startswith(before), "it went on in the same log"


# --groom


SETTLED = 1.0
"""Seconds in which a dialog that is answered by itself would have been, several times over."""


def hurried(place: Place) -> list[str]:
    """Flags with which a set-up dialog is answered at once, if at all."""
    config = place.folder / "config.toml"
    config.write_text("[terminal.driver]\ngroom_delay = 0.05\n")
    return ["--config", str(config)]


async def test_auto_answers_what_needs_no_human(place: Place) -> None:
    async with place.run(*hurried(place), flags=("--trust", "332")) as run:
        await run.becomes("idle")
        assert [effect["result"] for effect in place.effects("trust")] == ["allowed"]


@pytest.mark.parametrize("groom", ["manual", "pristine"])
async def test_the_others_leave_every_dialog_to_clients(place: Place, groom: str) -> None:
    async with place.run(*hurried(place), "--groom", groom, flags=("--trust", "332")) as run:
        told = await run.becomes("prompt")
        while not told["prompt"]["ready"]:
            told = await run.link.expect("transition")
        assert told["prompt"]["subtype"] == "trust"
        await run.link.silence(SETTLED)
        assert place.effects("trust") == []
        result = await run.link.ask({"event": "respond", "accept": True}, "respond:result")
        assert result["delivered"], result
        await run.becomes("idle")
        assert [effect["result"] for effect in place.effects("trust")] == ["allowed"]


async def test_manual_installs_what_auto_does(place: Place) -> None:
    async with place.run("--groom", "manual") as run:
        given, _, with_settings, settings = await run.added()
        assert (given, with_settings) == ("--session-id", "--settings")
        assert set(json.loads(Path(settings).read_text())["hooks"]) == set(HOOKS)
        assert Path((await run.environment())["DRAGOMAN_HOOKS"]).is_socket()
        await run.turn("hello")
        assert "hook.answered" in {fact["type"] for fact in run.facts()}


async def test_pristine_leaves_the_agent_as_it_is(place: Place) -> None:
    """No settings, no hooks, and the environment of a program that nobody knows, but for the secret by which hooks that
    the person has installed are known for those of a session of ours; its log and screen tell enough."""
    async with place.run(agent="unknown") as run:
        plain = await run.environment()
        assert await run.added() == []
    async with place.run("--groom", "pristine") as run:
        given, session = await run.added()
        assert given == "--session-id"
        differs = {"COOP_URL", "DRAGOMAN_SESSION"}
        environment = await run.environment()
        assert set(environment) - set(plain) == {"DRAGOMAN_HOOK_SECRET"}
        assert {name for name in plain if plain[name] != environment[name]} <= differs
        await run.turn("[[say:All the same.]]")
        assert not list(place.temporary.glob("dragoman-hooks-*"))
        written = [path.name for path in run.server.data.rglob("*") if path.suffix == ".json"]
        assert not [name for name in written if "settings" in name or "mcp" in name]
        assert place.transcript.stem == session
        assert await run.said("All the same.") == ["All the same."]
        assert not any("hook" in fact["type"] or "hook" in fact.get("cause", "") for fact in run.facts())


# --agent-config


async def test_an_agent_config_is_joined_with_what_the_command_gives_and_with_ours(place: Place) -> None:
    def runs(line: str) -> Json:
        return {"matcher": "", "hooks": [{"type": "command", "command": line}]}

    by_command, by_config = (runs(f"touch {place.project}/{name}") for name in ("by-command", "by-config"))
    own = {"model": "own", "env": {"A": "1"}, "hooks": {"Stop": [by_command]}, "permissions": {"allow": ["Read"]}}
    config = {
        "settings": {
            "model": "theirs",
            "hooks": {"Stop": [by_config], "PreCompact": [by_config]},
            "permissions": {"allow": ["Bash(ls:*)"], "deny": ["WebFetch"]},
        },
        "mcp": {"files": {"command": "mcp-files", "args": ["--root", "."]}},
    }
    file = place.folder / "agent.json"
    file.write_text(json.dumps(config))
    async with place.run("--agent-config", str(file), flags=("--settings", json.dumps(own))) as run:
        given, _, with_settings, settings, with_servers, servers = await run.added()
        assert (given, with_settings, with_servers) == ("--session-id", "--settings", "--mcp-config")
        for path in (settings, servers):
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
            assert Path(path).is_relative_to(run.server.data)
        assert json.loads(Path(servers).read_text()) == {"mcpServers": config["mcp"]}

        held = json.loads(Path(settings).read_text())
        ours = {event: runs(hook_command(event)) for event in HOOKS}
        assert held.pop("hooks") == {
            **{event: [entry] for event, entry in ours.items()},
            "Stop": [by_command, by_config, ours["Stop"]],
            "PreCompact": [by_config, ours["PreCompact"]],
        }
        permissions = held.pop("permissions")
        assert permissions["allow"][0] == "Bash(ls:*)"
        assert permissions["deny"] == ["WebFetch"]
        assert held == {"model": "theirs", "env": {"A": "1"}}

        await run.turn("hello")
        await eventually((place.project / "by-config").exists, "the config's hook has run")
        assert (place.project / "by-command").exists()
        answered = [fact["hook"] for fact in run.facts() if fact["type"] == "hook.answered"]
        assert answered == ["start", "stop"], "and ours beside them"
