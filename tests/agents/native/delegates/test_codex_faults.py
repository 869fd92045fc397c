"""A Codex that dies, hangs, or talks nonsense, and one that is broken off: a true end each time, and nothing left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.delegates.codex import codex_environment
from dragoman.agents.native.settings import DelegateSettings, NativeSettings, TurnLimits
from dragoman.hub.events import (
    DecisionResolved,
    LogWritten,
    MessageAdded,
    StepEnded,
    ToolEnded,
    TurnEnded,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import asked, of, settled
from tests.hub.rig import until

from .codex_rig import LIMITS, Script, codex_hub

KEY = "sk-test-0123456789abcdefghijklmnop"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "codex")


def gone(pid: int) -> bool:
    """Whether no process of that number is left; one that nobody has reaped yet counts as gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def quick(script: Script, **limits: Any) -> NativeSettings:
    delegates = msgspec.structs.replace(LIMITS, codex=str(script.program), **limits)
    return NativeSettings(delegates=delegates)


def problem(facts: list[Any]) -> Any:
    [ended] = of(facts, TurnEnded)
    assert ended.outcome == "failed"
    return ended.problem


# It fails


@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
async def test_one_that_dies_before_its_turn_says_its_last_words(tmp_path: Path, script: Script, method: str) -> None:
    script.does(at={method: "die"})
    async with codex_hub(tmp_path, script) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message == "Codex ended with exit code 3: last words"
    assert failed.code == "provider_failed"


@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
async def test_one_that_hangs_before_its_turn_is_given_up_and_ended(
    tmp_path: Path, script: Script, method: str
) -> None:
    script.does(at={method: "hang"})
    async with codex_hub(tmp_path, settings=quick(script, start_seconds=0.5)) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message == f"Codex did not answer {method} within 0.5 s"
    assert gone(script.notes[0]["pid"])


async def test_what_it_refuses_fails_in_its_words(tmp_path: Path, script: Script) -> None:
    script.does(at={"turn/start": "no such model"})
    async with codex_hub(tmp_path, script) as hub:
        assert problem(await hub.turn(await hub.session(), "go")).message == "Codex refused turn/start: no such model"


