"""A folder's files may be anybody's: nothing that they say is run, nothing makes a look endless, nothing is changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.services.git import FolderStatus
from tests.services.git.repositories import Eye, Person, counts, write

NONE = FolderStatus(last_checked=123)

PATIENCE = 1.0


@pytest.fixture
def quick(person: Person, tmp_path: Path) -> Eye:
    """An eye that loses patience soon."""
    folder = tmp_path / "quick"
    folder.mkdir()
    return Eye(person, folder, patience=PATIENCE)


class Trap:
    """A program that leaves a mark when it is run. ``fires`` shows that it would be, by git itself."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "mark"
        self.program = folder / "trap"
        self.program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.mark}'\ncat 2>/dev/null\nexit 0\n")
        self.program.chmod(0o755)

    @property
    def sprung(self) -> str:
        return self.mark.read_text() if self.mark.exists() else ""


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


Setter = Callable[[Person, Path, Trap], object]


def config(*names: str) -> Setter:
    def setter(person: Person, folder: Path, trap: Trap) -> None:
        for name in names:
            person.git(folder, "config", name, str(trap.program))

    return setter


def attributes(line: str, *names: str) -> Setter:
    def setter(person: Person, folder: Path, trap: Trap) -> None:
        config(*names)(person, folder, trap)
        write(folder / ".gitattributes", line + "\n")

    return setter


def own_attributes(person: Person, folder: Path, trap: Trap) -> None:
    config("filter.x.clean", "filter.x.smudge", "filter.x.process")(person, folder, trap)
    write(folder / ".git" / "info" / "attributes", "* filter=x diff=x\n")


def included(person: Person, folder: Path, trap: Trap) -> None:
    write(folder / "more", f"[core]\n\tfsmonitor = {trap.program}\n")
    person.git(folder, "config", "include.path", "../more")
    person.git(folder, "config", f"includeIf.gitdir:{folder}/.path", "../more")


def of_the_working_tree(person: Person, folder: Path, trap: Trap) -> None:
    person.git(folder, "config", "extensions.worktreeConfig", "true")
    write(folder / ".git" / "config.worktree", f"[core]\n\tfsmonitor = {trap.program}\n")


def hooks(person: Person, folder: Path, trap: Trap) -> None:
    names = (
        "post-index-change",
        "fsmonitor-watchman",
        "post-checkout",
        "pre-commit",
        "reference-transaction",
        "pre-auto-gc",
    )
    for name in names:
        (folder / ".git" / "hooks").mkdir(exist_ok=True)
        (folder / ".git" / "hooks" / name).symlink_to(trap.program)


def hooks_elsewhere(person: Person, folder: Path, trap: Trap) -> None:
    (folder / "h").mkdir()
    (folder / "h" / "post-index-change").symlink_to(trap.program)
    person.git(folder, "config", "core.hooksPath", "h")


def lacking(person: Person, folder: Path, trap: Trap) -> None:
    """A partial clone, whose missing objects a helper would fetch."""
    person.git(folder, "config", "core.repositoryFormatVersion", "1")
    person.git(folder, "config", "extensions.partialClone", "origin")
    person.git(folder, "config", "remote.origin.promisor", "true")
    person.git(folder, "config", "remote.origin.url", f"ext::{trap.program}")
    person.git(folder, "config", "remote.origin.uploadpack", str(trap.program))
    person.git(folder, "config", "protocol.ext.allow", "always")
    tree = person.git(folder, "rev-parse", "HEAD^{tree}").strip()
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()


def in_a_submodule(person: Person, folder: Path, trap: Trap) -> None:
    inner = person.repository(folder.parent / "inner")
    person.git(folder, "submodule", "-q", "add", str(inner), "sub")
    person.commit(folder, "sub")
    person.git(folder / "sub", "config", "core.fsmonitor", str(trap.program))
    person.git(folder / "sub", "config", "filter.x.clean", str(trap.program))
    write(folder / "sub" / ".gitattributes", "* filter=x\n")
    write(folder / "sub" / "a.txt", "changed\n")
    person.git(folder, "config", "diff.submodule", "log")
    person.git(folder, "config", "status.submoduleSummary", "true")
    person.git(folder, "config", "submodule.recurse", "true")


