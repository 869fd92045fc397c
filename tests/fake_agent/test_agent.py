"""The fake agent on a bare terminal: what it shows, says, runs and writes, and that its record is true."""

# ruff: noqa: RUF001 - the marker of the real program is what we look for

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fake_agent.rig import AGENT, Played
from tests.fake_agent.session_log import place

DOWN, UP, RIGHT, LEFT, ESC, BACKTAB = "\x1b[B", "\x1b[A", "\x1b[C", "\x1b[D", "\x1b", "\x1b[Z"
TURN_HOOKS = ["UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop"]
ALL_HOOKS = [*TURN_HOOKS, "SessionStart", "SessionEnd", "StopFailure", "Notification", "SubagentStart", "SubagentStop"]
ASKED = ["starting", "idle", "working", "prompt"]


def played(folder: Path, *flags: str, plain: bool = False, hooks: tuple[str, ...] = ()) -> Played:
    return Played(folder, *flags, plain=plain, hooks=hooks)


def test_at_the_start_it_asks_its_queries_in_order_and_shows_its_box(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.reaches("starting", "idle")
        agent.shows("? for shortcuts")
        output = agent.output
        assert output.index(b"\x1b]7501;?\x1b\\") < output.index(b"\x1b[c") < output.index(b"\x1b[?1049h")
        assert b"\x1b[?2004h" in output
        rows = agent.screen.splitlines()
        box = next(n for n, row in enumerate(rows) if row.startswith("❯"))
        assert rows[box - 1] == rows[box + 1] == "─" * 100


def test_status_is_said_when_it_was_answered_and_titles_then_say_nothing(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("hello\r")
        agent.reaches("starting", "idle", "working", "idle")
        agent.until(lambda: agent.status == ["idle", "working", "done"], str(agent.status))
        assert set(agent.titles) == {"Claude Code"}


@pytest.mark.parametrize("flags", [(), ("--no-7501",)])
def test_titles_tell_the_state_when_status_is_not_answered(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with played(tmp_path, *flags, plain=not flags) as agent:
        agent.becomes("idle")
        agent.send("[[think:1200]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        agent.until(lambda: agent.titles[-1] == "✳ Claude Code")
        assert agent.titles[:2] == ["✳ Claude Code", "◐ Claude Code"]
        assert {title[0] for title in agent.titles} & {"⠂", "⠐"}
        assert agent.status == []


def test_without_status_and_titles_nothing_is_said(tmp_path: Path) -> None:
    with played(tmp_path, "--no-7501", "--no-titles") as agent:
        agent.becomes("idle")
        agent.send("hello\r")
        agent.reaches("starting", "idle", "working", "idle")
        assert agent.status == agent.titles == []
        assert b"7501" not in agent.output


def test_a_turn_shows_a_spinner_and_an_answer(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[say+800:Well met.]]\r")
        agent.shows("esc to interrupt")
        agent.shows("● Well met.")
        agent.becomes("idle")
        agent.until(lambda: "esc to interrupt" not in agent.screen)
        assert agent.effects[0]["text"] == "[[say+800:Well met.]]"


def test_hooks_of_a_turn_in_order_and_with_the_fields_of_the_real_ones(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[permission+20:ls]]\r")
        agent.becomes("prompt")
        agent.send("1")
        agent.reaches(*ASKED, "working", "idle")
        agent.send("/exit\r")
        assert agent.end() == 0
        assert agent.events == ["SessionStart", *TURN_HOOKS, "SessionEnd"]
        by_name = {hook["hook_event_name"]: hook for hook in agent.hooks}
        assert all(hook["session_id"] == agent.session for hook in agent.hooks)
        assert all(hook["transcript_path"] == str(agent.log_path) for hook in agent.hooks)
        assert all(hook["cwd"] == str(tmp_path) for hook in agent.hooks)
        assert by_name["SessionStart"]["source"] == "startup"
        assert by_name["PreToolUse"]["tool_use_id"] == by_name["PostToolUse"]["tool_use_id"]
        assert "tool_use_id" not in by_name["PermissionRequest"]
        assert by_name["PermissionRequest"]["tool_input"] == {"command": "ls", "description": "Run a command"}
        assert by_name["Stop"]["stop_hook_active"] is False
        assert by_name["Stop"]["last_assistant_message"]
        assert by_name["SessionEnd"]["reason"] == "prompt_input_exit"


def test_the_log_lies_where_claude_puts_it(tmp_path: Path) -> None:
    assert place("/home/x", "/a/b.c/d", "S") == Path("/home/x/.claude/projects/-a-b-c-d/S.jsonl")
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[tool+20:ls]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        kinds = [record["type"] for record in agent.log]
        assert kinds == [
            "mode", "permission-mode", "user", "assistant", "user", "assistant", "system", "system",
        ]  # fmt: skip
        assert agent.log[2]["message"]["content"] == "[[tool+20:ls]]"
        assert agent.log[3]["message"]["content"][0]["name"] == "Bash"
        assert agent.log[4]["message"]["content"][0]["type"] == "tool_result"
        assert [record.get("parentUuid") for record in agent.log[3:]] == [r.get("uuid") for r in agent.log[2:-1]]


# the box


def test_text_and_enter_in_one_write_submit(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("one thing\r")
        assert agent.effect("submitted")["text"] == "one thing"


def test_a_bracketed_paste_keeps_its_newlines_until_enter(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("\x1b[200~one\r\ntwo\x1b[201~")
        agent.shows("❯ one\n  two")
        assert agent.effects == []
        agent.send("\r")
        assert agent.effect("submitted")["text"] == "one\ntwo"


def test_a_long_paste_is_shown_short_and_submitted_whole(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(10))
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send(f"\x1b[200~{text}\x1b[201~")
        agent.shows("❯ [Pasted text #1 +9 lines]")
        agent.send("\r")
        assert agent.effect("submitted")["text"] == text


def test_like_codex_an_enter_in_the_same_read_is_a_newline(tmp_path: Path) -> None:
    with played(tmp_path, "--paste-like-codex") as agent:
        agent.becomes("idle")
        agent.send("one thing\r")
        agent.shows("❯ one thing")
        agent.look(0.1)
        assert agent.effects == []
        agent.send("\r")
        assert agent.effect("submitted")["text"] == "one thing"


def test_enters_can_be_lost(tmp_path: Path) -> None:
    with played(tmp_path, "--swallow-enters", "2") as agent:
        agent.becomes("idle")
        agent.send("hello\r")
        agent.shows("❯ hello")
        agent.send("\r")
        agent.look(0.1)
        assert agent.effects == []
        agent.send("\r")
        assert agent.effect("submitted")["text"] == "hello"


def test_the_box_is_edited(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("wrong\x15right!\x7f")
        agent.shows("❯ right")
        agent.send("\\\rand more\n.\r")
        assert agent.effect("submitted")["text"] == "right\nand more\n."


def test_a_prompt_sent_while_working_waits(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[say+300:first]]\r")
        agent.becomes("working")
        agent.send("[[say+20:second]]\r")
        agent.shows("queued: [[say+20:second]]")
        agent.shows("● second")
        agent.becomes("idle")
        assert [effect["text"] for effect in agent.effects] == ["[[say+300:first]]", "[[say+20:second]]"]


# Escape


def test_escape_ends_the_turn_without_any_hook(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[slow+50:100]]\r")
        agent.shows("Line 3")
        agent.send(ESC)
        agent.shows("Interrupted · What should Claude do instead?")
        agent.reaches("starting", "idle", "working", "idle")
        assert agent.events == ["SessionStart", "UserPromptSubmit"]
        assert agent.log[-1]["message"]["content"][0]["text"].startswith("[Request interrupted by user")
        agent.until(lambda: agent.status == ["idle", "working", "idle"], str(agent.status))
        assert agent.screen.splitlines()[-3] == "❯"


def test_escape_before_anything_was_shown_leaves_the_prompt_in_the_box(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[think:5000]]\r")
        agent.becomes("working")
        agent.send(ESC)
        agent.becomes("idle")
        agent.until(lambda: agent.screen.count("❯ [[think:5000]]") == 2, "the draft in the box")
        agent.send("\x15hello\r")
        agent.until(lambda: agent.effects[-1].get("text") == "hello")


# permissions


@pytest.mark.parametrize(
    ("keys", "result", "row"),
    [
        ("1", "allowed", 1),
        ("3", "allowed", 3),
        ("4", "denied", 4),
        ("\r", "allowed", 1),
        (DOWN + "\r", "allowed", 2),
        (UP + "\r", "denied", 4),
        (DOWN * 4 + "\r", "allowed", 1),
        (ESC, "denied", None),
    ],
)
def test_keys_of_the_permission_dialog(tmp_path: Path, keys: str, result: str, row: int | None) -> None:
    with played(tmp_path, hooks=tuple(TURN_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[permission+20:ls]]\r")
        agent.becomes("prompt")
        agent.shows("❯ 1. Yes")
        agent.shows("Do you want to proceed?")
        agent.until(lambda: "PermissionRequest" in agent.events)
        agent.send(keys)
        effect = agent.effect("permission")
        assert (effect["result"], effect["row"], effect["dialog"]) == (result, row, 1)
        agent.reaches(*ASKED, *(("working",) if result == "allowed" else ()), "idle")
        agent.until(lambda: agent.events == (TURN_HOOKS if result == "allowed" else TURN_HOOKS[:3]), str(agent.events))
        if result == "denied":
            assert agent.log[-2]["toolUseResult"] == "User rejected tool use"
            assert agent.log[-1]["message"]["content"][0]["text"] == "[Request interrupted by user for tool use]"
        assert agent.status[:3] == ["idle", "working", "blocked:permission"]
        agent.until(lambda: agent.status[-1] == ("done" if result == "allowed" else "idle"), str(agent.status))


def test_a_digit_without_a_row_does_nothing(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[short+20:ls]]\r")
        agent.becomes("prompt")
        agent.send("79x0")
        agent.look(0.1)
        assert agent.effects[1:] == []
        agent.send("2")
        assert agent.effect("permission")["result"] == "denied"


def test_the_variant_without_numbers_takes_arrows_and_refuses_by_default(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[unnumbered+20:ls]]\r")
        agent.becomes("prompt")
        agent.shows("❯ No\n   Yes")
        agent.send("12")
        agent.look(0.1)
        assert len(agent.effects) == 1
        agent.send("\r")
        assert agent.effect("permission")["result"] == "denied"
        agent.becomes("idle")
        agent.send("[[unnumbered+20:ls]]\r")
        agent.becomes("prompt")
        agent.send(DOWN)
        agent.shows("❯ Yes")
        agent.send("\r")
        agent.until(lambda: agent.effects[-1].get("result") == "allowed")


def test_other_words_in_another_order(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[reversed+20:ls]]\r")
        agent.becomes("prompt")
        agent.shows("❯ 1. No, and tell Claude what to do")
        assert agent.records[-1]["options"] == ["No, and tell Claude what to do", "Yes", "Yes, always"]
        agent.send("1")
        assert agent.effect("permission")["result"] == "denied"


def test_the_dialog_of_a_write(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[write+20:a.txt|hello]]\r")
        agent.becomes("prompt")
        agent.shows("Do you want to create a.txt?")
        agent.send("3")
        assert agent.effect("permission")["result"] == "denied"


def test_two_permissions_in_a_row_are_two(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[twice]]\r")
        for serial in (1, 2):
            agent.until(lambda serial=serial: agent.records[-1].get("dialog") == serial)  # type: ignore[misc]
            agent.send("1")
        agent.reaches(*ASKED, "working", "prompt", "working", "idle")
        given = [entry["input"]["command"] for entry in agent.records if entry.get("state") == "prompt"]
        assert given == ["touch first.txt", "touch second.txt"]


def test_many_permissions_each_with_one_effect_also_when_refused(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[permissions:20,5]]\r")
        for serial in range(1, 21):
            agent.until(lambda serial=serial: agent.records[-1].get("dialog") == serial)  # type: ignore[misc]
            agent.send(("1", "4", ESC)[serial % 3])
        agent.becomes("idle")
        answered = [effect["dialog"] for effect in agent.effects if effect["effect"] == "permission"]
        assert answered == list(range(1, 21))
        assert {effect["result"] for effect in agent.effects[1:]} == {"allowed", "denied"}


def test_a_hook_may_answer_the_dialog(tmp_path: Path) -> None:
    decided = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}
    (tmp_path / "says-PermissionRequest").write_text(json.dumps(decided))
    with played(tmp_path, hooks=tuple(TURN_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[permission+20:ls]]\r")
        effect = agent.effect("permission")
        assert (effect["result"], effect["by"]) == ("allowed", "hook")
        agent.reaches(*ASKED, "working", "idle")


def test_the_late_notification(tmp_path: Path) -> None:
    with played(tmp_path, "--notify-after", "0.2", "--idle-after", "0.2", hooks=("Notification",)) as agent:
        agent.becomes("idle")
        agent.send("[[permission+20:ls]]\r")
        agent.until(lambda: [hook["notification_type"] for hook in agent.hooks] == ["permission_prompt"])
        agent.send("1")
        agent.until(lambda: [hook["notification_type"] for hook in agent.hooks][1:] == ["idle_prompt"])
        assert agent.states[-1] == "idle"


# questions


def test_one_question_is_over_with_one_digit(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(TURN_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[ask]]\r")
        agent.becomes("prompt")
        agent.shows("3. Type something.")
        agent.shows("4. Chat about this")
        agent.send("2")
        assert agent.effect("question")["answers"] == {"Which database should we use?": "SQLite"}
        agent.becomes("idle")
        answered = next(hook for hook in agent.hooks if hook["hook_event_name"] == "PostToolUse")
        assert answered["tool_input"]["answers"] == {"Which database should we use?": "SQLite"}
        assert "blocked:question" in agent.status


def test_several_questions_have_tabs_and_a_review_that_wants_enter(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[ask2]]\r")
        agent.becomes("prompt")
        agent.shows("←  ☐ Database  ☐ Cache  ✔ Submit  →")
        agent.send("1")
        agent.shows("Which cache?")
        agent.send("2")
        agent.shows("Review your answers")
        agent.shows("←  ☒ Database  ☒ Cache  ✔ Submit  →")
        agent.send("1")
        agent.look(0.1)
        assert len(agent.effects) == 1
        agent.send("\r")
        answers = {"Which database should we use?": "PostgreSQL", "Which cache?": "None"}
        assert agent.effect("question")["answers"] == answers
        assert agent.states.count("prompt") == 1


def test_pages_can_be_turned_and_answers_changed(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[ask2]]\r")
        agent.becomes("prompt")
        agent.send(RIGHT)
        agent.shows("Which cache?")
        agent.send("1")
        agent.shows("Review your answers")
        agent.send("\r")
        agent.look(0.1)
        assert len(agent.effects) == 1
        agent.send(LEFT * 2)
        agent.shows("Which database")
        agent.send("2" + RIGHT + "\r")
        assert list(agent.effect("question")["answers"].values()) == ["SQLite", "Redis"]


def test_an_answer_of_ones_own(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[ask]]\r")
        agent.becomes("prompt")
        agent.send("3")
        agent.shows("❯ 3. Type something.")
        agent.send("2 files")
        agent.shows("❯ 3. 2 files")
        agent.send("\r")
        assert agent.effect("question")["answers"] == {"Which database should we use?": "2 files"}


def test_escape_in_a_question_ends_the_turn(tmp_path: Path) -> None:
    with played(tmp_path, hooks=("Stop",)) as agent:
        agent.becomes("idle")
        agent.send("[[ask2]]\r")
        agent.becomes("prompt")
        agent.send(ESC)
        assert agent.effect("question")["result"] == "rejected"
        agent.reaches(*ASKED, "idle")
        assert agent.events == []


# plans


@pytest.mark.parametrize(
    ("keys", "result", "text"),
    [
        (["1"], "approved", None),
        (["2"], "approved", None),
        ([DOWN, "\r"], "approved", None),
        (["3", "use tabs", "\r"], "rejected", "use tabs"),
        (["3", "use tabs", BACKTAB], "approved", "use tabs"),
        ([ESC], "rejected", None),
    ],
)
def test_plans(tmp_path: Path, keys: list[str], result: str, text: str | None) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[plan]]\r")
        agent.becomes("prompt")
        assert agent.records[-1]["kind"] == "plan"
        agent.shows("Ready to code?")
        agent.shows("❯ 1. Yes, and use auto mode")
        for key in keys:
            agent.send(key)
            agent.look()
        effect = agent.effect("plan")
        assert (effect["result"], effect.get("text")) == (result, text)
        agent.becomes("idle")
        assert ("working" in agent.states[4:]) is (result == "approved" or text is not None)


# trust


def test_trust_is_asked_before_any_hook_and_refused_by_default(tmp_path: Path) -> None:
    with played(tmp_path, "--trust", "332", hooks=("SessionStart",)) as agent:
        agent.reaches("starting", "prompt")
        agent.shows("Accessing workspace:")
        agent.shows("❯ No, exit\n   Yes, I trust this folder")
        agent.look(0.1)
        assert agent.events == []
        agent.send("\r")
        assert agent.end() == 1
        assert agent.records[-1]["state"] == "exited"


@pytest.mark.parametrize(("version", "keys"), [("332", DOWN + "\r"), ("197", "\r"), ("197", "1")])
def test_a_trusted_folder_is_worked_in(tmp_path: Path, version: str, keys: str) -> None:
    with played(tmp_path, "--trust", version, hooks=("SessionStart",)) as agent:
        agent.reaches("starting", "prompt")
        agent.send(keys)
        agent.reaches("starting", "prompt", "starting", "idle")
        assert agent.effect("trust")["result"] == "allowed"
        assert agent.events == ["SessionStart"]


# ends and errors


def test_a_failure_ends_the_turn_with_its_own_hook(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[error]]\r")
        agent.reaches("starting", "idle", "working", "error")
        agent.shows("API Error: 529")
        assert agent.events == ["SessionStart", "UserPromptSubmit", "StopFailure"]
        assert agent.log[-1]["error"] == "server_error"
        agent.until(lambda: agent.status[-1] == "error", str(agent.status))
        agent.send("hello\r")
        agent.reaches("starting", "idle", "working", "error", "working", "idle")


def test_retries_are_work(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[retry+100:3]]\r")
        agent.shows("(attempt 2/10)")
        agent.reaches("starting", "idle", "working", "idle")
        agent.until(lambda: agent.status == ["idle", "working", "done"], str(agent.status))


@pytest.mark.parametrize(
    ("prompt", "code", "told"),
    [("[[die:3]]", 3, (3, None)), ("[[kill]]", -9, (None, 9)), ("[[kill:6]]", -6, (None, 6))],
)
def test_it_dies_and_has_said_so(tmp_path: Path, prompt: str, code: int, told: tuple[int | None, int | None]) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send(f"{prompt}\r")
        assert agent.end() == code
        assert (agent.records[-1]["code"], agent.records[-1]["signal"]) == told


def test_sigterm_is_an_orderly_end(tmp_path: Path) -> None:
    with played(tmp_path, hooks=("SessionEnd",)) as agent:
        agent.becomes("idle")
        agent.signal(signal.SIGTERM)
        assert agent.end() == 143
        agent.look()
        assert [hook["reason"] for hook in agent.hooks] == ["other"]
        assert agent.status[-1] == "clear"


def test_ctrl_c_twice_ends_it_and_once_clears_the_box(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("text")
        agent.shows("❯ text")
        agent.send("\x03")
        agent.until(lambda: "❯ text" not in agent.screen)
        agent.send("\x03")
        agent.shows("Press Ctrl-C again to exit")
        agent.send("\x03")
        assert agent.end() == 0


# hooks that answer


def test_a_stop_hook_sends_it_back_to_work_once(tmp_path: Path) -> None:
    (tmp_path / "says-Stop").write_text(json.dumps({"decision": "block", "reason": "[[say+20:Not yet.]]"}))
    with played(tmp_path, hooks=("Stop",)) as agent:
        agent.becomes("idle")
        agent.send("[[say+20:Done.]]\r")
        agent.shows("● Not yet.")
        agent.reaches("starting", "idle", "working", "idle")
        assert [hook["stop_hook_active"] for hook in agent.hooks] == [False, True]
        assert agent.hooks[-1]["last_assistant_message"] == "Not yet."


def test_what_a_start_hook_adds_is_in_the_log(tmp_path: Path) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "know this"}}
    (tmp_path / "says-SessionStart").write_text(json.dumps(said))
    with played(tmp_path, hooks=("SessionStart",)) as agent:
        agent.becomes("idle")
        assert [r["attachment"]["content"] for r in agent.log if r["type"] == "attachment"] == ["know this"]


# other agents


def test_another_agent_inside_a_turn(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[subagent+200:200]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        inner = [hook["hook_event_name"] for hook in agent.hooks if "agent_id" in hook]
        assert inner == ["SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"]
        assert agent.events[-2:] == ["PostToolUse", "Stop"]


def test_another_agent_in_the_background_reports_in_a_turn_of_its_own(tmp_path: Path) -> None:
    with played(tmp_path, hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[background:1500]]\r")
        agent.reaches("starting", "idle", "working", "idle", "working", "idle")
        stop = next(hook for hook in agent.hooks if hook["hook_event_name"] == "Stop")
        assert stop["background_tasks"][0]["status"] == "running"
        assert [effect["by"] for effect in agent.effects] == ["person", "agent"]
        assert sorted(agent.events[-3:]) == ["Stop", "SubagentStop", "UserPromptSubmit"]


# faults


@pytest.mark.parametrize("lost", ["Stop", "PreToolUse:Bash", "UserPromptSubmit"])
def test_one_hook_can_be_lost(tmp_path: Path, lost: str) -> None:
    with played(tmp_path, "--lose-hook", lost, hooks=tuple(TURN_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[tool+20:ls]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        whole = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
        assert agent.events == [event for event in whole if event != lost.partition(":")[0]]


def test_hooks_can_overtake_each_other_and_none_is_waited_for(tmp_path: Path) -> None:
    with played(tmp_path, "--delay-hooks", "400", "--seed", "3", hooks=tuple(TURN_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[tools+5:4]]\r")
        agent.becomes("idle")
        agent.until(lambda: len(agent.events) == 10, str(agent.events))
        whole = ["UserPromptSubmit", *["PreToolUse", "PostToolUse"] * 4, "Stop"]
        assert sorted(agent.events) == sorted(whole)
        assert agent.events != whole


def test_no_hooks_and_no_log(tmp_path: Path) -> None:
    with played(tmp_path, "--no-hooks", "--no-log", hooks=tuple(ALL_HOOKS)) as agent:
        agent.becomes("idle")
        agent.send("[[tool+20:ls]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        assert agent.events == []
        assert not agent.log_path.exists()


def test_lines_of_the_log_can_come_in_halves(tmp_path: Path) -> None:
    with played(tmp_path, "--split-log") as agent:
        agent.becomes("idle")
        agent.until(lambda: agent.log_path.exists() and not agent.log_path.read_bytes().endswith(b"\n"))
        agent.until(lambda: agent.log_path.read_bytes().endswith(b"\n"))
        agent.send("hello\r")
        agent.until(lambda: agent.log_path.read_bytes().count(b"\n") == 6)
        assert [record["type"] for record in agent.log][-4:] == ["user", "assistant", "system", "system"]


def test_lines_of_the_log_can_come_late(tmp_path: Path) -> None:
    with played(tmp_path, "--delay-log", "500") as agent:
        agent.becomes("idle")
        agent.send("[[say+20:Hello]]\r")
        agent.reaches("starting", "idle", "working", "idle")
        assert not agent.log_path.exists()
        agent.until(lambda: agent.log_path.exists() and len(agent.log) == 6)


def test_it_can_hang_in_a_turn_and_in_a_dialog(tmp_path: Path) -> None:
    with played(tmp_path, "--hang", "prompt:0.6") as agent:
        agent.becomes("idle")
        agent.send("[[hang:0.6]] [[permission+20:ls]]\r")
        agent.becomes("working")
        time.sleep(0.4)
        agent.look()
        before = len(agent.output)
        time.sleep(0.3)
        agent.look()
        assert len(agent.output) == before
        agent.becomes("prompt")
        drawn = agent.records[-1]["at"]
        agent.send("1")
        assert agent.effect("permission")["at"] - drawn >= 550


def test_a_stopped_process_goes_on_where_it_was(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.signal(signal.SIGSTOP)
        agent.send("hello\r")
        agent.look(0.2)
        assert agent.states == ["starting", "idle"]
        agent.signal(signal.SIGCONT)
        agent.reaches("starting", "idle", "working", "idle")


def test_garbage_is_thrown_and_wiped_away(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.becomes("idle")
        agent.send("[[garbage+100:5000]]\r")
        agent.shows("● Excuse me.")
        agent.reaches("starting", "idle", "working", "idle")
        agent.shows("? for shortcuts")
        assert len(agent.output) > 5000


def test_it_can_draw_while_it_is_idle(tmp_path: Path) -> None:
    with played(tmp_path, "--chatter", "50") as agent:
        agent.becomes("idle")
        agent.shows("tip 3")
        assert agent.states == ["starting", "idle"]


def test_a_new_size_is_drawn(tmp_path: Path) -> None:
    with played(tmp_path) as agent:
        agent.shows("? for shortcuts")
        before = len(agent.output)
        agent.resize(60, 20)
        agent.until(lambda: ("─" * 60).encode() in agent.output[before:])
        assert ("─" * 61).encode() not in agent.output[before:]


def test_scenarios_by_name_and_by_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"say": "From a file.", "ms": 10}]))
    with played(tmp_path / "a", "--scenario", str(script)) as agent:
        agent.becomes("idle")
        agent.send("go\r")
        agent.shows("● From a file.")
    with played(tmp_path / "b", "--scenario", "say:By name.") as agent:
        agent.becomes("idle")
        agent.send("go\r")
        agent.shows("● By name.")


def test_it_says_its_version_and_ignores_flags_it_does_not_know() -> None:
    line = [sys.executable, str(AGENT), "--unheard-of", "--version"]
    assert subprocess.check_output(line, text=True) == "2.1.332 (Claude Code)\n"
