"""What went wrong in others of our kind and is protected here; ``tests/test_known_defects.py`` is the index.

Agents are storyboards: recorded screens of the real program that lead on when the right bytes come.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agents.common.recorded import sample
from tests.agents.driven import Driven, at_row, driven, gaps, page, shot, storyboard
from tests.agents.tui.screens import recorded
from tests.agents.tui.screens import screen as a_screen
from tests.dialects.coop.harness import Server
from tests.dialects.coop.harness import until as eventually
from tests.fake_agent.rig import command as fake_agent
from tests.hub.rig import until

from dragoman.agents.common.tail import LogTail
from dragoman.agents.terminal.drivers import watch as watch_module
from dragoman.agents.terminal.drivers.claude import projects
from dragoman.agents.terminal.drivers.hook_socket import HookSocket, Post, Reply, hook_command
from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.agents.terminal.tui import read_screen
from dragoman.hub.events import Answer, DecisionOpened, HookAnswered, MessageAdded, StateChanged
from dragoman.hub.permissions import LOCAL

PASTED = "\x1b[201~"
DOWN = "\x1b[B"
IDLE, DRAFT, WORKING, DONE = "idle", "draft-one-line", "working", "idle-after-turn"
NOTES = ("Security notes:", "", "1. Claude can make mistakes", "", "Press Enter to continue…")


def turn(*, enter: dict[str, Any] | None = None, paste: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A prompt as it is pasted, sent and worked on. ``paste`` and ``enter`` make its first two steps harder."""
    return [
        shot(IDLE, until=PASTED, **(paste or {})),
        shot(DRAFT, until="\r", **(enter or {})),
        shot(WORKING, after=1.0),
        shot(DONE),
    ]


async def delivered(agent: Driven, text: str) -> None:
    """A prompt is taken and its turn comes to its end."""
    await agent.becomes("idle")
    receipt = await agent.session.submit(LOCAL, text, via="test", when_busy="queue")
    assert await agent.session.driver.taken(receipt.prompt) is None
    await until(lambda: agent.session.shown.turn is None and not agent.session.shown.queue, agent.session.shown)


async def answered(agent: Driven, answer: Answer) -> None:
    """The dialog that is open is answered, and the answer reaches it."""
    decision = (await agent.asked()).decision
    await agent.session.answer(LOCAL, decision, answer, via="test")
    assert await agent.session.driver.carried_out(decision) is None


# Input


async def test_enter_follows_its_prompt_in_a_read_of_its_own(tmp_path: Path) -> None:
    """Together they are a line break in the prompt."""
    async with storyboard(tmp_path, *turn(), input_delay=0.2) as agent:
        await delivered(agent, "hello there")
        assert agent.typed(0) == "\x1b[200~hello there\x1b[201~"
        assert agent.typed(1) == "\r"
        pasted, *_, entered = agent.reads
        assert entered.at - pasted.at >= 0.15


async def test_what_the_agent_is_to_see_is_typed_and_not_what_the_person_wrote(tmp_path: Path) -> None:
    async with storyboard(tmp_path, *turn()) as agent:
        await agent.becomes("idle")
        receipt = await agent.session.submit(LOCAL, "look at this", via="test", content="look at this: a.txt")
        assert await agent.session.driver.taken(receipt.prompt) is None
        assert agent.typed(0) == "\x1b[200~look at this: a.txt\x1b[201~"


async def test_the_wait_for_enter_begins_when_the_program_has_read_the_prompt(tmp_path: Path) -> None:
    steps = turn(paste={"deaf": 1.0})
    async with storyboard(tmp_path, *steps, input_delay=0.3, input_delay_max=0.3) as agent:
        await delivered(agent, "x" * 65536)
        assert len(agent.typed(0)) == 65536 + 12
        *_, pasted, entered = agent.reads
        assert entered.text == "\r"
        assert entered.at - pasted.at >= 0.25


