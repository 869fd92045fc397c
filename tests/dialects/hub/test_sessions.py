"""Making, listing, watching, changing, closing and deleting sessions; the pages of a log."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.hub import HubDialectSettings
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL

from .conftest import MakeRig
from .rig import Rig


async def test_the_first_message_says_what_the_server_is(rig: Rig) -> None:
    async with rig.link() as link:
        hello = await link.message("hello")
        assert hello["protocol"] == 1
        assert hello["epoch"] == rig.journal.epoch
        assert (hello["principal"], hello["rights"]) == ("local", ["admin", "approve", "read", "write"])
        assert hello["limits"]["message"] == 16 * 1024 * 1024


async def test_a_heartbeat_comes_by_itself(make_rig: MakeRig) -> None:
    """V1: visible to a page, which cannot see pings."""
    rig = await make_rig(settings=HubDialectSettings(heartbeat=0.05))
    async with rig.link() as one, rig.link() as two:
        assert (await one.message("heartbeat", 3))["at"] > 1_600_000_000_000
        await two.message("heartbeat", 2)


async def test_a_session_is_made_shown_closed_and_deleted(rig: Rig) -> None:
    async with rig.link() as link:
        made = await link.ask("create", kind="scripted", cwd=str(rig.folder), title="mine", agent="parrot")
        session = made["session"]
        snapshot = await link.ask("snapshot", session=session)
        assert snapshot["seq"] == made["seq"]
        assert (snapshot["kind"], snapshot["agent"], snapshot["title"]) == ("scripted", "parrot", "mine")
        assert (snapshot["status"], snapshot["owner"], snapshot["closed"]) == ("idle", "local", None)
        await link.ask("close", session=session)
        assert (await link.ask("snapshot", session=session))["status"] == "closed"
        assert await link.refused("submit", session=session, text="hi") == "closed"
        await link.ask("close", session=session)
        await link.ask("delete", session=session)
        assert await link.refused("snapshot", session=session) == "gone"
        assert await link.refused("delete", session=session) == "gone"


async def test_a_session_may_be_made_with_settings(rig: Rig) -> None:
    async with rig.link() as link:
        made = await link.ask("create", kind="scripted", cwd=str(rig.folder), settings={"model": "big"}, start=False)
        assert (await link.ask("snapshot", session=made["session"]))["settings"] == {"model": "big"}
        assert await link.refused("create", kind="scripted", cwd=str(rig.folder), settings={"owner": "me"}) == (
            "invalid_request"
        )


async def test_what_cannot_be_made_says_why_and_leaves_nothing(rig: Rig) -> None:
    cwd = str(rig.folder)
    async with rig.link() as link:
        assert await link.refused("create", kind="nonsense", cwd=cwd) == "invalid_request"
        assert await link.refused("create", kind="scripted", cwd="/no/such/folder") == "invalid_request"
        assert await link.refused("create", kind="scripted", cwd="x" * 5000) == "invalid_request"
        assert await link.refused("create", kind="scripted", cwd="/" + "x" * 5000) == "invalid_request"
        assert (
            await link.refused("create", kind="terminal", cwd=cwd, options={"command": ["nope"]}) == "invalid_request"
        )
        assert (await link.ask("list"))["sessions"] == []


async def test_a_session_that_cannot_be_started_is_not_kept(rig: Rig) -> None:
    program = rig.folder / "program"
    program.write_text("not a program at all")
    program.chmod(0o755)
    async with rig.link() as link:
        answer = await link.answer(
            await link.send("create", kind="terminal", cwd=str(rig.folder), options={"command": [str(program)]})
        )
        rows = (await link.ask("list"))["sessions"]
        assert (answer["type"] == "ok") == (len(rows) == 1)


@pytest.mark.parametrize(
    "config",
    [
        {"settings": 1},
        {"settings": {"hooks": [1]}},
        {"settings": {"permissions": {"allow": {}}}},
        {"hooks": {}},
        {"mcp": []},
    ],
)
async def test_a_config_that_no_agent_can_have_is_refused(rig: Rig, config: dict[str, Any]) -> None:
    options = {"command": ["cat"], "agent_config": config}
    async with rig.link() as link:
        asked = {"kind": "terminal", "agent": "claude", "cwd": str(rig.folder), "options": options}
        assert await link.refused("create", **asked) == "invalid_request"
        assert (await rig.http("POST", "/sessions", asked)).code == (400, "invalid_request")
        assert (await link.ask("list"))["sessions"] == []


async def test_a_session_whose_settings_cannot_be_used_can_be_started_once_they_can(rig: Rig) -> None:
    given = rig.folder / "given"
    given.write_bytes(b"\xff\0")
    command = ["sh", "-c", "exec cat", "sh", "--settings", "given"]
    asked = {"kind": "terminal", "agent": "claude", "cwd": str(rig.folder), "options": {"command": command}}
    assert (await rig.http("POST", "/sessions", asked)).code == (400, "invalid_request")
    session = (await rig.http("POST", "/sessions", asked | {"start": False})).json["session"]
    assert (await rig.http("POST", f"/sessions/{session}/start")).code == (400, "invalid_request")
    given.write_text("{}")
    assert (await rig.http("POST", f"/sessions/{session}/start")).status == 200
    assert (await rig.http("GET", f"/sessions/{session}/screen")).status == 200


async def test_lists_are_filtered_and_bounded_newest_last(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(rows=5))
    sessions = [(await rig.session()).id for _ in range(8)]
    await (await rig.registry.get(LOCAL, sessions[7])).close("test")
    async with rig.link() as link:
        rows = await link.ask("list")
        assert [row["session"] for row in rows["sessions"]] == sessions[3:]
        assert rows["has_more"] is True
        assert [row["session"] for row in (await link.ask("list", status="closed"))["sessions"]] == sessions[7:]
        assert (await link.ask("list", kind="terminal"))["sessions"] == []
        assert [row["session"] for row in (await link.ask("list", limit=1))["sessions"]] == sessions[7:]
    assert rows["sessions"][0]["head"] == 1


async def test_watching_tells_of_every_change_and_of_the_end(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        rows = (await link.ask("watch"))["sessions"]
        assert [row["session"] for row in rows] == [session.id]
        made = (await link.ask("create", kind="scripted", cwd=str(rig.folder)))["session"]
        await link.ask("submit", session=made, text="wait")
        await link.until(lambda: [m for m in link.of("session") if m["status"] == "working"], "working")
        await link.ask("cancel", session=made)
        await link.ask("settings", session=made, settings={"title": "renamed"})
        await link.until(lambda: [m for m in link.of("session") if m["title"] == "renamed"], "renamed")
        await link.ask("delete", session=made)
        await link.until(lambda: [m for m in link.of("session") if m.get("dropped")], "dropped")
        assert {m["session"] for m in link.of("session")} == {made}
        count = len(link.messages)
        await link.ask("unwatch")
        await session.change_settings(LOCAL, {"title": "unseen"})
        await link.ask("ping")
        assert [m["type"] for m in link.messages[count:]] == ["ok", "ok"]


async def test_settings_change_and_go_and_the_place_of_a_session_does_not(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("settings", session=session.id, settings={"model": "big", "mode": "plan"})
        answer = await link.ask("settings", session=session.id, settings={"mode": None})
        snapshot = await link.ask("snapshot", session=session.id)
        assert snapshot["settings"] == {"model": "big"}
        assert answer["seq"] == snapshot["seq"]
        for settings in ({"cwd": "/"}, {"owner": "me"}, {"title": 5}):
            assert await link.refused("settings", session=session.id, settings=settings) == "invalid_request"


async def test_history_is_paged_newest_first_and_every_event_comes_once(make_rig: MakeRig) -> None:
    """V39."""
    rig = await make_rig(limits=HubLimits(tail_events=30))
    session = await rig.session()
    await rig.play(session, "burst 400")
    async with rig.link() as link:
        page = await link.ask("events", session=session.id, limit=50)
        assert (page["last"], page["head"], page["has_more"]) == (session.shown.seq, session.shown.seq, True)
        seen = page["events"]
        while page["has_more"]:
            page = await link.ask("events", session=session.id, before=page["first"], limit=50)
            seen = page["events"] + seen
        assert [event["seq"] for event in seen] == list(range(1, session.shown.seq + 1))
        forward, cursor, more = [], 0, True
        while more:
            page = await link.ask("events", session=session.id, after=cursor, limit=64)
            forward += page["events"]
            cursor, more = page["last"], page["has_more"]
        assert forward == seen


async def test_the_edges_of_paging(rig: Rig) -> None:
    session = await rig.session()
    head = session.shown.seq
    async with rig.link() as link:
        page = await link.ask("events", session=session.id, after=head)
        assert (page["events"], page["first"], page["last"], page["has_more"]) == ([], None, None, False)
        page = await link.ask("events", session=session.id, before=1)
        assert (page["events"], page["has_more"]) == ([], False)
        page = await link.ask("events", session=session.id, before=10**9)
        assert page["last"] == head
        assert await link.refused("events", session=session.id, after=head + 1) == "invalid_request"
        assert await link.refused("events", session=session.id, after=0, before=1) == "invalid_request"
        assert await link.refused("events", session=session.id, limit=0) == "invalid_request"


async def test_pages_are_bounded_in_bytes_at_the_right_end(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(page_bytes=10_000))
    session = await rig.session()
    await rig.play(session, "\n".join("say " + "y" * 4000 for _ in range(5)))
    async with rig.link() as link:
        newest = await link.ask("events", session=session.id)
        assert newest["last"] == session.shown.seq
        assert newest["has_more"] is True
        oldest = await link.ask("events", session=session.id, after=0)
        assert oldest["first"] == 1
        assert oldest["has_more"] is True
        everywhere = await link.ask("newest")
        assert everywhere["events"][-1]["seq"] == session.shown.seq
        assert len(everywhere["events"]) < session.shown.seq


async def test_the_newest_events_of_all_sessions_in_the_order_they_were_written(rig: Rig) -> None:
    one, two = await rig.session(), await rig.session()
    for session in (one, two, one):
        await rig.play(session, "say hello")
    async with rig.link() as link:
        events = (await link.ask("newest", limit=20))["events"]
        assert len(events) == 20
        assert {event["session"] for event in events} == {one.id, two.id}
        assert events[-1]["session"] == one.id
        assert {"session", "seq", "at", "epoch", "fact"} == events[0].keys()
