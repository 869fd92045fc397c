# ruff: noqa: RUF001 - the signs are those that the agents draw
"""Dialogs that come at a bad moment, or are not what was told: nobody approves what they were not shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agents.driven import Driven, at_row, page, shot, storyboard
from tests.hub.rig import until

from dragoman.agents.common.observation import Dialog, Sighting
from dragoman.agents.terminal.drivers.dialogs import GHOST
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import Answer, Attachment, DecisionOpened, StateChanged
from dragoman.hub.permissions import LOCAL

DOWN, LEFT = "\x1b[B", "\x1b[D"
IDLE, DRAFT, DONE = "idle", "draft-one-line", "idle-after-turn"
BLOCKED = Sighting(source="status", state="prompt", cause="status:prompt(permission)", dialog=Dialog(kind="permission"))
PASTED = "\x1b[201~"


def asks_for(command: str) -> Callable[[list[str]], list[str]]:
    """The permission's screen with another command."""
    return lambda lines: [line.replace("touch made.txt", command) for line in lines]


def asked_hook(command: str) -> dict[str, Any]:
    return {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": command}}


async def answer(agent: Driven, said: Answer) -> str | None:
    """Answer the dialog that is open: None once the answer has reached it, else why it did not."""
    decision = (await agent.asked()).decision
    await agent.session.answer(LOCAL, decision, said, via="test")
    outcome: str | None = await agent.session.driver.carried_out(decision)
    return outcome


async def tells(agent: Driven, event: str, data: dict[str, Any]) -> None:
    assert agent.session.hooks is not None
    await agent.session.hooks.ingest(event, data)


async def shown_command(agent: Driven, command: str) -> DecisionOpened:
    """The open decision, once it is about this command."""
    decisions = agent.session.state.decisions
    await until(lambda: [one for one in decisions.values() if command in repr(one.input)], decisions)
    return await agent.asked()


# Prompts


@pytest.mark.parametrize("size", [11, 3000])
async def test_a_dialog_that_comes_between_a_paste_and_its_enter_gets_no_enter(tmp_path: Path, size: int) -> None:
    steps = [shot(IDLE, until=PASTED), shot(DRAFT, after=0.1), shot("permission-bash", until="\r"), shot(IDLE)]
    async with storyboard(tmp_path, *steps, input_delay=0.5) as agent:
        await agent.becomes("idle")
        receipt = await agent.session.submit(LOCAL, "x" * size, via="test")
        assert "asks" in (await agent.session.driver.taken(receipt.prompt) or "")
        assert agent.typed(2) == ""
        await until(lambda: agent.session.shown.prompt)  # also once the turn of the prompt has failed
        await until(lambda: agent.session.shown.turn is None and agent.session.shown.prompt)


@pytest.mark.parametrize("drawn", [shot("permission-bash"), page(" What is this?", " ❯ 1. Yes", "   2. No")])
async def test_a_prompt_goes_into_an_input_box_or_nowhere(tmp_path: Path, drawn: dict[str, Any]) -> None:
    async with storyboard(tmp_path, shot(IDLE, until="Z"), drawn) as agent:
        await agent.becomes("idle")
        agent.agent.terminal.deliver(b"Z")
        await until(lambda: agent.typed(0) == "Z")
        await until(lambda: "1. Yes" in agent.picture)
        receipt = await agent.session.submit(LOCAL, "hello there", via="test", when_busy="queue")
        assert await asyncio.wait_for(_refused(agent, receipt.prompt), 10.0)
        assert agent.typed(1) == ""


async def _refused(agent: Driven, prompt: str) -> bool:
    """Whether it was said not to have arrived, or waits for the agent to be at rest."""
    taken = asyncio.ensure_future(agent.session.driver.taken(prompt))
    await asyncio.wait({taken}, timeout=3.0)
    return not taken.done() or taken.result() is not None


async def test_what_a_person_types_does_not_go_out_with_a_prompt(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot(IDLE, until=PASTED), shot(DRAFT), input_delay=2.5) as agent:
        await agent.becomes("idle")
        receipt = await agent.session.submit(LOCAL, "hello there", via="test")
        await until(lambda: PASTED in agent.typed())
        agent.agent.terminal.write(b" half a tho")
        assert "types" in (await agent.session.driver.taken(receipt.prompt) or "")
        assert "\r" not in agent.typed()


async def test_a_program_is_told_of_files_and_refused_pictures(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot(IDLE, until=PASTED), shot(DRAFT)) as agent:
        await agent.becomes("idle")
        picture = Attachment("image", "a.png", "0" * 64, "image/png", 1)
        file = Attachment("file", "1_a.txt", "upload:.co/uploads/1_a.txt")
        with pytest.raises(Unsupported, match="told of files only"):
            await agent.session.submit(LOCAL, "look", via="test", attachments=(file, picture))
        assert not await agent.session.shows_pictures()
        content = "look at .co/uploads/1_a.txt"
        await agent.session.submit(LOCAL, "look", via="test", content=content, attachments=(file,))
        await until(lambda: f"{content}{PASTED}" in agent.typed(), agent.typed)


# What was told, and what is shown


@pytest.mark.parametrize("told", ["before", "after", "of both, in another order"])
async def test_the_decision_is_about_what_the_screen_asks(tmp_path: Path, told: str) -> None:
    steps = [shot(IDLE, until="Z"), shot("permission-bash", asks_for("rm -rf precious"), until="\r"), shot(DONE)]
    async with storyboard(tmp_path, *steps) as agent:
        await agent.becomes("idle")
        if told == "after":
            agent.agent.terminal.deliver(b"Z")
            await agent.asked()
            await tells(agent, "PermissionRequest", asked_hook("touch harmless.txt"))
        else:
            if told != "before":
                await tells(agent, "PermissionRequest", asked_hook("touch harmless.txt"))
                agent.agent.driver._watch.see(BLOCKED)  # type: ignore[union-attr]
            await tells(agent, "PermissionRequest", asked_hook("touch harmless.txt"))
            agent.agent.terminal.deliver(b"Z")
        opened = await shown_command(agent, "rm -rf precious")
        assert "harmless" not in repr(opened)


async def test_a_question_that_was_told_of_is_not_the_permission_that_is_shown(tmp_path: Path) -> None:
    question = {"question": "Shall I write a poem?", "header": "H", "options": [{"label": "Yes"}, {"label": "No"}]}
    told = {
        "session_id": "s",
        "tool_name": "AskUserQuestion",
        "tool_use_id": "q",
        "tool_input": {"questions": [question]},
    }
    async with storyboard(tmp_path, shot(IDLE, until="Z"), shot("permission-bash")) as agent:
        await agent.becomes("idle")
        await tells(agent, "PreToolUse", told)
        agent.agent.driver._watch.see(BLOCKED)  # type: ignore[union-attr]
        agent.agent.terminal.deliver(b"Z")
        opened = await shown_command(agent, "touch made.txt")
        assert (opened.kind, opened.questions) == ("permission", ())


async def test_another_command_in_the_same_words_is_another_dialog_also_after_a_resize(tmp_path: Path) -> None:
    steps = [shot("permission-bash", until="\r"), shot("permission-bash", asks_for("rm -rf precious"))]
    async with storyboard(tmp_path, *steps) as agent:
        first = (await agent.asked()).decision
        agent.agent.terminal.resize(119, 40)
        agent.agent.terminal.resize(120, 40)
        agent.agent.terminal.deliver(b"\r")
        assert (await shown_command(agent, "rm -rf precious")).decision != first


# Keys


@pytest.mark.parametrize("said", [Answer(accept=True), Answer(option=1)])
async def test_a_key_of_a_person_that_is_not_read_yet_is_waited_for(tmp_path: Path, said: Answer) -> None:
    steps = [
        shot("permission-bash", until=DOWN),
        at_row("permission-bash", 1, until="\x1b[A"),
        shot("permission-bash", until="\r"),
        shot(IDLE),
    ]
    async with storyboard(tmp_path, *steps) as agent:
        await agent.asked()
        await asyncio.sleep(0.5)  # it has settled
        agent.agent.terminal.signal("SIGSTOP")
        agent.agent.terminal.deliver(DOWN.encode())
        await until(agent.agent.terminal.unread)
        answering = asyncio.ensure_future(answer(agent, said))
        await asyncio.wait({answering}, timeout=0.7)
        agent.agent.terminal.signal("SIGCONT")
        assert await answering is None
        assert agent.typed() == f"{DOWN}\x1b[A\r"


async def test_no_arrow_is_sent_again_to_a_slow_program(tmp_path: Path) -> None:
    steps = [
        shot("permission-bash", until=DOWN, deaf=1.6),
        at_row("permission-bash", 1, until=DOWN, deaf=0.4),
        at_row("permission-bash", 2, until=DOWN, deaf=0.4),
        at_row("permission-bash", 3, until="\r"),
        shot(IDLE),
    ]
    async with storyboard(tmp_path, *steps) as agent:
        assert await answer(agent, Answer(accept=False)) is None
        assert agent.typed() == f"{DOWN * 3}\r"


async def test_a_page_that_a_person_goes_back_to_is_the_one_that_is_asked(tmp_path: Path) -> None:
    steps = [
        shot("question-page-1", until="\r"),
        shot("question-page-2", until=LEFT),
        shot("question-page-1", until="\r"),
        shot("question-page-2", until="\r"),
        shot("question-review", until="\r"),
        shot(IDLE),
    ]
    async with storyboard(tmp_path, *steps) as agent:
        opened = (await agent.asked()).decision
        decisions = agent.session.state.decisions
        agent.agent.terminal.write(b"\r")
        await until(lambda: decisions[opened].question_current == 1)
        agent.agent.terminal.write(LEFT.encode())
        await until(lambda: decisions[opened].question_current == 0)
        assert await answer(agent, Answer(answers=(Answer(option=1), Answer(option=1)))) is None
        assert agent.typed() == f"\r{LEFT}\r\r\r"


# Late news, and dialogs that look like one before


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("Stop", {"session_id": "s"}),
        ("Notification", {"session_id": "s", "notification_type": "idle_prompt", "message": "waiting"}),
        ("PostToolUse", {**asked_hook("ls"), "tool_use_id": "other", "tool_response": {}}),
    ],
)
async def test_late_news_ends_no_dialog_that_the_screen_shows(tmp_path: Path, event: str, data: dict[str, Any]) -> None:
    async with storyboard(tmp_path, shot("permission-bash")) as agent:
        opened = (await agent.asked()).decision
        await tells(agent, event, data)
        agent.agent.driver._watch.take_hook(event, data, int(time.time() * 1000) - 1500)  # type: ignore[union-attr]
        await asyncio.sleep(2 * GHOST)
        assert (agent.state, list(agent.session.state.decisions)) == ("prompt", [opened])