async def test_two_prompts_at_once_do_not_mix(tmp_path: Path) -> None:
    async with storyboard(tmp_path, *turn()[:3], *turn(), input_delay=0.2) as agent:
        await agent.becomes("idle")
        await asyncio.gather(delivered(agent, "hello there"), delivered(agent, "and again"))
        assert sorted(agent.typed().split("\r")) == ["", "\x1b[200~and again\x1b[201~", "\x1b[200~hello there\x1b[201~"]
        assert min(gaps(agent.reads)) >= 0.15


DISTANCE = 1.0
"""Seconds between deliveries: far more than one needs by itself."""


async def test_two_answers_in_a_row_keep_their_distance(tmp_path: Path) -> None:
    steps = [shot("permission-bash", until="\r"), shot("permission-write", until="\r"), shot(WORKING)]
    async with storyboard(tmp_path, *steps, input_delay=DISTANCE) as agent:
        first = await agent.asked()
        await answered(agent, Answer(accept=True))
        await until(lambda: list(agent.session.shown.decisions) not in ([], [first.decision]))
        await answered(agent, Answer(accept=True))
        await agent.becomes("working")
        assert [read.text for read in agent.reads] == ["\r", "\r"]
        assert min(gaps(agent.reads)) >= DISTANCE


async def test_a_prompt_keeps_its_distance_from_the_answer_before(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot("permission-bash", until="\r"), *turn(), input_delay=DISTANCE) as agent:
        await answered(agent, Answer(accept=True))
        await delivered(agent, "hello there")
        assert agent.typed() == "\r\x1b[200~hello there\x1b[201~\r"
        assert min(gaps(agent.reads)) >= DISTANCE


async def test_an_enter_that_is_swallowed_twice_is_pressed_again_until_there_is_work(tmp_path: Path) -> None:
    async with storyboard(tmp_path, *turn(enter={"ignore": 2})) as agent:
        await delivered(agent, "hello there")
        assert agent.typed(1) == "\r\r\r"
        assert agent.typed(2) == agent.typed(3) == ""


async def test_one_enter_per_dialog_so_that_none_reaches_the_next(tmp_path: Path) -> None:
    async with storyboard(tmp_path, shot("permission-bash", until="\r"), shot("permission-write")) as agent:
        first = await agent.asked()
        await answered(agent, Answer(accept=True))
        await until(lambda: first.decision not in agent.session.state.decisions)
        await until(lambda: agent.session.state.decisions)
        await asyncio.sleep(1.7)  # longer than an Enter is waited for before it is pressed again
        assert agent.typed() == "\r"
        assert len(await agent.facts(DecisionOpened)) == 2
        assert len(agent.session.state.decisions) == 1


async def test_a_page_that_only_goes_on_gets_enter_and_nothing_else(tmp_path: Path) -> None:
    async with storyboard(tmp_path, page("─" * 120, *NOTES, until="\r"), shot(IDLE), groom_delay=0.1) as agent:
        await agent.becomes("idle")
        assert agent.typed() == "\r"


@pytest.mark.parametrize("then", [IDLE, "start-bypass"])
async def test_a_set_up_page_that_went_by_itself_is_not_answered_any_more(tmp_path: Path, then: str) -> None:
    steps = [page("─" * 120, *NOTES, after=0.5), shot(then)]
    async with storyboard(tmp_path, *steps, groom_delay=1.0) as agent:
        await agent.asked()
        await agent.becomes("idle" if then == IDLE else "prompt")
        await asyncio.sleep(1.2)
        assert agent.typed() == ""


async def test_feedback_goes_into_its_field_by_marker_text_and_enter(tmp_path: Path) -> None:
    """A digit would confirm the row instead of opening its field."""
    steps = [
        shot("plan", until=DOWN),
        at_row("plan", 1, until=DOWN),
        shot("plan-last-row", until="steps\x1b[201~"),
        shot("plan-feedback-typed", until="\r"),
        shot(WORKING),
    ]
    async with storyboard(tmp_path, *steps) as agent:
        await answered(agent, Answer(accept=False, text="smaller steps"))
        await agent.becomes("working")
        assert agent.typed() == f"{DOWN}{DOWN}\x1b[200~smaller steps\x1b[201~\r"


