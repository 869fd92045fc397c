"""What Codex asks before it acts: by the session's mode, by what was granted, or by a person; and its questions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.rejections import EXPLAIN, HARD
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved, SettingsChanged, ToolCalled, ToolEnded
from tests.agents.native.native_rig import answered, asked, of, outcome, settled
from tests.hub.rig import until

from .codex_rig import CodexHub, Script, codex_hub

ASK_COMMAND = [{"run": {"command": "touch made.txt", "ask": {"reason": "It writes."}}}, {"say": "Done."}]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "codex")


def decisions(script: Script) -> list[Any]:
    return [answer.get("decision") for answer in script.answers]


async def one(hub: CodexHub, option: int, **settings: Any) -> tuple[DecisionOpened, list[Any]]:
    """A turn with one decision, answered."""
    session = await hub.session(**settings)
    await hub.submit(session, "go")
    opened = await answered(session, option)
    return opened, await hub.facts(session)


async def test_a_command_is_asked_about_as_it_will_run(tmp_path: Path, script: Script) -> None:
    script.does(ASK_COMMAND)
    async with codex_hub(tmp_path, script) as hub:
        opened, facts = await one(hub, 1)
    assert (opened.kind, opened.text, opened.tool) == ("permission", "touch made.txt", "exec_command")
    assert opened.call == of(facts, ToolCalled)[0].call
    assert opened.detail["why"] == "It writes."
    assert decisions(script) == ["accept"]
    assert outcome(facts) == "completed"


async def test_a_refused_command_did_not_run_and_the_turn_goes_on(tmp_path: Path, script: Script) -> None:
    script.does(ASK_COMMAND)
    async with codex_hub(tmp_path, script) as hub:
        _, facts = await one(hub, 4)
    assert decisions(script) == ["decline"]
    [ended] = of(facts, ToolEnded)
    assert (ended.status, ended.problem.code) == ("denied", "denied")
    assert outcome(facts) == "completed"


async def test_what_a_person_says_with_a_refusal_reaches_codex(tmp_path: Path, script: Script) -> None:
    script.does([ASK_COMMAND[0], {"wait": "turn/steer"}, {"say": "As you wish."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), accept=False, text="use the other folder")
        await settled(session)
    [steered] = script.heard("turn/steer")
    assert steered["input"][0]["text"] == "This was not permitted. They said: use the other folder"


async def test_after_a_hard_refusal_nobody_is_asked_any_more(tmp_path: Path, script: Script) -> None:
    """Whoever runs the turn breaks Codex off; what it asks until then is declined."""
    script.does([ASK_COMMAND[0], {"run": {"command": "touch other.txt", "ask": {}}}, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), accept=False, values={"mode": HARD})
        await settled(session)
        facts = await hub.facts(session)
    assert decisions(script) == ["decline", "decline"]
    assert len(of(facts, DecisionOpened)) == 1


async def test_what_a_refusal_means_reaches_codex(tmp_path: Path, script: Script) -> None:
    script.does([ASK_COMMAND[0], {"wait": "turn/steer"}, {"say": "As you wish."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), accept=False, values={"mode": EXPLAIN})
        await settled(session)
    [steered] = script.heard("turn/steer")
    assert "plain words" in steered["input"][0]["text"]


async def test_what_was_permitted_for_the_session_is_not_asked_again(tmp_path: Path, script: Script) -> None:
    script.does([ASK_COMMAND[0], ASK_COMMAND[0], {"run": {"command": "touch other.txt", "ask": {}}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), option=2)
        opened = await until(lambda: next((d for d in session.shown.decisions.values() if "other" in d.text), None))
        assert session.state.grants == ["bash(touch made.txt)"]
        await hub.answer(session, opened, option=4)
        await settled(session)
    assert decisions(script) == ["accept", "accept", "decline"]


async def test_a_grant_for_every_command_leaves_out_dangerous_ones(tmp_path: Path, script: Script) -> None:
    script.does([ASK_COMMAND[0], {"run": {"command": "rm -rf /", "ask": {}}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), option=3)
        opened = await until(lambda: next((d for d in session.shown.decisions.values() if d.dangerous), None))
        await hub.answer(session, opened, accept=False)
        await settled(session)
    assert decisions(script) == ["accept", "decline"]


async def test_a_grant_counts_in_the_folder_that_it_was_given_for(tmp_path: Path, script: Script) -> None:
    elsewhere = {"run": {"command": "touch made.txt", "ask": {"cwd": "/"}}}
    script.does([ASK_COMMAND[0], elsewhere])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), option=2)
        opened = await until(lambda: next((d for d in session.shown.decisions.values() if d.input["cwd"] == "/"), None))
        await hub.answer(session, opened, accept=False)
        await settled(session)


@pytest.mark.parametrize(("mode", "decision"), [("plan", "decline"), ("all", "accept")])
async def test_a_mode_that_decides_asks_nobody(tmp_path: Path, script: Script, mode: str, decision: str) -> None:
    rights = {"method": "item/permissions/requestApproval", "params": {"permissions": {"network": {"enabled": True}}}}
    script.does([*ASK_COMMAND[:1], {"patch": {"paths": [str(tmp_path / "a")]}}, {"ask": rights}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(mode=mode), "go")
    assert of(facts, DecisionOpened) == []
    assert decisions(script)[:2] == [decision, decision]
    granted = {"network": {"enabled": True}} if mode == "all" else {}
    assert script.answers[2] == {"permissions": granted, "scope": "turn"}


@pytest.mark.parametrize(
    ("mode", "sandbox", "policy", "its_mode"),
    [
        ("ask", "readOnly", "on-request", "default"),
        ("accept_edits", "readOnly", "on-request", "default"),
        ("plan", "readOnly", "on-request", "plan"),
        ("all", "dangerFullAccess", "never", "default"),
    ],
)
async def test_each_mode_has_its_sandbox(
    tmp_path: Path, script: Script, mode: str, sandbox: str, policy: str, its_mode: str
) -> None:
    async with codex_hub(tmp_path, script) as hub:
        await hub.turn(await hub.session(mode=mode), "go")
    [turn] = script.heard("turn/start")
    assert turn["sandboxPolicy"] == {"type": sandbox}
    assert turn["approvalPolicy"] == policy
    assert turn["collaborationMode"]["mode"] == its_mode


async def test_a_mode_that_changes_counts_at_once(tmp_path: Path, script: Script) -> None:
    script.does([{"begin": "I"}, {"wait": "turn/steer"}, *ASK_COMMAND])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session(mode="all")
        await hub.submit(session, "go")
        await until(lambda: script.heard("turn/start"))
        session.record(SettingsChanged(changes={"mode": "plan"}))
        await hub.submit(session, "go on", when_busy="steer")
        await settled(session)
    assert decisions(script) == ["decline"]


async def test_what_nobody_answers_is_declined(tmp_path: Path, script: Script) -> None:
    script.does(ASK_COMMAND)
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        session.cancel_decision((await asked(session)).decision, "nobody is there")
        await settled(session)
        assert outcome(await hub.facts(session)) == "completed"
    assert decisions(script) == ["decline"]


async def test_edits_of_one_patch_are_one_question(tmp_path: Path, script: Script) -> None:
    script.does([{"patch": {"paths": [str(tmp_path / "a"), str(tmp_path / "b")]}}])
    async with codex_hub(tmp_path, script) as hub:
        opened, facts = await one(hub, 2)
    assert (opened.tool, opened.text) == ("apply_patch", f"apply_patch {tmp_path / 'a'}, {tmp_path / 'b'}")
    assert opened.input["changes"][0] == {"path": str(tmp_path / "a"), "kind": "add", "diff": "hello\n"}
    assert opened.detail["grant"] == "edit"
    assert of(facts, ToolEnded)[0].status == "ok"


async def test_accept_edits_accepts_those_in_the_folder(tmp_path: Path, script: Script) -> None:
    script.does([{"patch": {"paths": [str(tmp_path / "a")]}}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(mode="accept_edits"), "go")
    assert of(facts, DecisionOpened) == []
    assert decisions(script) == ["accept"]


@pytest.mark.parametrize("path", ["/etc/x", "{}/../x", "{}/.git/config"])
async def test_accept_edits_asks_about_the_others(tmp_path: Path, script: Script, path: str) -> None:
    script.does([{"patch": {"paths": [path.format(tmp_path)]}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session(mode="accept_edits")
        await hub.submit(session, "go")
        opened = await asked(session)
        await hub.answer(session, opened, accept=False)
        await settled(session)
    assert decisions(script) == ["decline"]


async def test_a_grant_for_edits_does_not_reach_outside(tmp_path: Path, script: Script) -> None:
    script.does([{"patch": {"paths": [str(tmp_path / "a")]}}, {"patch": {"paths": ["/etc/x"]}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await hub.answer(session, await asked(session), option=2)
        opened = await until(lambda: next((d for d in session.shown.decisions.values() if "/etc/x" in d.text), None))
        assert [option.value for option in opened.options] == ["once", "deny"]
        await hub.answer(session, opened, option=2)
        await settled(session)
    assert decisions(script) == ["accept", "decline"]


async def test_more_rights_are_given_as_asked_or_not_at_all(tmp_path: Path, script: Script) -> None:
    wanted = {"network": {"enabled": True}}
    request = {"method": "item/permissions/requestApproval", "params": {"permissions": wanted, "reason": "fetch"}}
    script.does([{"ask": request}, {"ask": request}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        first = await asked(session)
        assert first.text == "Codex asks for more rights for its commands: fetch"
        await hub.answer(session, first, option=1)
        second = await until(lambda: next((d for d in session.shown.decisions.values() if d is not first), None))
        await until(lambda: first.decision not in session.shown.decisions)
        second = await asked(session)
        await hub.answer(session, second, option=2)
        await settled(session)
    assert [answer["permissions"] for answer in script.answers] == [wanted, {}]


async def test_its_questions_are_answered_by_label_or_in_words(tmp_path: Path, script: Script) -> None:
    def question(id_: str) -> dict[str, Any]:
        options = [{"label": "A", "description": "first"}, {"label": "B", "description": "second"}]
        return {"id": id_, "header": id_.title(), "question": f"{id_}?", "options": options}

    both = {"questions": [question("database"), question("cache")]}
    one_ = {"questions": [question("mode")]}
    method = "item/tool/requestUserInput"
    script.does([{"ask": {"method": method, "params": both}}, {"ask": {"method": method, "params": one_}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "ask me")
        opened = await asked(session)
        assert (opened.kind, [entry.question for entry in opened.questions]) == ("question", ["database?", "cache?"])
        await hub.answer(session, opened, answers=(Answer(option=2), Answer(text="none at all")))
        single = await until(lambda: next((d for d in session.shown.decisions.values() if d.text == "mode?"), None))
        assert [option.label for option in single.options] == ["A", "B"]
        await hub.answer(session, single, option=1)
        await settled(session)
    first, second = script.answers
    assert first == {"answers": {"database": {"answers": ["B"]}, "cache": {"answers": ["none at all"]}}}
    assert second == {"answers": {"mode": {"answers": ["A"]}}}


async def test_a_secret_answer_reaches_codex_and_not_the_log(tmp_path: Path, script: Script) -> None:
    params = {"questions": [{"id": "token", "header": "Token", "question": "Which token?", "isSecret": True}]}
    script.does([{"ask": {"method": "item/tool/requestUserInput", "params": params}}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "ask me")
        await hub.answer(session, await asked(session), text="hunter2")
        await settled(session)
        facts = await hub.facts(session)
    assert script.answers == [{"answers": {"token": {"answers": ["hunter2"]}}}]
    assert "hunter2" not in repr(facts)


async def test_forms_are_declined_and_unknown_requests_refused(tmp_path: Path, script: Script) -> None:
    form = {"method": "mcpServer/elicitation/request", "params": {"serverName": "x", "message": "fill in"}}
    script.does([{"ask": form}, {"ask": {"method": "attestation/generate"}}, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "go")
    assert script.answers == [
        {"action": "decline"},
        {"code": -32601, "message": "attestation/generate is not supported"},
    ]
    assert outcome(facts) == "completed"


@pytest.mark.parametrize(("option", "action"), [(1, "accept"), (2, "decline")])
async def test_leave_to_call_a_tool_of_a_server_is_asked_for(
    tmp_path: Path, script: Script, option: int, action: str
) -> None:
    params = {"serverName": "docs", "message": "Allow find?", "_meta": {"codex_approval_kind": "mcp_tool_call"}}
    script.does([{"ask": {"method": "mcpServer/elicitation/request", "params": params}}])
    async with codex_hub(tmp_path, script) as hub:
        opened, _ = await one(hub, option)
    assert opened.text == "Codex asks for a tool of docs: Allow find?"
    assert script.answers == [{"action": action}]


async def test_a_request_that_is_withdrawn_is_closed(tmp_path: Path, script: Script) -> None:
    flag = tmp_path / "asked"
    params = {"command": "touch x", "itemId": "c"}
    withdraw = {"method": "item/commandExecution/requestApproval", "params": params, "once": str(flag)}
    script.does([{"withdraw": withdraw}, {"say": "Never mind."}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await asked(session)
        await asyncio.to_thread(flag.touch)
        await settled(session)
        [resolved] = of(await hub.facts(session), DecisionResolved)
    assert (resolved.outcome, resolved.reason) == ("cancelled", "withdrawn by the agent")