@pytest.mark.parametrize(("code", "how"), [(3, "ended with exit code 3"), (-9, "was ended by signal 9")])
async def test_one_that_dies_in_its_turn_leaves_what_it_said(
    tmp_path: Path, script: Script, code: int, how: str
) -> None:
    script.does([{"begin": "I was about to"}, {"die": code}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "go")
    assert problem(facts).message == f"Codex {how}: last words"
    [partial] = of(facts, MessageAdded)
    assert (partial.text, partial.kind) == ("I was about to", "partial")
    assert of(facts, StepEnded)[0].finish_reason == "error"


async def test_a_call_that_its_death_cut_off_has_its_one_result(tmp_path: Path, script: Script) -> None:
    begun = {"type": "commandExecution", "id": "c", "command": "sleep 9"}
    script.does([{"tell": {"method": "item/started", "params": {"item": begun}}}, {"die": 1}])
    async with codex_hub(tmp_path, script) as hub:
        [ended] = of(await hub.turn(await hub.session(), "go"), ToolEnded)
    assert ended.status == "interrupted"


async def test_one_that_says_nothing_more_is_given_up(tmp_path: Path, script: Script) -> None:
    script.does([{"begin": "Hm"}, {"deaf": None}])
    async with codex_hub(tmp_path, settings=quick(script, silence_seconds=0.3)) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message == "Codex said nothing for 0.3 s (native.delegates.silence_seconds)"
    assert gone(script.notes[0]["pid"])


async def test_waiting_for_a_person_is_no_silence(tmp_path: Path, script: Script) -> None:
    script.does([{"run": {"command": "x", "ask": {}}}, {"say": "Done."}])
    async with codex_hub(tmp_path, settings=quick(script, silence_seconds=0.2)) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        opened = await asked(session)
        began = session.clock.monotonic()
        await until(lambda: session.clock.monotonic() > began + 0.5)
        await hub.answer(session, opened, option=1)
        await settled(session)
        assert of(await hub.facts(session), TurnEnded)[0].outcome == "completed"


async def test_what_is_no_message_is_passed_over(tmp_path: Path, script: Script) -> None:
    nonsense = ["what?", "[1,2]", '{"id":7}', '{"method":5}', "{" * 5000, '{"id":"x","result":{}}', "\x00"]
    oddities: list[dict[str, Any]] = [
        {"send": {"method": "item/started", "params": {"threadId": "thread-1", "item": item}}}
        for item in ({}, {"type": 5, "id": "a"}, {"type": "agentMessage"}, {"type": "new", "id": "b"}, "text", None)
    ]
    usage = {"tell": {"method": "thread/tokenUsage/updated", "params": {"tokenUsage": {"total": "many", "last": 7}}}}
    script.does([*({"garbage": line} for line in nonsense), *oddities, usage, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "go")
    assert of(facts, TurnEnded)[0].result == "Done."


async def test_a_line_over_the_limit_is_left_out_and_said(tmp_path: Path, script: Script) -> None:
    script.does([{"huge": 300 * 1024}, {"say": "Done."}])
    async with codex_hub(tmp_path, script) as hub:
        facts = await hub.turn(await hub.session(), "go")
    assert of(facts, TurnEnded)[0].result == "Done."
    assert [line.line for line in of(facts, LogWritten)] == [
        "messages of Codex that were too long, and are left out: 1"
    ]


async def test_an_answer_without_end_is_cut_off(tmp_path: Path, script: Script) -> None:
    script.does([{"begin": "x" * 5000}, {"hang": None}])
    settings = msgspec.structs.replace(quick(script), turn=TurnLimits(answer_chars=1000))
    async with codex_hub(tmp_path, settings=settings) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message == "Codex' answer is over its limit of 1000 characters"


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ("usageLimitExceeded", "provider_rate_limited"),
        ("contextWindowExceeded", "provider_too_long"),
        ("unauthorized", "provider_unauthorized"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "provider_unauthorized"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "provider_network"),
        (None, "provider_failed"),
    ],
)
async def test_a_turn_that_fails_says_why(tmp_path: Path, script: Script, info: Any, code: str) -> None:
    script.does([{"fail": {"message": "It went wrong.", "codexErrorInfo": info}}])
    async with codex_hub(tmp_path, script) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert (failed.message, failed.code, failed.source) == ("It went wrong.", code, "provider")


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = NativeSettings(delegates=DelegateSettings(codex="codex-that-is-not-there"))
    async with codex_hub(tmp_path, settings=settings) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message.startswith("Codex cannot be started: no program 'codex-that-is-not-there'")


async def test_a_turn_that_codex_breaks_off_by_itself_has_failed(tmp_path: Path, script: Script) -> None:
    ended = {"id": "turn-1", "status": "interrupted", "error": None}
    script.does([{"begin": "I"}, {"tell": {"method": "turn/completed", "params": {"turn": ended}}}, {"hang": None}])
    async with codex_hub(tmp_path, script) as hub:
        failed = problem(await hub.turn(await hub.session(), "go"))
    assert failed.message == "Codex broke its turn off, and does not say why"


# Keys


async def test_a_key_is_told_on_its_input_and_stays_in_its_memory(tmp_path: Path, script: Script) -> None:
    script.does([{"fail": {"message": f"Incorrect API key provided: {KEY}"}}])
    async with codex_hub(tmp_path, script, key=KEY) as hub:
        facts = await hub.turn(await hub.session(), "go")
    assert script.heard("account/login/start") == [{"type": "apiKey", "apiKey": KEY}]
    assert script.notes[0]["argv"][-2:] == ["-c", 'cli_auth_credentials_store="ephemeral"']
    assert KEY not in repr(facts)
    assert problem(facts).message == "Incorrect API key provided: [key]"