# Detection


@pytest.mark.parametrize("drawn", ["before", "after"])
async def test_a_generic_permission_does_not_take_the_place_of_a_plan(tmp_path: Path, drawn: str) -> None:
    _, event, notice = sample("claude", "Notification:permission_prompt")
    steps = [shot("plan")] if drawn == "before" else [shot(WORKING, after=0.6), shot("plan")]
    async with storyboard(tmp_path, *steps) as agent:
        await agent.becomes("prompt" if drawn == "before" else "working")
        assert agent.session.hooks is not None
        await agent.session.hooks.ingest(event, notice)
        await agent.asked()
        await asyncio.sleep(1.2)
        (opened,) = await agent.facts(DecisionOpened)
        (held,) = agent.session.state.decisions.values()
        assert (held.decision, held.kind) == (opened.decision, "plan")


async def test_a_set_up_page_does_not_keep_the_question_of_trust_from_being_asked(tmp_path: Path) -> None:
    steps = [page("─" * 120, *NOTES, until="\r"), shot("start-trust-2.1.197", until="\r"), shot(IDLE)]
    async with storyboard(tmp_path, *steps, groom_delay=0.1) as agent:
        await agent.becomes("idle")
        assert [opened.subtype for opened in await agent.facts(DecisionOpened)] == ["security_notes", "trust"]
        assert agent.typed() == "\r\r"


@pytest.mark.parametrize(
    "footer",
    ["⏵⏵ bypass permissions on (shift+tab to cycle)", "WARNING: Claude Code running in Bypass Permissions mode"],
)
def test_a_status_line_about_bypass_is_no_dialog(footer: str) -> None:
    screen, styled = recorded("claude", IDLE)
    lines = [f"  {footer}" if "for shortcuts" in line else line for line in screen.lines]
    assert lines != list(screen.lines)
    row, col = screen.cursor.row, screen.cursor.col
    reading = read_screen("claude", a_screen(lines, row=row, col=col), styled)
    assert (reading.dialog, reading.input_box, reading.working) == (None, "", False)


@pytest.mark.parametrize(
    ("cwd", "name"), [("/srv/a_b.c", "-srv-a-b-c"), ("/", "-"), ("/tmp/ö x", "-tmp---x"), ("/a/.b", "-a--b")]
)
def test_a_project_folder_has_the_name_that_claude_gives_it(cwd: str, name: str) -> None:
    assert projects({"HOME": "/home/user"}, cwd) == Path("/home/user/.claude/projects", name)
    assert projects({"HOME": "/x", "CLAUDE_CONFIG_DIR": "/config"}, cwd) == Path("/config/projects", name)