TRAPS: dict[str, Setter] = {
    "file system monitor": config("core.fsmonitor"),
    "hooks": hooks,
    "hooks elsewhere": hooks_elsewhere,
    "filter": attributes("* filter=x", "filter.x.clean", "filter.x.smudge"),
    "filter that stays": attributes("* filter=x", "filter.x.process"),
    "filter that must be": attributes("* filter=x", "filter.x.clean", "filter.x.required"),
    "filter by the repository's own attributes": own_attributes,
    "diff": attributes("* diff=x", "diff.x.command", "diff.external"),
    "text of a diff": attributes("* diff=x", "diff.x.textconv"),
    "merge": attributes("* merge=x", "merge.x.driver"),
    "pager": config("core.pager", "pager.status", "pager.log", "pager.diff", "pager.config"),
    "editor": config("core.editor", "sequence.editor"),
    "ssh and askpass": config("core.sshCommand", "core.askPass", "credential.helper", "core.gitProxy"),
    "signatures": config("gpg.program", "gpg.ssh.program", "log.showSignature"),
    "alternates": config("core.alternateRefsCommand"),
    "aliases": config("alias.status", "alias.log", "alias.diff", "alias.config"),
    "untracked helper": config("uploadpack.packObjectsHook", "core.untrackedCache", "interactive.diffFilter"),
    "included": included,
    "of the working tree": of_the_working_tree,
    "what a partial clone lacks": lacking,
    "a submodule's": in_a_submodule,
}


@pytest.mark.parametrize("setter", TRAPS.values(), ids=TRAPS)
def test_no_program_that_a_repository_names_is_run(
    person: Person, eye: Eye, tmp_path: Path, trap: Trap, setter: Setter
) -> None:
    folder = person.repository(tmp_path / "r")
    setter(person, folder, trap)
    write(folder / "a.txt", "changed\n")
    trap.mark.unlink(missing_ok=True)  # what setting it has sprung

    first = eye.look(folder)
    eye.look(folder, first)

    assert trap.sprung == ""
    assert first.status.is_repo


def test_the_traps_are_traps(person: Person, tmp_path: Path, trap: Trap) -> None:
    """Git itself would run them: otherwise the tests above would show nothing."""
    folder = person.repository(tmp_path / "r")
    TRAPS["file system monitor"](person, folder, trap)
    person.git(folder, "status", status=-1)
    assert "trap" in trap.sprung

    trap.mark.unlink()
    other = person.repository(tmp_path / "other")
    TRAPS["filter"](person, other, trap)
    write(other / "a.txt", "same size\n"[:8])
    person.git(other, "diff", status=-1)
    assert "trap" in trap.sprung


def test_what_the_person_has_set_is_run_no_more_than_the_repositorys(
    person: Person, tmp_path: Path, trap: Trap
) -> None:
    for name in ("core.fsmonitor", "core.pager", "diff.external", "filter.x.clean"):
        person.git(tmp_path, "config", "--global", name, str(trap.program))
    folder = person.repository(tmp_path / "r")
    write(folder / ".gitattributes", "* filter=x\n")
    write(folder / "a.txt", "changed\n")
    trap.mark.unlink(missing_ok=True)

    assert Eye(person, tmp_path).sees(folder).unstaged.modified == 1
    assert trap.sprung == ""


def test_what_the_servers_environment_says_of_git_is_not_heeded(person: Person, tmp_path: Path, trap: Trap) -> None:
    folder, other = person.repository(tmp_path / "r"), person.repository(tmp_path / "other")
    write(folder / "a.txt", "changed\n")
    person.environment |= {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path),
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_EXTERNAL_DIFF": str(trap.program),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap.program),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{trap.program}'",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_EXEC_PATH": str(tmp_path),
    }
    assert counts(Eye(person, tmp_path).sees(folder)) == {"unstaged.modified": 1, "total": 1}
    assert trap.sprung == ""
    assert not (tmp_path / "trace").exists()


