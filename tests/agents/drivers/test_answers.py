"""Answers on their way to a dialog: which row is meant, and what becomes of an answer that does not get there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.driven import Driven, at_row, page, shot, storyboard
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
    moved = at_row("question-single", 1, renamed(f"2. {second}", f"2. {first}"), until="\r")
    async with storyboard(tmp_path, same, moved, shot(IDLE)) as agent:
        assert await answer(agent, Answer(option=2)) is None
        assert agent.typed() == f"{DOWN}\r"


@pytest.mark.parametrize(
    ("option", "moment", "label", "to", "why_not"),
    [
        (2, "permission-bash-second-row", "from this project", "from any project", "gone"),
        (4, "permission-bash-last-row", "4. No", "4. No, and never ask again", "changed"),
    ],
)
async def test_a_row_that_says_something_else_once_the_marker_has_come_is_not_confirmed(
    tmp_path: Path, option: int, moment: str, label: str, to: str, why_not: str
) -> None:
    """The program redraws its options between the arrow and Enter: another dialog, or the same in other words."""

    def redrawn(lines: list[str]) -> list[str]:
        return [line.replace("denied.txt", "made.txt").replace(label, to) for line in lines]

    other = shot(moment, redrawn)
    assert any(to in line for line in other["lines"])
    first = at_row("permission-bash", option - 2, until=DOWN)
    async with storyboard(tmp_path, first, other) as agent:
        assert why_not in (await answer(agent, Answer(option=option)) or "")
        assert set(agent.typed()) <= set(DOWN)


@pytest.mark.parametrize("moment", ["permission-bash", "plan", "question-single", "start-trust"])
async def test_a_dialog_that_an_answer_did_not_reach_is_asked_again(tmp_path: Path, moment: str) -> None:
    """It stands there still, so somebody must be able to answer it."""
    async with storyboard(tmp_path, shot(moment), groom="manual", answer_timeout=0.2) as agent:
        first = (await agent.asked()).decision
        assert await answer(agent, Answer(option=1)) is not None
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


async def test_the_same_question_asked_twice_is_answered_once_by_one_answer(tmp_path: Path) -> None:
    """No hook and no status tells them apart: what was drawn after Enter may be the second."""
    steps = [shot("permission-bash", until="\r"), shot("permission-bash", until="\r"), shot(IDLE)]
    async with storyboard(tmp_path, *steps, answer_timeout=0.5) as agent:
        first = (await agent.asked()).decision
        await answer(agent, Answer(option=1))
        second = (await open_decision(agent, other_than=first)).decision
        assert agent.typed() == "\r"
        assert await answer(agent, Answer(option=1)) is None
        assert [each.decision for each in await agent.facts(DecisionOpened)] == [first, second]


async def test_an_enter_that_a_halted_program_has_not_read_is_not_pressed_again(tmp_path: Path) -> None:
    steps = [shot("permission-bash", until="\r"), shot("permission-write")]
    async with storyboard(tmp_path, *steps, answer_timeout=0.5) as agent:
        first = (await agent.asked()).decision
        agent.agent.terminal.signal("SIGSTOP")
        assert await answer(agent, Answer(option=1)) is not None
        agent.agent.terminal.signal("SIGCONT")
        await until(lambda: agent.typed(0) == "\r")
        await until(lambda: [each.text for each in agent.session.state.decisions.values() if "create" in each.text])
        assert agent.typed() == "\r"
        assert first not in agent.session.state.decisions


@pytest.mark.parametrize("said", [Answer(accept=True, text="be quick"), Answer(option=2, text="be quick")])
async def test_a_yes_with_a_text_is_a_yes(tmp_path: Path, said: Answer) -> None:
    async with storyboard(tmp_path, shot("plan", until=DOWN), at_row("plan", 1, until="\r"), shot(IDLE)) as agent:
        assert await answer(agent, said) is None
        assert agent.typed() == f"{DOWN}\r"


@pytest.mark.parametrize("option", [3, None])
async def test_other_is_chosen_by_its_text_with_its_number_or_without(tmp_path: Path, option: int | None) -> None:
    steps = [
        shot("question-single", until=DOWN),
        at_row("question-single", 1, until=DOWN),
        shot("question-typing", until="mine\x1b[201~"),
    ]
    async with storyboard(tmp_path, *steps, shot("question-typed", until="\r"), shot(IDLE)) as agent:
        assert await answer(agent, Answer(answers=(Answer(option=option, text="mine"),))) is None
        assert agent.typed() == f"{DOWN * 2}\x1b[200~mine\x1b[201~\r"


SECRET = "SIGNINCODE123"


@pytest.mark.parametrize(
    "told_before", ["", "\x1b]7501;id=;state=blocked;kind=auth\x07", "\x1b]7501;state=blocked\x07"]
)
async def test_a_sign_in_code_stays_out_of_the_log_whoever_told_of_its_dialog(tmp_path: Path, told_before: str) -> None:
    steps = [
        page(told_before, after=1.0),
        shot("menu-login-oauth", until="\x1b[201~"),
        shot("menu-login-oauth", until="\r"),
    ]
    async with storyboard(tmp_path, *steps, shot(IDLE)) as agent:
        await until(lambda: any(each.subtype == "oauth_login" for each in agent.session.state.decisions.values()))
        assert (await agent.asked()).secret
        assert await answer(agent, Answer(text=SECRET)) is None
        assert agent.typed() == f"\x1b[200~{SECRET}\x1b[201~\r"
        assert SECRET not in repr(await agent.hub.facts(agent.session))


async def test_nobody_knows_yet_what_is_asked_and_a_text_may_be_a_secret(tmp_path: Path) -> None:
    async with storyboard(tmp_path, page("\x1b]7501;state=blocked\x07")) as agent:
        assert (await agent.asked()).secret


def no_remark(lines: list[str]) -> list[str]:
    """The dialog as a version shows it whose rows take none."""
    return [line.replace(" · Tab to amend", "") for line in lines]


async def test_a_no_that_says_how_it_is_meant_is_a_plain_no_where_the_dialog_takes_no_text(tmp_path: Path) -> None:
    """What was said with it has no place there."""
    rows = [at_row("permission-bash", row, no_remark, until=DOWN if row < 3 else "\r") for row in range(4)]
    assert not any("amend" in line for step in rows for line in step["lines"])
    async with storyboard(tmp_path, *rows, shot(IDLE)) as agent:
        said = Answer(accept=False, text="use yarn", values={"mode": "reject_explain"})
        assert await answer(agent, said) is None
        await agent.becomes("idle")
        assert agent.typed() == f"{DOWN}{DOWN}{DOWN}\r"


@pytest.mark.parametrize("accept", [None, False])
async def test_a_text_is_no_answer_where_the_dialog_takes_none(tmp_path: Path, accept: bool | None) -> None:
    steps = [at_row("permission-bash", row, no_remark, until=DOWN) for row in range(3)]
    last = at_row("permission-bash", 3, no_remark)
    async with storyboard(tmp_path, *steps, last, answer_timeout=0.2) as agent:
        assert "takes no text" in (await answer(agent, Answer(accept=accept, text="use yarn")) or "")
        assert set(agent.typed()) <= set(DOWN)
