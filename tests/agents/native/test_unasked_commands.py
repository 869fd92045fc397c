"""What runs unasked runs nothing of the folder's own, however the folder was prepared, or is changed meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.agents.native.permissions import HARDENED, Reason, classify
from dragoman.hub.events import DecisionOpened, ToolEnded
from dragoman.hub.session import Session

from .native_rig import NativeHub, answered, asked, native_hub, of, script


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with one commit; ``tmp_path`` itself is out of scope."""
    return repository(tmp_path / "work")


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file").write_text(f"said in {folder.name}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


async def ran(hub: NativeHub, session: Session, *commands: str) -> list[ToolEnded]:
    """Run them in one turn, in parallel; nobody may be asked."""
    calls = "\n".join(f"call bash {json.dumps({'command': command})}" for command in commands)
    facts = await hub.turn(session, script(calls))
    assert of(facts, DecisionOpened) == []
    return of(facts, ToolEnded)


def trap(place: Path) -> str:
    """A program that leaves a trace, as git's settings name one."""
    return f'"touch {place}; false"'


LOOKS = ("git status", "git diff", "git log -p --all", "git branch -a", "git diff --stat HEAD")


async def test_a_repository_that_the_index_names_runs_nothing(work: Path, tmp_path: Path) -> None:
    """Git starts itself in each of them, and would start their file system monitors and filters."""
    inner = repository(work / "inner")
    git(work, "update-index", "--add", "--cacheinfo", "160000", git(inner, "rev-parse", "HEAD"), "inner")
    git(work, "commit", "-qm", "with a repository in it")
    with (inner / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {trap(tmp_path / 'ran')}\n")
        config.write(f'[filter "x"]\n\tclean = {trap(tmp_path / "ran")}\n')
    (inner / ".gitattributes").write_text("* filter=x\n")
    (inner / "file").write_text("SAID in inner\n")  # as long as it was: only its content tells
    async with native_hub(work) as hub:
        ended = await ran(hub, await hub.session(), *LOOKS)
    assert [end.status for end in ended] == ["ok"] * len(LOOKS)
    assert not (tmp_path / "ran").exists()


async def test_the_users_own_settings_start_nothing_of_the_folder(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative name among them is the folder's program."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\thooksPath = hooks\n\tfsmonitor = ./hooks/monitor\n")
    (work / "hooks").mkdir()
    for name in ("monitor", "post-index-change"):
        (work / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (work / "hooks" / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    os.utime(work / "file", (1, 1))  # so that git writes its index anew, after which it would run a hook
    async with native_hub(work) as hub:
        session = await hub.session()
        for command in sorted(LOOKS):
            await ran(hub, session, command)
    assert not (tmp_path / "ran").exists()


async def test_a_look_at_the_status_changes_nothing_in_the_repository(work: Path) -> None:
    os.utime(work / "file", (1, 1))
    index = work / ".git/index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    async with native_hub(work) as hub:
        await ran(hub, await hub.session(), "git status")
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


@pytest.mark.parametrize("where", [".gitconfig", ".config/git/config", "linked", "included", "included twice"])
def test_settings_of_the_user_that_the_agent_may_write_make_git_a_question(
    work: Path, tmp_path: Path, where: str
) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    assert classify("git status", work, [work], env).approved
    if where == "linked":
        (home / ".gitconfig").symlink_to(work / "dotfiles")
    elif where.startswith("included"):
        path = work / "dotfiles"
        if where == "included twice":
            (home / "more").write_text(f"[include]\n\tpath = {path}\n")
            path = Path("more")
        (home / ".gitconfig").write_text(f'[user]\n\tname = x\n[includeIf "gitdir:/x/"]\n\tpath = "{path}"\n')
    else:
        env["HOME"] = str(work)
    assert classify("git status", work, [work], env).reason is Reason.REVIEW
    assert classify("ls", work, [work], env).approved


@pytest.mark.parametrize("part", ["objects", "refs/heads", "index", "packed-refs", "objects/pack", "info", "config"])
def test_a_repository_that_borrows_from_another_is_asked_about(work: Path, tmp_path: Path, part: str) -> None:
    """Its history would be that of a repository out of scope."""
    assert classify("git log -p --all", work, [work]).approved
    secret = repository(tmp_path / "secret")
    git(secret, "pack-refs", "--all")
    mine = work / ".git" / part
    shutil.rmtree(mine) if mine.is_dir() else mine.unlink(missing_ok=True)
    mine.symlink_to(secret / ".git" / part)
    assert classify("git log -p --all", work, [work]).reason is Reason.REVIEW


async def test_what_comes_to_look_like_a_repository_meanwhile_runs_nothing(work: Path, tmp_path: Path) -> None:
    """One call completes a bare repository in the working folder while another one asks git: git must pass it over."""
    folder = work / "sub"
    git(work, "init", "-q", "--bare", "sub")
    (folder / "file").touch()
    with (folder / "config").open("a") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {trap(tmp_path / 'ran')}\n")
    (folder / "HEAD").rename(folder / "not yet")
    plain = classify("git status", folder, [work])
    assert plain.approved
    (folder / "not yet").rename(folder / "HEAD")
    assert not classify("git status", folder, [work]).approved
    env = {**os.environ, **HARDENED}
    said = subprocess.run(["git", "status"], cwd=folder, env=env, check=False, capture_output=True, text=True)
    assert said.returncode != 0
    assert "bare" in said.stderr
    assert not (tmp_path / "ran").exists()


NAMES = ("ls", "git", "which", "bash", "sh")


def own_programs(folder: Path, trace: Path) -> Path:
    places = folder / "bin"
    places.mkdir()
    for name in (*NAMES, "node"):
        (places / name).write_text(f"#!/bin/sh\ntouch {trace}\n")
        (places / name).chmod(0o755)
    return places


async def test_programs_of_the_folder_do_not_stand_in_for_the_systems(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an activated virtual environment: the folder's own `bin` comes first on the PATH."""
    places = own_programs(work, tmp_path / "ran")
    monkeypatch.setenv("PATH", f"{places}:{os.environ['PATH']}")
    async with native_hub(work) as hub:
        session = await hub.session()
        await ran(hub, session, "ls", "git status", "which ls", "echo x", "pwd")
        assert not (tmp_path / "ran").exists()
        await hub.submit(session, script('call bash {"command":"ls > names"}'))
        await answered(session, 1)
    assert (tmp_path / "ran").exists(), "what a person permits finds the programs as the person does"


def test_a_program_that_only_the_folder_has_is_asked_about(work: Path, tmp_path: Path) -> None:
    places = own_programs(work, tmp_path / "ran")
    empty, linked = tmp_path / "empty", tmp_path / "linked"
    for folder in (empty, linked):
        folder.mkdir()
    (linked / "ls").symlink_to(places / "ls")
    for path in (f"{places}:{empty}", f"{linked}", f"{linked}:{places}", f"{work}/later:{empty}"):
        for command in ("ls", "git status", "which x", "node --version", "bun --version"):
            if path == str(linked) and command != "ls":
                continue
            assert classify(command, work, [work], {"PATH": path, "HOME": "/"}).reason is Reason.REVIEW
        assert classify("echo x", work, [work], {"PATH": path, "HOME": "/"}).approved
        assert classify("pwd", work, [work], {"PATH": path, "HOME": "/"}).approved


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", ["é", "aé", "aéb", os.fsdecode(b"\xff"), os.fsdecode(b"a\xe9"), "e\u0301", "日本"])
async def test_a_pattern_finds_no_way_out_in_any_locale(
    tmp_path: Path, name: str, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many `?` a letter beyond ASCII takes is the locale's affair: what bash finds must have been judged."""
    monkeypatch.setenv("LC_ALL", locale)
    (tmp_path / "secret").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / name).symlink_to(tmp_path / "secret")
    (tmp_path / "secret" / "seen").touch()
    async with native_hub(tmp_path / "work") as hub:
        session = await hub.session(mode="plan")  # in which nobody is asked: what is not harmless is refused
        commands = [f"ls {'?' * count}" for count in range(1, 9)]
        ended = await ran(hub, session, *commands, *(f"{command}*" for command in commands))
    assert not [end for end in ended if end.status == "ok" and "seen" in json.dumps(end.output)]
    assert [end for end in ended if end.status == "denied"], "the link was met at all"


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/pre-commit", "inner/.git/config", ".gitmodules", ".GIT/x"])
async def test_what_git_takes_orders_from_is_asked_about_like_a_command(work: Path, path: str) -> None:
    """Else an edit that nobody was asked about decides what the next `git status` runs."""
    call = script(f"call write {json.dumps({'filePath': path, 'content': '[core]'})}")
    before = {each: each.read_bytes() for each in work.rglob("*") if each.is_file()}
    async with native_hub(work) as hub:
        session = await hub.session(mode="accept_edits")
        await hub.submit(session, call)
        question = await asked(session)
        assert (question.kind, question.dangerous) == ("permission", True)
        await answered(session, len(question.options))
        assert {each: each.read_bytes() for each in work.rglob("*") if each.is_file()} == before
        await hub.submit(session, call)
        await answered(session, 2)
        assert (work / path).read_text() == "[core]"
        assert of(await hub.turn(session, call), DecisionOpened) == [], "that file was permitted for the session"
        await hub.submit(session, script('call write {"filePath":"x/.git/other","content":"x"}'))
        await answered(session, 3)
        assert not (work / "x").exists()
        assert of(await hub.turn(session, script('call write {"filePath":"x","content":"x"}')), DecisionOpened) == []


async def test_a_link_is_no_way_around_that(work: Path) -> None:
    (work / "settings").symlink_to(".git")
    async with native_hub(work) as hub:
        session = await hub.session(mode="accept_edits")
        await hub.submit(session, script('call write {"filePath":"settings/config","content":"x"}'))
        assert (await asked(session)).dangerous
        await answered(session, 3)
