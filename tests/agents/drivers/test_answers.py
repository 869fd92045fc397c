"""Answers on their way to a dialog: which row is meant, and what becomes of an answer that does not get there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.driven import Driven, shot, storyboard
from tests.agents.tui.screens import dialog
from tests.hub.rig import until

from dragoman.hub.errors import InvalidAnswer
from dragoman.hub.events import Answer, DecisionOpened, DecisionResolved
from dragoman.hub.permissions import LOCAL

DOWN = "\x1b[B"
IDLE = "idle"


async def answer(agent: Driven, said: Answer) -> str | None:
    """Answer the dialog that is open: None once the answer has reached it, else why it did not."""
    decision = (await agent.asked()).decision
    await agent.session.answer(LOCAL, decision, said, via="test")
    outcome: str | None = await agent.session.driver.carried_out(decision)
    return outcome


async def open_decision(agent: Driven, *, other_than: str) -> DecisionOpened:
    """The decision that takes the place of another one."""
    decisions = agent.session.state.decisions
    await until(lambda: decisions.keys() - {other_than} and other_than not in decisions, decisions)
    return await agent.asked()


def renamed(label: str, to: str):
    """An edit of a screen: a row says something else."""
    return lambda lines: [line.replace(label, to) for line in lines]


async def test_of_rows_that_say_the_same_the_one_that_was_announced_is_taken(tmp_path: Path) -> None:
    first, second = (row.label for row in dialog("claude", "question-single").rows[:2])
    same = shot("question-single", renamed(f"2. {second}", f"2. {first}"), until=DOWN)
    moved = shot("question-single", lambda lines: _marked(renamed(f"2. {second}", f"2. {first}")(lines), 2), until="\r")
    async with storyboard(tmp_path, same, moved, shot(IDLE)) as agent:
        assert await answer(agent, Answer(option=2)) is None
        assert agent.typed() == f"{DOWN}\r"


async def test_a_row_that_says_something_else_once_the_marker_has_come_is_not_confirmed(tmp_path: Path) -> None:
    """The program redraws its options between the arrow and Enter."""
    shown = dialog("claude", "permission-bash")
    label = shown.rows[1].label
    other = shot("permission-bash-second-row", renamed(label, "Yes, and never ask for anything again"))
    async with storyboard(tmp_path, shot("permission-bash", until=DOWN), other) as agent:
        assert "changed" in (await answer(agent, Answer(option=2)) or "")
        assert agent.typed() == DOWN


@pytest.mark.parametrize("moment", ["permission-bash", "plan", "question-single", "start-trust"])
async def test_a_dialog_that_an_answer_did_not_reach_is_asked_again(tmp_path: Path, moment: str) -> None:
    """It stands there still, so somebody must be able to answer it."""
    async with storyboard(
        tmp_path, shot(moment, until="\r\r"), shot(IDLE), groom="manual", answer_timeout=0.2
    ) as agent:
        first = (await agent.asked()).decision
        assert await answer(agent, Answer(option=1)) is not None  # its Enter, and the second, are not heard as one
        again = await open_decision(agent, other_than=first)
        assert (await agent.facts(DecisionResolved))[-1].decision == first
        opened = await agent.facts(DecisionOpened)
        assert [each.text for each in opened] == [opened[0].text] * 2
        assert again.ready
        assert again.options == opened[0].options


async def test_a_later_page_that_an_answer_did_not_reach_is_asked_again_from_there(tmp_path: Path) -> None:
    steps = [shot("question-page-1", until="\r"), shot("question-page-2")]
    async with storyboard(tmp_path, *steps, answer_timeout=0.2) as agent:
        assert await answer(agent, Answer(answers=(Answer(option=1),))) is None
        first = await agent.asked()
        assert await answer(agent, Answer(answers=(Answer(option=1),))) is not None
        again = await open_decision(agent, other_than=first.decision)
        await until(lambda: agent.session.state.decisions[again.decision].question_current == 1)
        assert len(again.questions) == 2


async def test_a_page_that_a_person_answered_is_not_answered_again(tmp_path: Path) -> None:
    steps = [
        shot("question-page-1", until="\r"),
        shot("question-page-2", until="\r"),
        shot("question-review", until="\r"),
    ]
    async with storyboard(tmp_path, *steps, shot(IDLE)) as agent:
        opened = await agent.asked()
        agent.agent.terminal.write(b"\r")
        await until(lambda: agent.session.state.decisions[opened.decision].question_current == 1)
        assert await answer(agent, Answer(answers=(Answer(option=1),))) is None
        await agent.becomes("idle")
        assert agent.typed() == "\r\r\r"


@pytest.mark.parametrize("text", ["", "  ", "\x1b", "\r\n"])
@pytest.mark.parametrize("moment", ["question-single", "question-page-1", "plan", "permission-bash"])
async def test_a_text_that_leaves_nothing_to_type_is_refused_and_changes_nothing(
    tmp_path: Path, moment: str, text: str
) -> None:
    async with storyboard(tmp_path, shot(moment)) as agent:
        opened = await agent.asked()
        for said in (Answer(text=text), Answer(answers=(Answer(text=text),))):
            with pytest.raises(InvalidAnswer):
                await agent.session.answer(LOCAL, opened.decision, said, via="test")
        assert agent.session.state.decisions[opened.decision] == opened
        assert agent.typed() == ""


async def test_an_empty_text_beside_an_option_says_nothing(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot("plan", until="\r"), shot(IDLE)) as agent:
        assert await answer(agent, Answer(option=1, text="")) is None
        assert agent.typed() == "\r"


def _marked(lines: list[str], number: int) -> list[str]:
    """The lines with the marker moved to a row."""
    plain = [line.replace("❯", " ") for line in lines]
    return [line.replace(f"  {number}. ", f"❯ {number}. ", 1) for line in plain]