def test_another_working_tree_that_a_repository_names_is_not_looked_at(
    person: Person, eye: Eye, tmp_path: Path
) -> None:
    folder = person.repository(tmp_path / "r")
    write(tmp_path / "secret" / "a.txt", "one\ntwo\nthree\n")
    person.git(folder, "config", "core.worktree", str(tmp_path / "secret"))

    assert counts(eye.sees(folder)) == {}


@pytest.mark.parametrize(
    "written",
    [
        b"\xff\xfe",
        b"[core\n",
        b"[core]\n\tbare = maybe\n",
        b"\0" * 100,
        b"[a]\n" * 400_000,
        b'[branch "x\\ny"]\n\tremote = z',
    ],
    ids=["no text", "no section", "no value", "nuls", "large", "odd name"],
)
def test_a_configuration_that_is_none_harms_nothing(person: Person, eye: Eye, tmp_path: Path, written: bytes) -> None:
    folder = person.repository(tmp_path / "r")
    (folder / ".git" / "config").write_bytes(written)
    seen = eye.look(folder)
    assert seen.status.is_repo


# What is no file, or no end


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "name", [".git/HEAD", ".git/config", ".git/commondir", ".git/config.worktree", ".git/info/sparse-checkout"]
)
def test_a_pipe_in_place_of_a_small_file_is_waited_for_by_nobody(
    person: Person, quick: Eye, tmp_path: Path, name: str
) -> None:
    folder = person.repository(tmp_path / "r")
    fifo(folder / name)
    began = time.monotonic()
    quick.look(folder)
    assert time.monotonic() - began < 10 * PATIENCE


@pytest.mark.parametrize(
    "name",
    [".git/index", ".git/packed-refs", ".git/refs/heads/main", ".gitignore", ".gitattributes", ".git/info/exclude"],
)
def test_a_pipe_in_place_of_what_git_reads_costs_no_more_than_its_patience(
    person: Person, quick: Eye, tmp_path: Path, name: str
) -> None:
    folder = person.repository(tmp_path / "r")
    fifo(folder / name)
    began = time.monotonic()
    seen = quick.look(folder)
    assert time.monotonic() - began < 20 * PATIENCE
    assert seen.status.is_repo


def test_a_pipe_as_repository_is_none(quick: Eye, tmp_path: Path) -> None:
    fifo(tmp_path / ".git")
    assert quick.look(tmp_path).status == NONE


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"gitdir: ",
        b"gitdir: .",
        b"gitdir: .git",
        b"gitdir: ../x/.git",
        b"gitdir: /",
        b"gitdir: /proc/self",
        b"gitdir: /dev/zero",
        b"gitdir: nul\0byte",
        b"gitdir: " + b"x" * 100_000,
        b"gitdir: " + b"../" * 2000,
        b"gitdir: \xff\xfe",
        b"x" * 1_000_000,
        b"gitdir: a\nb",
    ],
    ids=range(14),
)
def test_a_line_that_leads_nowhere_is_no_repository(quick: Eye, tmp_path: Path, line: bytes) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / ".git").write_bytes(line)
    assert quick.look(folder).status == NONE


def test_links_and_lines_that_lead_back_have_an_end(person: Person, quick: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    (folder / ".git" / "commondir").write_text("../.git")
    assert quick.look(folder).status.is_repo
    (folder / ".git" / "commondir").write_text("/proc/self/root")
    quick.look(folder)
    (folder / ".git" / "commondir").unlink()
    (folder / ".git" / "HEAD").unlink()
    (folder / ".git" / "HEAD").symlink_to("HEAD")
    quick.look(folder)
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / ".git").symlink_to(".git")
    assert quick.look(loop).status == NONE


@pytest.mark.parametrize(
    "head", [b"", b"garbage", b"ref: ", b"ref: refs/heads/../../config", b"ref: HEAD", b"\0" * 50, b"\xff" * 9000]
)
def test_a_head_that_is_none_harms_nothing(person: Person, quick: Eye, tmp_path: Path, head: bytes) -> None:
    folder = person.repository(tmp_path / "r")
    (folder / ".git" / "HEAD").write_bytes(head)
    quick.look(folder)