async def test_the_same_command_asked_again_at_once_is_announced(tmp_path: Path) -> None:
    steps = [shot("permission-bash", until="\r"), page("", "", "* * *", after=0.25), shot("permission-bash")]
    async with storyboard(tmp_path, *steps) as agent:
        first = (await agent.asked()).decision
        await answer(agent, Answer(accept=True))
        await until(lambda: agent.session.state.decisions.keys() - {first})
        await agent.becomes("prompt")


async def test_a_dialog_that_is_asked_again_is_told_to_clients(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot("permission-bash"), answer_timeout=0.2) as agent:
        assert await answer(agent, Answer(accept=True)) is not None
        again = await agent.asked()
        await until(lambda: agent.session.shown.prompt is not None)
        told = [fact.decision for fact in await agent.facts(StateChanged) if fact.next == "prompt"]
        assert told[-1] == again.decision


async def test_a_start_up_dialog_in_the_middle_of_a_session_is_left_to_people(tmp_path: Path) -> None:
    drawn = page(
        "─" * 120,
        " Accessing workspace:",
        " /tmp",
        " Is this a folder you trust?",
        "",
        " ❯ 1. Yes, I trust this folder",
        "   2. No, exit",
        "",
        " Enter to confirm · Esc to cancel",
    )
    async with storyboard(tmp_path, shot(IDLE, until="Z"), drawn, groom_delay=0.1) as agent:
        await agent.becomes("idle")
        agent.agent.terminal.deliver(b"Z")
        await agent.asked()
        await asyncio.sleep(0.5)
        assert agent.typed(1) == ""
