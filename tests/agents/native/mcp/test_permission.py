"""Who may have a server of a project, and which calls of a server's tools are asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.hub.errors import NotPermitted
from dragoman.hub.events import Answer, DecisionOpened
from dragoman.hub.permissions import LOCAL, Principal, Right
from dragoman.hub.session import Session
from tests.agents.native.native_rig import answered, asked, of, outcome, script, settled
from tests.hub.rig import until

from .mcp_rig import Configs, alive, demo, ends, lines, mcp_hub, said, text_of

ECHO = script('call mcp__demo__echo {"text": "hello"}')


def projects(**more: Any) -> Any:
    """The entry of a demo server that the project wants."""
    return demo(layer="project", **more)


async def answer(session: Session, option: int, by: Principal = LOCAL) -> DecisionOpened:
    opened = await asked(session)
    await session.answer(by, opened.decision, Answer(option=option), via="test")
    return opened


async def there(session: Session) -> None:
    await said(session, "Connected to demo")


# Servers of projects


async def test_a_projects_server_is_not_started_unasked_and_holds_up_no_turn(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(projects())) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say at once"))
        assert outcome(facts) == "completed"
        (opened,) = of(facts, DecisionOpened)
        entry = projects()
        assert (opened.kind, opened.tool, opened.turn) == ("permission", "mcp", None)
        assert opened.text == f"PYTHONPATH=… {entry.command} {entry.args[0]}"
        assert opened.input["environment"] == ["PYTHONPATH"]
        assert [option.label for option in opened.options] == [
            "Yes, for this session",
            "Yes, always for this server here",
            "No",
        ]
        assert not alive(session.id)
        await hub.turn(session, script("say more"))
        assert len(session.state.decisions) == 1, "it is asked once"


async def test_a_yes_for_the_session_starts_it_and_holds_when_the_servers_are_begun_anew(tmp_path: Path) -> None:
    configs = Configs(projects())
    consents = tmp_path / "keys" / "mcp.json"
    async with mcp_hub(tmp_path, configs, consents=consents) as hub:
        session = await hub.session(mode="all")
        await hub.turn(session, script("say ask"))
        await answer(session, 1)
        await there(session)
        assert text_of(ends(await hub.turn(session, ECHO))[0]) == "hello"
        await hub.restart()
        session = await hub.get(session)
        facts = await hub.turn(session, ECHO)
        assert not of(facts, DecisionOpened)
        assert text_of(ends(facts)[0]) == "hello"
        other = await hub.session()
        assert of(await hub.turn(other, script("say ask")), DecisionOpened), "another session is asked"


async def test_a_yes_for_good_holds_in_other_sessions_and_a_changed_entry_is_asked_about_again(tmp_path: Path) -> None:
    configs = Configs(projects(env={"API_KEY": "a-very-secret-key"}))
    consents = tmp_path / "keys" / "mcp.json"
    async with mcp_hub(tmp_path, configs, consents=consents) as hub:
        session = await hub.session(mode="all")
        await hub.turn(session, script("say ask"))
        await answer(session, 2)
        await there(session)
        await until(consents.exists, "it is kept")
        await until(lambda: "permitted" in consents.read_text() and '"permitted":[]' not in consents.read_text())
        assert consents.stat().st_mode & 0o777 == 0o600
        assert "a-very-secret-key" not in consents.read_text()
    async with mcp_hub(tmp_path, configs, consents=consents) as hub:
        session = await hub.session(mode="all")
        facts = await hub.turn(session, ECHO)
        assert not of(facts, DecisionOpened)
        assert text_of(ends(facts)[0]) == "hello"
        configs.servers = (projects(env={"API_KEY": "another-secret-key"}),)
        assert of(await hub.turn(session, script("say ask")), DecisionOpened)
        assert [held.server.state for held in session.ensure_agent()._mcp._held.values()] == ["asked"]  # type: ignore[attr-defined]


async def test_a_permission_for_good_is_for_one_folder(tmp_path: Path) -> None:
    consents = tmp_path / "mcp.json"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with mcp_hub(tmp_path / "one", Configs(projects()), consents=consents) as hub:
        session = await hub.session()
        await hub.turn(session, script("say ask"))
        await answer(session, 2)
        await there(session)
        await until(lambda: '"permitted":[]' not in consents.read_text())
    async with mcp_hub(tmp_path / "two", Configs(projects()), consents=consents) as hub:
        session = await hub.session()
        assert of(await hub.turn(session, script("say ask")), DecisionOpened)


async def test_a_no_holds_for_the_session(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(projects())) as hub:
        session = await hub.session()
        await hub.turn(session, script("say ask"))
        await answer(session, 3)
        facts = await hub.turn(session, ECHO)
        assert [end.problem.code for end in ends(facts)] == ["no_such_tool"]
        assert not of(facts, DecisionOpened)
        assert not alive(session.id)
        for enabled in (False, True):
            await session.change_settings(LOCAL, {"enable_mcp": enabled})
            assert not of(await hub.turn(session, ECHO), DecisionOpened), "nor when the servers are begun anew"


async def test_whoever_may_not_approve_can_start_no_server_of_a_project(tmp_path: Path) -> None:
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    async with mcp_hub(tmp_path, Configs(projects())) as hub:
        session = await hub.session()
        await session.change_settings(writer, {"enable_mcp": True})
        await session.submit(writer, script("say ask"), via="test")
        await settled(session)
        with pytest.raises(NotPermitted):
            await answer(session, 1, by=writer)
        assert not alive(session.id)


async def test_a_required_server_of_a_project_holds_its_turn_until_it_is_answered(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(projects(required=True))) as hub:
        session = await hub.session(mode="all")
        await hub.submit(session, ECHO)
        await answer(session, 1)
        await settled(session)
        assert [text_of(end) for end in ends(await hub.facts(session))] == ["hello"]
        other = await hub.session()
        await hub.submit(other, ECHO)
        await answer(other, 3)
        await settled(other)
        assert outcome(await hub.facts(other)) == "failed"


@pytest.mark.parametrize(("rule", "found"), [("trust", True), ("ignore", False)])
async def test_projects_may_be_trusted_or_ignored_as_a_whole(tmp_path: Path, rule: str, found: bool) -> None:
    async with mcp_hub(tmp_path, Configs(projects(trusted=True)), project_servers=rule) as hub:
        session = await hub.session()
        facts = await hub.turn(session, ECHO)
        assert not of(facts, DecisionOpened)
        assert (ends(facts)[0].status == "ok") is found


async def test_a_command_that_shows_as_another_is_shown_as_it_is(tmp_path: Path) -> None:
    sly = msgspec.structs.replace(projects(), command="/bin/echo", args=("a\nb", "\u202egnp.exe"))
    async with mcp_hub(tmp_path, Configs(sly)) as hub:
        session = await hub.session()
        (opened,) = of(await hub.turn(session, script("say ask")), DecisionOpened)
        assert opened.text == "PYTHONPATH=… /bin/echo 'a\\nb' '\\u202egnp.exe'"


async def test_a_command_too_long_to_be_shown_is_not_asked_about(tmp_path: Path) -> None:
    long = msgspec.structs.replace(projects(), args=("x" * 5000,))
    async with mcp_hub(tmp_path, Configs(long)) as hub:
        session = await hub.session()
        facts = await hub.turn(session, script("say ask"))
        assert not of(facts, DecisionOpened)
        assert lines(facts) == ["[MCP] Skipped demo: its command is too long to be shown to a person"]


async def test_a_plain_yes_holds_when_the_servers_are_begun_anew(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(projects())) as hub:
        session = await hub.session(mode="all")
        await hub.turn(session, script("say ask"))
        opened = await asked(session)
        await session.answer(LOCAL, opened.decision, Answer(accept=True), via="test")
        await there(session)
        await session.change_settings(LOCAL, {"enable_mcp": False})
        await hub.turn(session, script("say off"))
        await session.change_settings(LOCAL, {"enable_mcp": True})
        facts = await hub.turn(session, ECHO)
        assert not of(facts, DecisionOpened)
        assert text_of(ends(facts)[0]) == "hello"


async def test_an_open_question_ends_with_what_it_is_about(tmp_path: Path) -> None:
    configs = Configs(projects())
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        await hub.turn(session, script("say ask"))
        configs.servers = ()
        await hub.turn(session, script("say never mind"))
        assert not session.state.decisions


# Calls


async def test_calls_of_a_server_that_is_not_trusted_are_asked_about_once_per_tool_or_for_all(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo(trusted=False))) as hub:
        session = await hub.session()
        await hub.submit(session, ECHO)
        opened = await answered(session, 1)
        assert (opened.tool, opened.text) == ("mcp__demo__echo", 'demo: echo {"text":"hello"}')
        assert opened.input == {"text": "hello"}
        await hub.submit(session, ECHO)
        await answered(session, 2)
        assert not of(await hub.turn(session, ECHO), DecisionOpened), "this tool is granted"
        add = script('call mcp__demo__add {"a": 1, "b": 2}')
        await hub.submit(session, add)
        await answered(session, 3)
        facts = await hub.turn(session, script('call mcp__demo__fail {"why": "granted too"}'))
        assert not of(facts, DecisionOpened), "every tool of the server is granted"
        assert ends(facts)[0].problem.message.endswith("granted too")


async def test_a_refused_call_does_not_reach_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with mcp_hub(tmp_path, Configs(demo(trusted=False, env={"NOTES": str(notes)}))) as hub:
        session = await hub.session()
        await hub.submit(session, script("call mcp__demo__hang {}"))
        await answered(session, 4)
        (end,) = ends(await hub.facts(session))
        assert (end.status, end.problem.message) == ("denied", "User rejected this call.")
        assert "hang begins" not in notes.read_text()


async def test_a_grant_does_not_outlive_a_change_of_the_entry(tmp_path: Path) -> None:
    configs = Configs(demo(trusted=False))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session()
        await hub.submit(session, ECHO)
        await answered(session, 3)
        configs.servers = (demo(trusted=False, env={"OTHER": "yes"}),)
        await hub.submit(session, ECHO)
        assert (await answered(session, 1)).tool == "mcp__demo__echo"


async def test_mode_all_asks_about_no_call(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(demo(trusted=False))) as hub:
        session = await hub.session(mode="all")
        facts = await hub.turn(session, ECHO)
        assert not of(facts, DecisionOpened)
        assert text_of(ends(facts)[0]) == "hello"


async def test_plan_mode_calls_only_what_a_trusted_server_says_only_reads(tmp_path: Path) -> None:
    configs = Configs(demo(), demo("strange", trusted=False))
    async with mcp_hub(tmp_path, configs) as hub:
        session = await hub.session(mode="plan")
        calls = (
            'call mcp__demo__echo {"text": "read"}',
            'call mcp__demo__add {"a": 1, "b": 1}',
            'call mcp__strange__echo {"text": "its word is not taken"}',
        )
        facts = await hub.turn(session, script(*calls))
        assert [end.status for end in ends(facts)] == ["ok", "denied", "denied"]
        assert not of(facts, DecisionOpened)


async def test_a_projects_own_word_does_not_make_its_server_trusted(tmp_path: Path) -> None:
    async with mcp_hub(tmp_path, Configs(projects(trusted=True))) as hub:
        session = await hub.session()
        await hub.turn(session, script("say ask"))
        await answer(session, 1)
        await there(session)
        await hub.submit(session, ECHO)
        assert (await answered(session, 1)).tool == "mcp__demo__echo"