async def test_an_idle_agent_with_a_log_costs_no_processor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the log must not be what makes it be read again."""
    monkeypatch.setattr(watch_module, "BUSY_AFTER_OUTPUT", 0.3)
    reads: list[float] = []
    records = LogTail.records

    def counted(tail: LogTail) -> Iterator[dict[str, Any]]:
        reads.append(time.monotonic())
        return records(tail)

    monkeypatch.setattr(LogTail, "records", counted)
    async with driven(tmp_path, *fake_agent("--record", str(tmp_path / "record"))) as agent:
        await delivered(agent, "hello")
        assert list((tmp_path / ".claude" / "projects").glob("*/*.jsonl"))
        await until(lambda: reads and time.monotonic() - reads[-1] > 0.5, "the log is left alone")
        count, before = len(reads), time.process_time()
        await asyncio.sleep(1.0)
        assert len(reads) == count
        assert time.process_time() - before < 0.1


@pytest.mark.parametrize(("source", "news"), [("resume", ["new"]), ("fork", ["new"]), ("clear", ["old", "new"])])
async def test_what_a_log_held_when_its_session_was_resumed_is_no_news(
    tmp_path: Path, source: str, news: list[str]
) -> None:
    """Also where another log was followed before: somebody resumes at the terminal, or the log was copied."""
    log = tmp_path / "other.jsonl"

    def say(text: str) -> None:
        message = {"id": text, "type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
        with log.open("a") as file:
            file.write(json.dumps({"type": "assistant", "uuid": text, "message": message}) + "\n")

    say("old")
    async with storyboard(tmp_path, shot(IDLE)) as agent:
        await agent.becomes("idle")
        assert agent.session.hooks is not None
        began = {"source": source, "session_id": "another", "transcript_path": str(log)}
        await agent.session.hooks.ingest("SessionStart", began)
        say("new")
        await until(lambda: agent.session.shown.status.last_message == "new")
        assert [message.text for message in await agent.facts(MessageAdded)] == news


async def test_a_state_is_told_whole(tmp_path: Path) -> None:
    """An error has detail and category, every state its cause, whoever looks whenever."""
    async with storyboard(tmp_path, shot(IDLE, until="x"), shot(WORKING, after=0.8), shot("error")) as agent:
        await agent.becomes("idle")
        agent.agent.terminal.write(b"x")
        await agent.becomes("error")
        changes = await agent.facts(StateChanged)
        assert all(change.cause for change in changes)
        assert all((change.next == "error") == (change.error_detail is not None) for change in changes)
        assert all((change.error_detail is None) == (change.error_category is None) for change in changes)
        assert agent.session.shown.status.error_category is not None


# Hooks


GREETING = "remember the milk"


async def start_hook_said(agent: Driven) -> None:
    (told,) = await agent.facts(HookAnswered)
    assert (told.hook, told.source, told.injected) == ("start", "startup", True)


async def test_hooks_are_listened_for_at_the_moment_of_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[bool] = []
    launch = PtyTerminal.launch

    def launched(terminal: PtyTerminal, command: Sequence[str], *, env: Mapping[str, str], **more: Any) -> None:
        with socket.socket(socket.AF_UNIX) as hook:
            accepted.append(hook.connect_ex(env["DRAGOMAN_HOOKS"]) == 0)
        launch(terminal, command, env=env, **more)

    monkeypatch.setattr(PtyTerminal, "launch", launched)
    async with driven(tmp_path, "sh", "-c", "exec sleep 100"):
        assert accepted == [True]


async def test_the_first_thing_a_program_does_may_be_a_hook(tmp_path: Path) -> None:
    line = f'echo \'{{"source": "startup"}}\' | {hook_command("SessionStart")}; echo left with $?; exec sleep 100'
    async with driven(tmp_path, "sh", "-c", line, settings={"start_config": {"text": GREETING}}) as agent:
        await until(lambda: "left with 0" in agent.picture)
        assert GREETING in agent.picture
        await start_hook_said(agent)


@pytest.mark.parametrize(("category", "verdict"), [("authentication_failed", "error"), ("rate_limit", "blocked")])
async def test_a_stop_after_an_error_without_hope_is_let_go(tmp_path: Path, category: str, verdict: str) -> None:
    """A stop says that the agent is at rest; what its state was before counts."""
    told = f'{{"error": "{category}", "last_assistant_message": "API Error: failed"}}'
    failure = f"echo '{told}' | {hook_command('StopFailure')}"
    line = f"{failure}; echo '{{}}' | {hook_command('Stop')}; exec sleep 100"
    async with driven(tmp_path, "sh", "-c", line, settings={"stop_config": {"mode": "signal"}}) as agent:
        while not (stops := [fact for fact in await agent.facts(HookAnswered) if fact.hook == "stop"]):
            await asyncio.sleep(0.02)
        assert stops[0].verdict == verdict


async def _silent(_: Post) -> Reply:
    return Reply()


async def test_what_a_lost_server_left_behind_is_in_nobodys_way() -> None:
    lost, new = HookSocket(_silent), HookSocket(_silent)
    await lost.open()
    await new.open()
    try:
        assert lost.path != new.path
        assert stat.S_IMODE(Path(new.path).stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(new.path).parent.stat().st_mode) == 0o700
        assert await run_hook("Stop", "{}", new.environment()) == (0, "")
    finally:
        lost.close()
        new.close()
    assert not Path(new.path).parent.exists()


async def run_hook(event: str, payload: str, env: dict[str, str]) -> tuple[int | None, str]:
    """Run a hook as an agent does; its exit code and all it said."""
    process = await asyncio.create_subprocess_shell(
        hook_command(event),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], **env},
    )
    async with asyncio.timeout(10):
        said, _ = await process.communicate(payload.encode())
    return process.returncode, said.decode()


NO_SERVER = {"DRAGOMAN_HOOKS": "/nonexistent/hooks.sock", "DRAGOMAN_HOOK_SECRET": "x"}


@pytest.mark.parametrize("env", [{}, NO_SERVER], ids=["nothing is told", "no server"])
@pytest.mark.parametrize("payload", ["{}", "", "{", "[1]", "\xff", "[" * 100_000], ids=lambda payload: payload[:3])
async def test_a_hook_that_nobody_answers_prints_nothing_and_succeeds(env: dict[str, str], payload: str) -> None:
    assert await run_hook("PreToolUse", payload, env) == (0, "")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"{}\n", ""),
        (b'{"print": 5}\n', ""),
        (b'{"script": "echo \\u0000"}\n', ""),
        (b'{"print": "\\ud800"}\n', "?"),
        (b"", ""),
        (b"no json\n", ""),
        (b"[]\n", ""),
        (b'{"print": "", "script": ""}\n', ""),
        (b'{"script": "echo hi; exit 3"}\n', "hi\n"),
    ],
)
async def test_a_hook_succeeds_whatever_it_is_answered(tmp_path: Path, answer: bytes, said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path):
        assert await run_hook("SessionStart", "{}", {"DRAGOMAN_HOOKS": path, "DRAGOMAN_HOOK_SECRET": "x"}) == (0, said)


# The screen model


def test_a_long_history_costs_no_memory() -> None:
    """100 000 lines of 200 columns, in a process of its own: the peak counts."""
    code = """
