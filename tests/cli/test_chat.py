"""`dragoman chat` as a person sees it: in a real terminal (tmux), on a real server."""

from __future__ import annotations

import shutil
import stat

import pytest

from dragoman.client.hub import HubClient
from tests.faults.process import Served, eventually

from .conftest import Chat

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def place(lines: list[str], text: str) -> int:
    return next(at for at, line in enumerate(lines) if text in line)


async def test_a_greeting_is_answered_and_one_leaves(chat: Chat) -> None:
    await chat.opened()
    chat.enter("hello there")
    lines = await chat.shows("You said: hello there")
    assert place(lines, "hello there") < place(lines, "You said"), "what was typed stays above the answer"
    chat.window.type("C-d")
    lines = await chat.shows("left with 0")
    assert any("comes back to it" in line for line in lines)
    assert sum("You said" in line for line in lines) == 1, "nothing is shown twice"


async def test_a_second_ctrl_c_at_an_empty_prompt_leaves(chat: Chat) -> None:
    await chat.opened()
    chat.window.tmux("send-keys", "-l", "never sent")
    chat.window.type("C-c")
    chat.window.type("C-c")
    await chat.shows("Ctrl-C again leaves")
    chat.window.type("C-c")
    await chat.shows("left with 0")
    assert (await chat.snapshot())["prompts"] == 0


async def test_a_permission_is_given_and_refused(chat: Chat) -> None:
    await chat.opened()
    chat.enter("permit make clean")
    lines = await chat.shows("[y]es / [n]o / [s]ession")
    assert place(lines, "? permission") < place(lines, "  make clean")
    chat.enter("y")
    await chat.shows("make clean: permitted")
    chat.enter("permit rm -rf build")
    await chat.shows("[y]es / [n]o")
    chat.enter("n")
    await chat.shows("rm -rf build: refused")


async def test_a_question_is_answered_by_number(chat: Chat) -> None:
    await chat.opened()
    chat.enter("ask Which colour? | red | blue")
    await chat.shows("2 blue")
    chat.enter("9")
    await chat.shows("there is no option 9")
    chat.enter("2")
    await chat.shows("answer: blue")


async def test_a_native_agent_asks_before_it_runs_a_command(chat: Chat) -> None:
    chat.open("--provider", "demonstration", "--cwd", str(chat.folder))
    await chat.shows("/help says")
    chat.enter("show a permission")
    await chat.shows("4 No")
    await chat.shows("1-4 / [y]es / [n]o")
    chat.enter("1")
    lines = await chat.shows("You permitted the command")
    assert any(line.startswith("● bash date") and "… ok" in line for line in lines)


async def test_a_path_is_an_answer_and_a_command_is_one_at_any_time(chat: Chat) -> None:
    await chat.opened()
    chat.enter("ask Where?")
    await chat.shows("your answer")
    chat.enter("/status")
    await chat.shows("1 decisions wait")
    chat.enter("/tmp")
    await chat.shows("answer: /tmp")


async def test_several_decisions_are_asked_one_after_the_other(chat: Chat) -> None:
    await chat.opened()
    opened = '{"type":"decision.opened","decision":"first","kind":"permission","text":"the first command"}'
    chat.enter(f"fact {opened}", "permit the second command")
    lines = await chat.shows("the first command")
    await chat.shows("[y]es / [n]o")
    chat.enter("y")
    await chat.shows("  the second command")
    chat.enter("y")
    lines = await chat.shows("the second command: permitted")
    assert sum("? permission" in line for line in lines) == 2


async def test_ctrl_c_cancels_the_turn_and_the_session_is_idle(chat: Chat) -> None:
    await chat.opened()
    chat.enter("wait")
    await chat.shows("working")
    chat.window.type("C-c")
    await chat.shows("✗ cancelled")
    await chat.is_idle()
    chat.enter("still here")
    await chat.shows("You said: still here")


async def test_a_second_ctrl_c_while_a_turn_runs_leaves(chat: Chat) -> None:
    await chat.opened()
    chat.enter("wait")
    await chat.shows("working")
    chat.window.type("C-c", "C-c")
    await chat.shows("left with 0")
    await chat.is_idle()


async def test_what_is_typed_while_a_turn_runs_steers_it(chat: Chat) -> None:
    await chat.opened()
    chat.enter("ask Ready?", "steer", "say done")
    await chat.shows("your answer")
    async with HubClient(f"http://127.0.0.1:{chat.served.ready['port']}/hub" if chat.served else "") as other:
        await other.submit(await chat.session(), "from elsewhere", when_busy="steer")
    await chat.shows("from elsewhere")
    chat.enter("yes")
    await chat.shows("steered: from elsewhere")
    await chat.is_idle()
    chat.enter("pace 200 10", "steer")
    await chat.shows("delta 3")
    chat.enter("and this")
    await chat.shows("sent along")
    await chat.shows("steered: and this")


async def test_what_is_half_typed_is_no_answer_and_comes_back(chat: Chat) -> None:
    await chat.opened()
    chat.enter("pace 100 10", "permit rm -rf build")
    await chat.shows("delta 3")
    chat.window.tmux("send-keys", "-l", "y")
    await chat.shows("[y]es / [n]o")
    chat.window.type("Enter")
    chat.enter("n")
    await chat.shows("rm -rf build: refused")
    await chat.is_idle()
    chat.enter(" it was")
    await chat.shows("You said: y it was")