@pytest.mark.parametrize(
    "head", [b"ref: refs/heads/--output=/tmp/x\n", b"--all\n", b"ref: refs/heads/*\n", b"ref: refs/heads/a b\n"]
)
def test_no_name_is_taken_for_an_option(person: Person, quick: Eye, tmp_path: Path, head: bytes) -> None:
    origin = person.repository(tmp_path / "origin")
    person.git(tmp_path, "clone", "-q", "--bare", str(origin), "bare.git")
    (tmp_path / "bare.git" / "HEAD").write_bytes(head)
    quick.look(tmp_path / "bare.git")
    folder = person.repository(tmp_path / "r")
    (folder / ".git" / "HEAD").write_bytes(head)
    quick.look(folder)
    assert not Path("/tmp/x").exists()


@pytest.mark.parametrize("name", ["index", "packed-refs"])
def test_a_damaged_repository_is_one_still(person: Person, eye: Eye, tmp_path: Path, name: str) -> None:
    folder = person.repository(tmp_path / "r")
    before = eye.look(folder)
    (folder / ".git" / name).write_bytes(b"DIRC" + b"\xff" * 500)
    seen = eye.look(folder, before)
    assert seen.status.is_repo
    assert seen.failure is not None
    assert seen.status.last_commit_message == "first", "what cannot be found out stays as it was"


def test_a_split_index_is_read(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "update-index", "--split-index")
    write(folder / "n")
    person.git(folder, "add", "n")
    assert counts(eye.sees(folder)) == {"staged.added": 1, "total": 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_is_looked_at(person: Person, eye: Eye, tmp_path: Path) -> None:
    """Git refuses it (``safe.directory``) for the sake of its configuration, which is not read here."""
    folder = person.repository(tmp_path / "r")
    write(folder / "a.txt", "changed\n")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    person.git(folder, "status", status=128)

    assert counts(eye.sees(folder)) == {"unstaged.modified": 1, "total": 1}


# What is large


def slow_for(folder: Path, words: str, seconds: int = 600) -> str:
    """A git that is slow where its command line holds these words."""
    program = folder / "slow-git"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{words}*) exec sleep {seconds};; esac\nexec git "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_where_untracked_files_take_too_long_they_are_looked_for_no_more(person: Person, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    write(folder / "a.txt", "changed\n")
    write(folder / "n")
    eye = Eye(person, tmp_path, patience=3.0, program=slow_for(tmp_path, "untracked-files=normal"))

    first = eye.look(folder)
    assert counts(first.status) == {"unstaged.modified": 1, "total": 1}
    assert first.large
    assert "more than 3 s" in (first.failure or "")

    began = time.monotonic()
    second = eye.look(folder, first)
    assert counts(second.status) == {"unstaged.modified": 1, "total": 1}
    assert second.failure is None
    assert time.monotonic() - began < 3.0, "it is not tried again"


def test_what_takes_too_long_stays_as_it_was(person: Person, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    write(folder / "a.txt", "changed\n")
    before = Eye(person, tmp_path).look(folder)
    slow = tmp_path / "slow"
    slow.mkdir()
    eye = Eye(person, slow, patience=1.0, program=slow_for(tmp_path, "status"))

    seen = eye.look(folder, before)
    assert seen.failure is not None
    assert counts(seen.status) == {"unstaged.modified": 1, "total": 1}
    assert seen.status.last_commit_message == "first"


def test_what_git_says_beyond_its_limit_is_not_read(person: Person, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    for number in range(2000):
        write(folder / f"a-file-with-a-rather-long-name-{number}")
    eye = Eye(person, tmp_path, output_bytes=16 * 1024)

    status = eye.look(folder).status
    assert status.branch == "main"
    assert 0 < status.untracked < 2000
    assert Eye(person, folder).sees(folder).untracked >= 2000
