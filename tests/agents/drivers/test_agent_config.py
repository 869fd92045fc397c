"""Settings of an agent that somebody gives: what can be used is joined with ours, all else is refused in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.terminal.drivers.agent_config import (
    CONFIG_BYTES,
    CONFIG_DEPTH,
    AgentConfig,
    agent_config,
    merged,
    with_hooks,
)
from dragoman.agents.terminal.drivers.claude import HOOKS, Claude
from dragoman.agents.terminal.drivers.gemini import Gemini
from dragoman.agents.terminal.drivers.profile import LaunchContext
from dragoman.agents.terminal.drivers.table import check_driver_options
from dragoman.hub.errors import InvalidRequest

ENTRY = {"matcher": "", "hooks": []}


def nested(depth: int) -> Any:
    """Objects in one another, ``depth`` of them."""
    value: Any = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


WRONG: dict[str, dict[str, Any]] = {
    "an unknown word": {"setings": {}},
    "settings: a list": {"settings": []},
    "settings: text": {"settings": "model"},
    "mcp: a list": {"mcp": []},
    "a server: text": {"mcp": {"one": "npx"}},
    "hooks: a list": {"settings": {"hooks": [1]}},
    "hooks of an event: an object": {"settings": {"hooks": {"Stop": {}}}},
    "a hook: a number": {"settings": {"hooks": {"Stop": [1]}}},
    "permissions: a list": {"settings": {"permissions": ["Bash"]}},
    "allow: text": {"settings": {"permissions": {"allow": "Bash"}}},
    "allow: numbers": {"settings": {"permissions": {"allow": [1]}}},
    "half a character": {"settings": {"model": "\ud800"}},
    "half a character as a name": {"settings": {"\ud800": 1}},
    "too deep": {"settings": nested(CONFIG_DEPTH)},
    "much too deep": {"settings": nested(100_000)},
    "huge": {"settings": {"model": "x" * CONFIG_BYTES}},
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_what_has_not_its_shape_is_refused_in_one_line(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        agent_config(given, HOOKS)
    said = str(refusal.value)
    assert said.startswith("agent_config")
    assert len(said.splitlines()) == 1
    assert len(said) < 300


def test_what_can_be_used_passes_as_it_is() -> None:
    settings = {
        "hooks": {"Stop": [ENTRY], "PreToolUse": None, "SomethingNew": {"any": 1}},
        "permissions": {"allow": ["Bash"], "deny": None, "defaultMode": "plan"},
        "model": "x\0ü",
        "deep": nested(CONFIG_DEPTH - 2),
    }
    given = {"settings": settings, "mcp": {"one": {"command": "npx"}}}
    assert agent_config(given, HOOKS) == AgentConfig(settings, {"one": {"command": "npx"}})
    assert agent_config({"settings": None, "mcp": None}, HOOKS) == AgentConfig()


def test_hooks_of_two_settings_are_joined() -> None:
    first = {"hooks": {"Stop": ["a"], "enabled": True, "Start": ["s"]}, "model": "one"}
    second = {"hooks": {"Stop": ["b"], "enabled": False, "Start": None}, "model": "two"}
    assert merged(first, second) == {
        "hooks": {"Stop": ["a", "b"], "enabled": False, "Start": ["s"]},
        "model": "two",
    }
    assert merged({"hooks": None}, {"hooks": None}) == {"hooks": None}


def test_ours_stand_behind_theirs() -> None:
    given = {"hooks": {"Stop": [ENTRY], "Start": None}}
    assert with_hooks(given, ("Stop", "Start"), lambda event: {"ours": event}) == {
        "hooks": {"Stop": [ENTRY, {"ours": "Stop"}], "Start": [{"ours": "Start"}]}
    }


# The settings that the command itself gives, and those that the machine has


def context(folder: Path, *command: str, **environment: str) -> LaunchContext:
    return LaunchContext(
        folder=folder,
        cwd=str(folder),
        command=("claude", *command),
        environment={"HOME": str(folder), **environment},
        agent_session="fresh",
        hook_command=lambda event: f"post {event}",
    )


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def holding(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "binary": holding(b"\x7fELF\0\xff\xfe"),
    "not UTF-8": holding(b'{"model": "\xff"}'),
    "half a character": holding(b'{"model": "\\ud800"}'),
    "UTF-16": holding('{"model": 1}'.encode("utf-16")),
    "empty": holding(b""),
    "cut": holding(b'{"model":'),
    "a list": holding(b"[1]"),
    "wrong hooks": holding(b'{"hooks": [1]}'),
    "wrong permissions": holding(b'{"permissions": {"allow": {}}}'),
    "too deep": holding(json.dumps(nested(CONFIG_DEPTH + 1)).encode()),
    "much too deep": holding(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "huge": holding(b'{"a":"' + b"x" * CONFIG_BYTES + b'"}'),
    "a folder": a_folder,
    "a pipe that nobody writes": a_pipe,
}


@pytest.mark.parametrize("made", UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize("where", ["the command", "the machine"])
def test_a_settings_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, made: Callable[[Path], object], where: str
) -> None:
    made(tmp_path / "given")
    variable = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "given")}
    given_by = {
        "the command": (Claude(), context(tmp_path, "--settings", "given")),
        "the machine": (Gemini(), context(tmp_path, **variable)),
    }
    profile, launched = given_by[where]
    with pytest.raises(InvalidRequest) as refusal:
        profile.launch(launched)
    said = str(refusal.value)
    assert "given" in said
    assert len(said.splitlines()) == 1
    assert len(said) < 400


@pytest.mark.parametrize(
    "given",
    [
        '{"hooks": [1]}',
        '{"permissions": 1}',
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a": "\\ud800"}',
        '{"a": "\udcff"}',
        "{",
        "no-such-file",
        "x" * 10_000,
        "a\0b",
    ],
    ids=["hooks", "permissions", "deep", "half", "bytes", "cut", "missing", "long", "NUL"],
)
def test_settings_on_the_command_line_that_cannot_be_used(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidRequest, match=r"\A--settings .{1,600}\Z"):
        Claude().launch(context(tmp_path, f"--settings={given}"))


def test_a_settings_file_with_the_mark_of_an_editor(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b'\xef\xbb\xbf{"model": "x"}')
    launch = Claude().launch(context(tmp_path, "--settings", "given"))
    assert json.loads(Path(launch.arguments[-1]).read_text())["model"] == "x"


# What is resumed


UNUSABLE_TRANSCRIPTS = {
    "not UTF-8": holding(b'{"sessionId": "\xff"}\n'),
    "half a character": holding(b'{"sessionId": "\\ud800"}\n'),
    "NUL": holding(b'{"sessionId": "a\\u0000"}\n' + b"\0" * 100),
    "deep": holding(b"[" * 100_000 + b"\n"),
    "empty": holding(b""),
    "a folder": a_folder,
    "a pipe that nobody writes": a_pipe,
}


@pytest.mark.parametrize("made", UNUSABLE_TRANSCRIPTS.values(), ids=UNUSABLE_TRANSCRIPTS)
def test_a_transcript_that_cannot_be_resumed(tmp_path: Path, made: Callable[[Path], object]) -> None:
    path = tmp_path / "given.jsonl"
    made(path)
    with pytest.raises(InvalidRequest, match=r"\A'.*given\.jsonl' .+\Z"):
        Claude().launch(resuming(tmp_path, str(path)))


@pytest.mark.parametrize("hint", ["a\0b.jsonl", "a\0b", "\udcff.jsonl", "x" * 10_000 + ".jsonl"])
def test_a_hint_that_is_no_path(tmp_path: Path, hint: str) -> None:
    with pytest.raises(InvalidRequest):
        Claude().launch(resuming(tmp_path, hint))


def test_a_damaged_line_does_not_hide_a_transcripts_name(tmp_path: Path) -> None:
    path = tmp_path / "given.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n[1]\n' + b"[" * 100_000 + b'\n{"sessionId": "abc"}\n')
    assert Claude().launch(resuming(tmp_path, str(path))).arguments[:2] == ("--resume", "abc")


def transcript(folder: Path, project: str, session: str, inside: str = "") -> Path:
    """One of claude's, in a project's folder."""
    path = folder / ".claude" / "projects" / project / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"type": "summary"}}\n{{"sessionId": "{inside or session}"}}\n')
    return path


ID, OTHER = "3f7c2a10-9a51-4a0e-8b2e-3a5e0f3b1c2d", "aaaaaaaa-9a51-4a0e-8b2e-3a5e0f3b1c2d"


@pytest.mark.parametrize("hint", [ID, "home-me-code", "/home/me/code", "/home/me/code/below", "code"])
def test_a_session_is_found_by_its_id_or_by_words_of_its_folder(tmp_path: Path, hint: str) -> None:
    """Its id is what ``start`` says and what its transcript is called."""
    transcript(tmp_path, "-home-me-else", OTHER)
    transcript(tmp_path, "-home-me-code", ID)
    os.utime(transcript(tmp_path, "-", OTHER), (2e9, 2e9))
    assert Claude().launch(resuming(tmp_path, hint)).arguments[:2] == ("--resume", ID)


def test_an_id_goes_before_words_and_the_newest_before_the_rest(tmp_path: Path) -> None:
    os.utime(transcript(tmp_path, f"-work-{ID}", OTHER), (2e9, 2e9))
    transcript(tmp_path, "-home-me-code", ID)
    assert Claude().launch(resuming(tmp_path, ID)).arguments[1] == ID
    transcript(tmp_path, "-home-me-code", "older")
    os.utime(transcript(tmp_path, "-home-me-code", "newer"), (2e9, 2e9))
    assert Claude().launch(resuming(tmp_path, "me-code")).arguments[1] == "newer"


@pytest.mark.parametrize("hint", [OTHER, "no-such-folder", "**", "//", "../x", f"{ID}*", "[a]"])
def test_a_hint_that_nothing_matches(tmp_path: Path, hint: str) -> None:
    transcript(tmp_path, "-home-me-code", ID)
    transcript(tmp_path, "-", "root")
    with pytest.raises(InvalidRequest, match="its id, words of its project folder, or the path"):
        Claude().launch(resuming(tmp_path, hint))


def resuming(folder: Path, hint: str) -> LaunchContext:
    plain = context(folder)
    return LaunchContext(**{name: getattr(plain, name) for name in plain.__struct_fields__} | {"resume": hint})


@pytest.mark.parametrize("hint", ["", "  "])
def test_a_hint_that_says_nothing_resumes_nothing(hint: str) -> None:
    with pytest.raises(InvalidRequest, match="names no session"):
        check_driver_options("claude", groom="auto", config={}, resume=hint)