import resource
from dragoman.agents.terminal.screen import PyavtScreen
screen = PyavtScreen(200, 50)
line = b"x" * 198 + b"\\r\\n"
screen.feed(line * 2000, 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(1, 50):
    screen.feed(line * 2000, number * len(line) * 2000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert int(said.stdout) < 32 * 1024


# After a kill


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files whose path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_the_hook_socket_of_a_killed_server_is_removed_by_the_next(tmp_path: Path, temporary: Path) -> None:

    def lived() -> set[Path]:
        """One life of the server, ended by a kill: the folders that were there meanwhile."""
        line = ["sh", "-c", "exec sleep 100"]
        server = Server(line, folder=tmp_path / "server", args=["--agent", "claude"], env={"TMPDIR": str(temporary)})
        try:
            return eventually(lambda: set(temporary.glob("dragoman-hooks-*/hooks.sock")), "the socket")
        finally:
            server.kill()

    assert len(lived()) == 1
    assert len(lived()) == 1


def test_a_spinner_that_gemini_quotes_is_no_work() -> None:
    snapshot, _ = recorded("gemini", "idle-after-turn")
    at = next(at for at, line in enumerate(snapshot.lines) if line.startswith("✦ "))
    said = ["✦ It shows:", "   ⠏ Thinking... (esc to cancel, 16s)"]
    shown = [*snapshot.lines[:at], *said, *snapshot.lines[at + 1 :]]
    row, col = snapshot.cursor.row + 1, snapshot.cursor.col
    reading = read_screen("gemini", a_screen(shown, row=row, col=col))
    assert (reading.input_box, reading.working) == ("", False)