async def test_a_decision_that_is_answered_elsewhere_goes_away(chat: Chat) -> None:
    await chat.opened()
    chat.enter("permit rm -rf build")
    await chat.shows("[y]es / [n]o")
    (decision,) = (await chat.snapshot())["decisions"]
    assert chat.served is not None
    path = f"/sessions/{await chat.session()}/decisions/{decision['decision']}"
    await chat.served.asked("POST", path, {"answer": {"accept": False}})
    await chat.shows("answered elsewhere: no")
    lines = await chat.shows("rm -rf build: refused")
    assert not any("[y]es" in line for line in lines)


async def test_commands_and_what_is_none(chat: Chat) -> None:
    await chat.opened()
    chat.enter("/help")
    await chat.shows("/compact    sum up")
    chat.enter("/dance")
    await chat.shows("there is no /dance: /help")
    chat.enter("/mode dance")
    await chat.shows("there is no mode 'dance'")
    chat.enter("/model some-model")
    await chat.shows("· model some-model")
    chat.enter("/status")
    await chat.shows("0 decisions wait")
    chat.enter("/sessions")
    await chat.shows("▸ ")
    assert (await chat.snapshot())["settings"] == {"model": "some-model"}
    chat.enter("/exit")
    await chat.shows("left with 0")


async def test_commands_are_completed(chat: Chat) -> None:
    await chat.opened()
    chat.window.tmux("send-keys", "-l", "/comp")
    await chat.shows("sum up what was said")
    chat.window.type("Tab")
    await chat.shows("/compact")


async def test_a_model_does_not_drive_the_terminal(chat: Chat) -> None:
    await chat.opened()
    escape = "\\u001b"
    part = '"turn":"t","part":"p","kind":"text"'
    chat.enter(
        f'fact {{"type":"part.started",{part}}}',
        f'fact {{"type":"part.delta",{part},"text":"one {escape}[2J{escape}]0;owned\\u0007two{escape}"}}',
        f'fact {{"type":"part.delta",{part},"text":"[8mthree\\r\\n"}}',
        f'tool {escape}bash {{"command":"{escape}c{escape}[31mls"}}',
    )
    lines = await chat.shows("one twothree")
    await chat.is_idle()
    assert any("/help says" in line for line in lines), "the screen was not cleared"
    assert chat.window.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"


async def test_wide_characters_and_a_narrow_terminal(chat: Chat) -> None:
    await chat.opened()
    chat.window.tmux("resize-window", "-x", "24", "-y", "20")
    chat.enter("say 漢字漢字漢字漢字漢字漢字漢字 words that are wrapped where they may be")
    await chat.is_idle()
    lines = [line.rstrip() for line in await chat.shows("wrapped where they may")]
    answer = ["漢字漢字漢字漢字漢字漢", "字漢字 words that are", "wrapped where they may", "be"]
    assert answer == lines[lines.index(answer[0]) :][: len(answer)]


async def test_the_history_is_kept_for_this_user_only_and_holds_no_answers(chat: Chat) -> None:
    await chat.opened()
    chat.enter("ask Secret?")
    await chat.shows("your answer")
    chat.enter("an answer")
    await chat.shows("answer: an answer")
    chat.window.type("C-d")
    await chat.shows("left with 0")
    file = chat.folder / "own" / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "ask Secret?" in file.read_text()
    assert "an answer" not in file.read_text()


async def test_a_session_is_taken_up_again(chat: Chat) -> None:
    await chat.opened()
    chat.enter("hello there")
    await chat.shows("You said: hello there")
    chat.window.type("C-d")
    await chat.shows("left with 0")
    chat.open("--session", (await chat.session())[:8], again=True)
    lines = await chat.shows("/help says")
    assert any("You said: hello there" in line for line in lines), "its last exchange is shown"


async def test_a_lost_server_is_one_line_and_one_can_leave(chat: Chat, mortal: Served) -> None:
    chat.served = mortal
    await chat.opened()
    chat.enter("hello there")
    await chat.shows("You said: hello there")
    mortal.kill()
    lines = await chat.shows("✗ the server is away")
    assert sum("the server is away; trying again" in line for line in lines) == 1
    chat.window.type("C-d")
    await chat.shows("left with 0")


async def test_a_server_that_comes_back_tells_nothing_twice(chat: Chat, mortal: Served) -> None:
    mortal.kill()
    chat.served = again = Served(mortal.folder, "--port", str(mortal.ready["port"]))
    await again.start()
    try:
        await chat.opened()
        chat.enter("say half way", "wait")
        await eventually(lambda: "half way" in chat.window.lines(), "the answer")
        again.kill()
        await chat.shows("the server is away")
        await again.start()
        await chat.shows("the server is back")
        assert (await chat.shows("✗ interrupted")).count("half way") == 1
        chat.enter("hello again")
        await chat.shows("You said: hello again")
    finally:
        if again.process is not None:
            again.kill()


async def test_without_a_server_it_has_one_of_its_own_that_ends_with_it(alone: Chat) -> None:
    await alone.opened()
    lines = await alone.shows("/help says")
    assert any("no server runs" in line for line in lines)
    alone.enter("hello there")
    await alone.shows("You said: hello there")
    alone.window.type("C-d")
    await alone.shows("left with 0")
    lock = alone.folder / "own" / "lock"
    await eventually(lambda: not lock.read_text(), "the data folder is given up")


async def test_bytes_that_are_no_text_are_sent_as_signs_for_them(chat: Chat) -> None:
    await chat.opened()
    chat.window.tmux("send-keys", "-H", "ff", "20", "68", "69", "0d")
    await chat.shows("You said: \ufffd hi")