def test_it_gets_none_of_our_keys() -> None:
    ours = {
        "PATH": "/bin",
        "OPENAI_API_KEY": KEY,
        "CODEX_API_KEY": KEY,
        "CODEX_HOME": "/c",
        "AZURE_API_KEY": "other-key-1",
    }
    env = codex_environment(NativeSettings(), ours)
    assert env["CODEX_HOME"] == "/c"
    assert not {"OPENAI_API_KEY", "CODEX_API_KEY", "AZURE_API_KEY"} & set(env)
    settings = NativeSettings(delegates=DelegateSettings(pass_environment=("AZURE_API_KEY",)))
    assert codex_environment(settings, ours)["AZURE_API_KEY"] == "other-key-1"


# It is broken off


Ready = Callable[[Script], Any]


def _started(script: Script) -> Any:
    return script.notes


def _begun(script: Script) -> Any:
    return script.heard("turn/start")


def _hangs(script: Script) -> Any:
    return any("hangs" in note for note in script.notes)


@pytest.mark.parametrize(
    ("does", "ready"),
    [
        ({"at": {"initialize": "hang"}}, _hangs),
        ({"at": {"thread/start": "hang"}}, _hangs),
        ({"at": {"turn/start": "hang"}}, _hangs),
        ({"turns": [[{"begin": "I"}, {"hang": None}]]}, _hangs),
        ({"turns": [[{"run": {"command": "x", "ask": {}}}]]}, _begun),
        ({"turns": [[{"begin": "I"}, {"deaf": None}]]}, _hangs),
        ({}, _started),
    ],
    ids=["initialize", "thread", "turn", "stream", "decision", "deaf", "start"],
)
async def test_a_cancel_ends_turn_and_program_in_each_phase(
    tmp_path: Path, script: Script, does: dict[str, Any], ready: Ready
) -> None:
    script.does(*does.get("turns", [[{"hang": None}]]), at=does.get("at", {}))
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await until(lambda: ready(script))
        await session.cancel(LOCAL, via="test")
        await settled(session)
        assert gone(script.notes[0]["pid"])  # idle is said only when it is true
        facts = await hub.facts(session)
    assert of(facts, TurnEnded)[0].outcome == "cancelled"
    assert all(resolved.outcome == "cancelled" for resolved in of(facts, DecisionResolved))


async def test_one_that_hears_is_asked_to_break_off(tmp_path: Path, script: Script) -> None:
    script.does([{"begin": "I was"}, {"hang": None}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await until(lambda: _hangs(script))
        await session.cancel(LOCAL, via="test")
        await settled(session)
        facts = await hub.facts(session)
    assert script.heard("turn/interrupt") == [{"threadId": "thread-1", "turnId": "turn-1"}]
    [partial] = of(facts, MessageAdded)
    assert (partial.text, partial.kind) == ("I was", "partial")
    assert of(facts, UsageReported) == []


@pytest.mark.parametrize("end", [{"hang": None}, {"say": "Done."}, {"die": 1}])
async def test_a_process_that_left_its_session_is_ended_too(tmp_path: Path, script: Script, end: Any) -> None:
    script.does([{"wander": None}, end])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        child = await until(lambda: next((note["child"] for note in script.notes if "child" in note), None))
        if "hang" in end:
            await session.cancel(LOCAL, via="test")
        await settled(session)
        assert gone(child)


async def test_it_carries_the_sessions_marker(tmp_path: Path, script: Script) -> None:
    script.does([{"hang": None}])
    async with codex_hub(tmp_path, script) as hub:
        session = await hub.session()
        await hub.submit(session, "go")
        await until(lambda: _hangs(script))
        environ = Path(f"/proc/{script.notes[0]['pid']}/environ").read_bytes()
        assert f"DRAGOMAN_SESSION={session.id}/".encode() in environ
        await session.cancel(LOCAL, via="test")
        await settled(session)
