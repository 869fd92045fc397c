"""``transition`` and ``GET agent`` with what the agent asks (seed: PromptContext)."""

from __future__ import annotations

import pytest

from dragoman.dialects.coop.prompts import brief
from dragoman.hub.events import AgentStarted, MessageAdded, Option

from .driven import QUESTIONS, Play

NOTHING = {"error_detail": None, "error_category": None, "last_message": None}
PERMISSION = {
    "type": "permission",
    "subtype": "tool",
    "tool": "Bash",
    "input": '{"command":"rm -rf /tmp/test"}',
    "auth_url": None,
    "options": ["Yes", "Yes, always", "No"],
    "options_fallback": False,
    "questions": [],
    "question_current": 0,
    "ready": True,
}


async def test_a_transition_to_prompt_says_what_is_asked(play: Play) -> None:
    async with play.link() as link:
        play.moves("working", "hook:working")
        play.asks(subtype="tool", tool="Bash", input={"command": "rm -rf /tmp/test"})
        play.moves("working", "hook:working")
        seen = [await link.receive() for _ in range(3)]
    assert seen[1] == {
        "event": "transition",
        "prev": "working",
        "next": "prompt",
        "seq": 2,
        "prompt": PERMISSION,
        "cause": "hook:prompt(permission)",
        **NOTHING,
    }
    assert [frame["prompt"] for frame in (seen[0], seen[2])] == [None, None]


async def test_state_get_and_http_say_the_same(play: Play) -> None:
    play.asks(subtype="tool", tool="Bash", input={"command": "rm -rf /tmp/test"})
    await play.durable()
    async with play.link() as link:
        reply = await link.ask({"event": "state:get"}, "transition")
    assert (reply["prev"], reply["next"], reply["seq"], reply["prompt"]) == ("prompt", "prompt", 1, PERMISSION)
    agent = (await play.http("GET", "agent")).json
    assert (agent["agent"], agent["state"], agent["prompt"]) == ("claude", "prompt", PERMISSION)
    assert (agent["detection_tier"], agent["detection_cause"]) == ("1", "hook:prompt(permission)")


async def test_a_revision_repeats_the_state_with_its_seq(play: Play) -> None:
    async with play.link() as link:
        decision = play.asks(options=(), ready=False)
        play.revises("d-of-nobody", ready=True)
        play.revises(decision, options=(Option("Accept"), Option("Cancel")), options_fallback=True, ready=True)
        play.revises(decision, tool="Write", cause="hook:prompt(permission)")
        first, enriched, named = [await link.receive() for _ in range(3)]
        assert not await link.until_pong()
    assert (first["prompt"]["options"], first["prompt"]["ready"]) == ([], False)
    assert [(f["prev"], f["next"], f["seq"], f["cause"]) for f in (enriched, named)] == [
        ("prompt", "prompt", first["seq"], "enriched"),
        ("prompt", "prompt", first["seq"], "hook:prompt(permission)"),
    ]
    prompt = enriched["prompt"]
    assert (prompt["options"], prompt["options_fallback"], prompt["ready"]) == (["Accept", "Cancel"], True, True)
    assert named["prompt"]["tool"] == "Write"


async def test_a_revision_before_the_state_names_its_dialog_is_in_the_prompt(play: Play) -> None:
    async with play.link() as link:
        first = play.asks()
        play.asks("plan")
        play.revises(first, text="old news")
        play.moves("idle")
        seen = [await link.receive() for _ in range(3)]
    assert [(frame["next"], (frame["prompt"] or {}).get("type")) for frame in seen] == [
        ("prompt", "permission"),
        ("prompt", "plan"),
        ("idle", None),
    ]


async def test_a_dialog_of_questions(play: Play) -> None:
    async with play.link() as link:
        decision = play.asks("question", questions=QUESTIONS, tool="AskUserQuestion")
        play.revises(decision, question_current=1, cause="")
        first, second = await link.receive(), await link.receive()
    assert first["prompt"]["questions"] == [
        {"question": "Which database?", "options": ["PostgreSQL", "SQLite"]},
        {"question": "Which port?", "options": []},
    ]
    assert [frame["prompt"]["question_current"] for frame in (first, second)] == [0, 1]
    assert (second["cause"], second["seq"]) == ("", first["seq"])


@pytest.mark.parametrize("kind", ["question", "form"])
async def test_what_is_asked_without_a_list_of_questions_is_one(play: Play, kind: str) -> None:
    async with play.link() as link:
        play.asks(kind, options=("a", "b"))
        prompt = (await link.receive())["prompt"]
    assert prompt["type"] == "question"
    assert prompt["questions"] == [{"question": "may I?", "options": ["a", "b"]}]


async def test_the_last_message_ends_with_its_run(play: Play) -> None:
    async with play.link() as link:
        play.record(MessageAdded(message="m", role="assistant", text="Done."))
        play.moves("idle")
        play.record(AgentStarted(pid=1, run=2))
        play.moves("working")
        seen = [await link.receive() for _ in range(2)]
    assert [frame["last_message"] for frame in seen] == ["Done.", None]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("x" * 198, '"' + "x" * 198 + '"'),
        ("x" * 199, '"' + "x" * 199 + "..."),
        ("ä" * 120, '"' + "ä" * 99 + "..."),
    ],
)
def test_input_is_compact_and_cut_at_200_bytes_between_characters(value: object, shown: str) -> None:
    assert brief(value) == shown  # type: ignore[arg-type]
