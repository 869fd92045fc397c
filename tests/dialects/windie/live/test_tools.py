"""Tools of clients over real sockets: who is called, what of a result the model sees, links that are lost meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.native.model_server.heard import Result
from tests.agents.native.model_server.script import Answer, Pause, Say, say, use

from .rig import House, MakeHouse, note, scripted


def results(house: House) -> list[str]:
    """What the model was told last of its calls."""
    return [message.text for message in house.asked()[-1].messages if isinstance(message, Result)]


async def test_a_call_and_its_result(house: House) -> None:
    async with house.link() as link:
        turn = await link.ask(scripted("tool"))
        told = await link.over(turn)
    (call,) = link.of("tool-call", turn)
    assert (call["payload"]["tool_name"], call["payload"]["parameters"]) == ("save_note", {"text": "x"})
    assert call["payload"]["request_id"]
    assert call["payload"]["metadata"]["tool_call_id"]
    assert told.calls == ["save_note"]
    assert told.transcript == [("text", "Hello "), ("tool", 'saved {"text":"x"}'), *told.transcript[2:]]
    assert told.answer.endswith("done")
    assert results(house) == ['saved {"text":"x"}']
    link.judge()


async def test_the_providers_id_of_a_call_is_told(house: House) -> None:
    """Bug 10: ids were dropped on the way."""
    text = house.script("named", Answer((use("save_note", {"text": "x"}, id="call_own"),)), say("done"))
    async with house.link() as link:
        turn = await link.ask(text)
        await link.over(turn)
    assert link.of("tool-call", turn)[0]["payload"]["metadata"]["tool_call_id"] == "call_own"
    (result,) = [message for message in house.asked()[-1].messages if isinstance(message, Result)]
    assert result.id == "call_own"


async def test_two_calls_are_one_bundle(house: House) -> None:
    async with house.link() as link:
        turn = await link.ask(scripted("two"))
        told = await link.over(turn)
    (bundle,) = link.of("tool-bundle", turn)
    assert [(tool["name"], tool["args"]) for tool in bundle["payload"]["tools"]] == [
        ("save_note", {"text": "a"}),
        ("save_note", {"text": "b"}),
    ]
    assert "tool-call" not in link.kinds(turn)
    assert told.calls == ["save_note", "save_note"]
    assert len(results(house)) == 2
    assert ["a" in results(house)[0], "b" in results(house)[1]] == [True, True]
    link.judge()


DATA: dict[str, tuple[dict[str, Any], str | None]] = {
    "text": ({"success": True, "data": {"output": "forty-two"}}, "forty-two"),
    "null": ({"success": True, "data": {"output": None}}, None),
    "structured": ({"success": True, "data": {"output": {"stdout": "line-1"}}}, "line-1"),
    "failure with output": (
        {"success": False, "data": {"output": "no disk left"}, "error": "OSError"},
        "no disk left",
    ),
    "failure without output": ({"success": False, "data": {}, "error": "OSError: no disk"}, "OSError: no disk"),
    "failure without data": ({"success": False, "error": "OSError: no disk"}, "OSError: no disk"),
    "side fields": (
        {
            "success": True,
            "data": {
                "output": "seen",
                "system_state": {"active_window": "Secret", "mouse_position": "(1, 2)"},
                "system_state_internal": {"screen_resolution": "Secret"},
                "capture_meta": {"frame_id": "Secret"},
                "readable": "Secret",
            },
            "error": None,
        },
        "seen",
    ),
}


@pytest.mark.parametrize("name", DATA)
async def test_whatever_a_result_has_the_turn_goes_on_and_the_model_sees_its_output(house: House, name: str) -> None:
    """Bugs 8, 9 and 33: failed results hung the turn, side fields were read, a null was refused."""
    result, expected = DATA[name]
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("tool"))
        call = await link.first("tool-call", turn)
        await link.tell("tool-result", request_id=call["payload"]["request_id"], **result)
        assert (await link.over(turn)).outcome == "completed"
    (text,) = results(house)
    assert "Secret" not in text
    if expected is not None:
        assert expected in text
    link.judge()


@pytest.mark.parametrize(
    ("statuses", "status"),
    [(("ok", "ok"), "success"), (("ok", "error"), "partial_failure"), (("error", "error"), "failure")],
)
async def test_a_bundle_of_any_status_is_told_step_by_step(
    house: House, statuses: tuple[str, ...], status: str
) -> None:
    """Bug 11: words of steps and of bundles differed."""
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("two"))
        bundle = await link.first("tool-bundle", turn)
        steps = [
            {"tool": "save_note", "status": each, "output": {"output": f"{each} {number}"}, "debug_trace": "Secret"}
            for number, each in enumerate(statuses)
        ]
        await link.tell(
            "tool-bundle-result", bundle_id=bundle["payload"]["bundle_id"], status=status, step_results=steps
        )
        assert (await link.over(turn)).outcome == "completed"
    for number, (each, text) in enumerate(zip(statuses, results(house), strict=True)):
        assert f"{each} {number}" in text
        assert "Secret" not in text
    link.judge()


async def test_a_bundle_that_was_broken_off_does_not_hang_the_turn(house: House) -> None:
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("two"))
        bundle = await link.first("tool-bundle", turn)
        step = {"tool": "save_note", "status": "error", "output": "broken"}
        await link.tell(
            "tool-bundle-result", bundle_id=bundle["payload"]["bundle_id"], status="failure", step_results=[step]
        )
        assert (await link.over(turn)).outcome == "completed"
    assert len(results(house)) == 2
    link.judge()


async def test_results_that_fit_nothing_are_passed_over(house: House) -> None:
    """Unknown, repeated, late: no event and no reply."""
    async with house.link() as link, house.link("somebody-else") as stranger:
        link.runs = False
        turn = await link.ask(scripted("tool"))
        call = await link.first("tool-call", turn)
        ident = call["payload"]["request_id"]
        wrong = {"success": True, "data": {"output": "forged"}}
        for request in ("nothing", ident + "x"):
            await link.tell("tool-result", request_id=request, **wrong)
        await link.tell("tool-bundle-result", bundle_id=ident, status="success", step_results=[])
        await stranger.tell("tool-result", request_id=ident, **wrong)
        await stranger.barrier()
        await link.barrier()
        assert link.client.turns[turn].state == "open"
        await link.until(lambda: link.held, "the call")
        result = link.held[0]
        await link.release()
        await link.say({**result, "id": "again"})
        assert (await link.over(turn)).outcome == "completed"
        await link.say({**result, "id": "late"})
        await link.barrier()
        assert link.of("error") == []
    assert results(house) == ['saved {"text":"x"}']
    link.judge()


# Several links of one user


async def test_a_call_goes_to_the_link_that_asked_and_is_shown_to_the_other(house: House) -> None:
    async with house.link() as asks, house.link() as sees:
        sees.watches("t1")
        turn = await asks.ask(scripted("tool"), ident="t1")
        await asks.over(turn)
        await sees.over(turn)
        assert (asks.client.turns[turn].calls, sees.client.turns[turn].calls) == (["save_note"], [])
        assert "skip_local_execution" not in asks.of("tool-call", turn)[0]["payload"]["metadata"]
        assert sees.of("tool-call", turn)[0]["payload"]["metadata"]["skip_local_execution"] is True
        assert asks.client.turns[turn].answer == sees.client.turns[turn].answer
        same = [[(event["event_id"], event["sequence"]) for event in link.events(turn)] for link in (asks, sees)]
        assert same[0] == same[1]
    asks.judge()


async def test_a_bundle_goes_to_exactly_one_link(house: House) -> None:
    async with house.link() as asks, house.link() as sees:
        sees.watches("t1")
        turn = await asks.ask(scripted("two"), ident="t1")
        await asks.over(turn)
        told = await sees.over(turn)
        assert asks.client.turns[turn].calls == ["save_note", "save_note"]
        assert (told.calls, told.outcome) == ([], "completed")
        assert sees.of("tool-bundle") == []
    asks.judge()


async def test_each_of_two_links_runs_the_tools_of_its_own_turns(house: House) -> None:
    async with house.link() as one, house.link() as two:
        mine, yours = await one.ask(scripted("tool"), "a"), await two.ask(scripted("tool"), "b")
        for link, own, other in ((one, mine, yours), (two, yours, mine)):
            await link.over(own)
            (call,) = link.of("tool-call", own)
            assert "skip_local_execution" not in call["payload"]["metadata"]
            shown = await link.first("tool-call", other)
            assert shown["payload"]["metadata"]["skip_local_execution"] is True


async def test_a_link_that_joins_in_the_midst_of_a_turn_is_told_all_of_it(house: House) -> None:
    async with house.link() as first:
        turn = await first.ask(scripted("long"))
        await house.gate("long")
        await first.first("streaming-response", turn)
        async with house.link(watches=[(turn, "conv")]) as late:
            await late.first("streaming-response", turn)
            house.open("long")
            told = await late.over(turn)
            await first.over(turn)
            assert (told.outcome, told.text) == ("completed", "Long story")
            assert [event["sequence"] for event in late.events(turn)][:1] == [1]
            assert late.kinds(turn) == first.kinds(turn)
            late.judge()
    first.judge()


async def test_a_stop_by_another_link_is_told_as_an_end(house: House) -> None:
    """Whoever did not stop it is not told by the acknowledgement."""
    async with house.link() as asks, house.link() as stops:
        stops.watches("t1")
        turn = await asks.ask(scripted("long"), ident="t1")
        await stops.first("streaming-response", turn)
        assert (await stops.stop("conv", turn))["payload"]["canceled"] is True
        assert (await asks.over(turn)).outcome == "failed"
        assert asks.kinds(turn)[-1] == "error"
    asks.judge()
    stops.judge()


async def test_the_request_of_a_bundle_that_is_shown_is_not_the_providers_id(house: House) -> None:
    async with house.link() as asks, house.link() as sees:
        sees.watches("t1")
        turn = await asks.ask(scripted("two"), ident="t1")
        await sees.over(turn)
        payload = sees.of("tool-call", turn)[0]["payload"]
        assert payload["request_id"] != payload["metadata"]["tool_call_id"]


# Links that are lost


async def test_the_prompt_of_a_turn_is_told_at_its_beginning_only(house: House) -> None:
    text = house.script("lost", Answer((Say(("Hello ",)), note("x"))), say("went on"))
    async with house.link() as stays:
        async with house.link() as goes:
            goes.runs = False
            stays.watches("t1")
            turn = await goes.ask(text, ident="t1")
            await goes.first("tool-call", turn)
            await goes.cut()
        await stays.over(turn)
        kinds = stays.kinds(turn)
        assert (kinds.count("system-prompt"), kinds.count("tool-schemas")) == (1, 1)


async def test_a_link_that_is_lost_fails_its_calls_and_the_turn_goes_on_while_another_is_there(house: House) -> None:
    text = house.script("lost", Answer((Say(("Hello ",)), note("x"))), say("went on"))
    async with house.link() as stays:
        async with house.link() as goes:
            goes.runs = False
            stays.watches("t1")
            turn = await goes.ask(text, ident="t1")
            await goes.first("tool-call", turn)
            await goes.cut()
        told = await stays.over(turn)
        assert told.outcome == "completed"
        assert told.answer.endswith("went on")
        (result,) = results(house)
        assert "saved" not in result
    stays.judge()


async def test_with_the_last_link_its_turns_end(house: House) -> None:
    """Bug 27: who came back waited for a turn that nobody would tell of."""
    async with house.link() as link:
        turn = await link.ask(scripted("long"))
        await house.gate("long")
        await link.cut()
    await house.at_rest()
    async with house.link() as again:
        mine = await again.ask("hello")
        assert (await again.over(mine)).outcome == "completed"
        house.open("long")
        await again.over(await again.ask("hello"))
        assert again.events(turn) == []
    again.judge()
    entry = next(entry for entry in house.model.journal if "script:long" in entry.asked.newest_text)
    assert entry.left.is_set()


async def test_who_comes_back_at_once_is_told_all_of_a_turn_or_nothing(house: House) -> None:
    """The new link may be there before the old one is known to be gone: then it was never the last."""
    for number in range(6):
        turn = f"turn-{number}"
        async with house.link() as link:
            await link.ask(house.script("drip", Answer((Say(("one ", Pause(0.02), "two")),))), ident=turn)
            await link.first("query-accepted", turn)
            await link.cut()
        async with house.link(watches=[(turn, "conv")]) as again:
            await house.at_rest()
            await again.over(await again.ask("hello"))
            numbers = [event["sequence"] for event in again.events(turn)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert not numbers or again.kinds(turn)[-1] in ("streaming-complete", "error")
        again.judge(quiet=False)


async def test_a_tool_that_waits_for_the_last_link_is_let_go_with_it(house: House) -> None:
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("tool"))
        await link.first("tool-call", turn)
        await link.cut()
    await house.at_rest()
    async with house.link() as again:
        mine = await again.ask(scripted("tool"))
        told = await again.over(mine)
        assert (told.outcome, told.calls) == ("completed", ["save_note"])
        assert again.events(turn) == []
    again.judge()


async def test_one_of_two_links_goes_and_the_turn_of_the_other_stays(house: House) -> None:
    """Bug 27: no link of one socket ends what another waits for."""
    async with house.link() as stays:
        async with house.link() as goes:
            turn = await stays.ask(scripted("long"))
            await house.gate("long")
            await goes.cut()
        await stays.barrier()
        house.open("long")
        assert (await stays.over(turn)).text == "Long story"
    stays.judge()


async def test_turns_go_on_for_a_while_where_they_may(make_house: MakeHouse) -> None:
    house = await make_house(windie={"linger_seconds": 30.0})
    async with house.link() as link:
        turn = await link.ask(scripted("long"))
        await house.gate("long")
        await link.cut()
    async with house.link(watches=[(turn, "conv")]) as again:
        await again.first("streaming-response", turn)
        house.open("long")
        assert (await again.over(turn)).text == "Long story"
    again.judge()


async def test_a_cut_right_behind_a_query_leaves_nothing_running(house: House) -> None:
    """Wherever the cut finds it: no turn goes on for which nobody listens, and the conversation is free again."""
    for number in range(8):
        async with house.link() as link:
            await link.ask(scripted("long"), "conv", f"turn-{number}")
            if number % 2:
                await link.ask(scripted("long"), "conv", f"turn-{number}-b")
            await link.cut()
    async with house.link() as again:
        assert (await again.over(await again.ask("hello"))).outcome == "completed"
        again.judge()
    await house.at_rest()


async def test_the_time_of_a_tool_is_bounded(make_house: MakeHouse) -> None:
    """Bug 31: on expiry the model is told, and the turn goes on."""
    house = await make_house(native={"tools": {"client_seconds": 0.2}})
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("tool"))
        assert (await link.over(turn)).outcome == "completed"
        await link.release()
        await link.barrier()
        assert link.of("error") == []
    link.judge()
