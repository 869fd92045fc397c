"""What is said of a folder's repository is what git says (spec §2.3), also where the original got it wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.git import FolderStatus
from dragoman.services.git.status import StatusReader, read_commit, read_lines
from tests.services.git.repositories import AT, Eye, Person, counts, write

Change = Callable[[Person, Path], object]


def staged(change: Callable[[Path], object]) -> Change:
    def both(person: Person, folder: Path) -> None:
        change(folder)
        person.git(folder, "add", "-A")

    return both


def unstaged(change: Callable[[Path], object]) -> Change:
    return lambda _person, folder: change(folder)


def modify(folder: Path) -> None:
    write(folder / "a.txt", "changed\n")


def modify_twice(person: Person, folder: Path) -> None:
    modify(folder)
    person.git(folder, "add", "a.txt")
    write(folder / "a.txt", "changed again\n")


def modify_three_unstaged(folder: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        write(folder / name, "changed\n")


def move(person: Person, folder: Path) -> None:
    person.git(folder, "mv", "a.txt", "moved.txt")


def move_and_modify(person: Person, folder: Path) -> None:
    move(person, folder)
    write(folder / "moved.txt", "one\ntwo\nthree\n")


def intend_to_add(person: Person, folder: Path) -> None:
    write(folder / "new.txt")
    person.git(folder, "add", "-N", "new.txt")


def many_in_one_folder(folder: Path) -> None:
    for name in "xyz":
        write(folder / "d" / name)


def retype(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("b.txt")


def ignored(folder: Path) -> None:
    write(folder / ".gitignore", "*.log\n")
    write(folder / "x.log")


def oddly_named(folder: Path) -> None:
    for name in (
        b"with space",
        b"with\nnewline",
        b'\ttab"quote',
        b"caf\xe9",
        "日本".encode(),
        b"-dash",
        b"? a",
        b" M a",
    ):
        (folder / os.fsdecode(name)).write_text("x")


CASES: list[tuple[str, Change, dict[str, int]]] = [
    ("nothing", unstaged(lambda _folder: None), {}),
    ("one unstaged change, which begins with a blank", unstaged(modify), {"unstaged.modified": 1, "total": 1}),
    ("three of them", unstaged(modify_three_unstaged), {"unstaged.modified": 3, "total": 3}),
    ("one staged change", staged(modify), {"staged.modified": 1, "total": 1}),
    ("both in one file", modify_twice, {"staged.modified": 1, "unstaged.modified": 1, "total": 1}),
    ("a new file", unstaged(lambda folder: write(folder / "n")), {"untracked": 1, "total": 1}),
    ("a new folder counts once", unstaged(many_in_one_folder), {"untracked": 1, "total": 1}),
    ("a staged new file", staged(lambda folder: write(folder / "n")), {"staged.added": 1, "total": 1}),
    ("a file that is to be added", intend_to_add, {"unstaged.added": 1, "total": 1}),
    ("a removed file", unstaged(lambda f: (f / "a.txt").unlink()), {"unstaged.deleted": 1, "total": 1}),
    ("a staged removal", staged(lambda f: (f / "a.txt").unlink()), {"staged.deleted": 1, "total": 1}),
    ("a renamed file", move, {"staged.modified": 1, "total": 1}),
    ("and changed", move_and_modify, {"staged.modified": 1, "unstaged.modified": 1, "total": 1}),
    ("another kind of file", unstaged(retype), {"unstaged.modified": 1, "total": 1}),
    ("ignored files", unstaged(ignored), {"untracked": 1, "total": 1}),
    ("odd names", unstaged(oddly_named), {"untracked": 8, "total": 8}),
    ("odd names, staged", staged(oddly_named), {"staged.added": 8, "total": 8}),
]


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_files_are_counted_by_what_happened_to_them(
    person: Person, eye: Eye, tmp_path: Path, change: Change, expected: dict[str, int]
) -> None:
    folder = person.repository(tmp_path / "r", files={"a.txt": "one\ntwo\n", "b.txt": "b\n", "c.txt": "c\n"})
    change(person, folder)

    assert counts(eye.sees(folder)) == expected


def test_a_clean_repository_is_all_zero_but_for_its_commit(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")

    assert eye.sees(folder) == FolderStatus(
        branch="main", is_repo=True, last_commit_time=AT, last_commit_message="first", last_checked=123
    )


def test_lines_are_those_between_the_newest_commit_and_the_files(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r", files={"a.txt": "one\ntwo\n", "b.txt": "b\n"})
    write(folder / "a.txt", "one\n2\n3\n")
    person.git(folder, "add", "a.txt")
    write(folder / "a.txt", "one\n2\n3\n4\n")
    (folder / "b.txt").unlink()
    write(folder / "untracked.txt", "not\ncounted\n")

    status = eye.sees(folder)

    assert (status.lines_added, status.lines_removed) == (3, 2)


def test_before_the_first_commit_there_is_none(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r", files={})
    empty = eye.sees(folder)
    assert (empty.branch, empty.is_repo, empty.last_commit_time, empty.last_commit_message) == (
        "main",
        True,
        None,
        None,
    )

    write(folder / "a.txt", "one\ntwo\n")
    person.git(folder, "add", "a.txt")
    status = eye.sees(folder)
    assert counts(status) == {"staged.added": 1, "total": 1}
    assert (status.lines_added, status.lines_removed) == (2, 0)


def test_a_detached_head_has_no_branch(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "checkout", "-q", "--detach")

    status = eye.sees(folder)
    assert (status.branch, status.last_commit_message) == ("HEAD", "first")


@pytest.mark.parametrize("branch", ["feature/with/slashes", "ünï", "HEAD2", "a.b"])
def test_a_branch_has_its_whole_name(person: Person, eye: Eye, tmp_path: Path, branch: str) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "checkout", "-q", "-b", branch)
    assert eye.sees(folder).branch == branch


def test_a_conflict_counts_each_file_once(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r", files={"a.txt": "a\n", "gone.txt": "g\n"})
    person.git(folder, "checkout", "-q", "-b", "other")
    write(folder / "a.txt", "other\n")
    person.commit(folder, "other")
    person.git(folder, "checkout", "-q", "main")
    write(folder / "a.txt", "main\n")
    person.commit(folder, "main")
    person.git(folder, "merge", "-q", "other", status=1)

    assert counts(eye.sees(folder)) == {"unstaged.modified": 1, "total": 1}


def test_commits_that_the_upstream_lacks_and_has_are_counted(person: Person, eye: Eye, tmp_path: Path) -> None:
    origin = person.repository(tmp_path / "origin")
    person.git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    assert (eye.sees(clone).ahead, eye.sees(clone).behind) == (0, 0)

    for number in range(2):
        write(clone / f"{number}")
        person.commit(clone, f"here {number}")
    write(origin / "there")
    person.commit(origin, "there")
    person.git(clone, "fetch", "-q")

    status = eye.sees(clone)
    assert (status.ahead, status.behind) == (2, 1)

    person.git(clone, "checkout", "-q", "-b", "alone")
    status = eye.sees(clone)
    assert (status.branch, status.ahead, status.behind) == ("alone", 0, 0)

    person.git(clone, "checkout", "-q", "main")
    person.git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    status = eye.sees(clone)
    assert (status.branch, status.ahead, status.behind) == ("main", 0, 0)


def test_refs_may_be_packed_and_objects_too(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "gc", "-q")
    person.git(folder, "pack-refs", "--all")
    modify(folder)

    status = eye.sees(folder)
    assert (status.branch, status.last_commit_message) == ("main", "first")
    assert counts(status) == {"unstaged.modified": 1, "total": 1}


@pytest.mark.parametrize("name", ["a.txt", "d/e/f.txt"])
def test_a_folder_below_is_in_the_same_repository(person: Person, eye: Eye, tmp_path: Path, name: str) -> None:
    folder = person.repository(tmp_path / "r", files={"d/e/f.txt": "f\n", "a.txt": "a\n"})
    write(folder / name, "changed\n")

    for below in (folder, folder / "d", folder / "d" / "e"):
        assert counts(eye.sees(below)) == {"unstaged.modified": 1, "total": 1}


def test_a_linked_working_tree_has_its_own_branch_and_changes(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    write(tmp_path / "tree" / "a.txt", "changed\n")
    write(tmp_path / "tree" / "n")

    side = eye.sees(tmp_path / "tree")
    assert (side.branch, side.last_commit_message) == ("side", "first")
    assert counts(side) == {"unstaged.modified": 1, "untracked": 1, "total": 2}
    assert counts(eye.sees(folder)) == {}


def test_a_submodule_counts_as_one_file_and_is_a_repository_of_its_own(
    person: Person, eye: Eye, tmp_path: Path
) -> None:
    inner = person.repository(tmp_path / "inner")
    outer = person.repository(tmp_path / "outer")
    person.git(outer, "submodule", "-q", "add", str(inner), "sub")
    person.commit(outer, "with a submodule")
    assert counts(eye.sees(outer)) == {}

    write(outer / "sub" / "a.txt", "changed\n")
    assert counts(eye.sees(outer)) == {}, "what is in it is its own matter"
    assert counts(eye.sees(outer / "sub")) == {"unstaged.modified": 1, "total": 1}

    person.commit(outer / "sub", "inside")
    assert counts(eye.sees(outer)) == {"unstaged.modified": 1, "total": 1}
    assert eye.sees(outer / "sub").last_commit_message == "inside"


def test_a_repository_in_an_untracked_folder_is_one_of_its_own(person: Person, eye: Eye, tmp_path: Path) -> None:
    outer = person.repository(tmp_path / "outer")
    inner = person.repository(outer / "inner")
    modify(inner)

    assert counts(eye.sees(outer)) == {"untracked": 1, "total": 1}
    assert counts(eye.sees(inner)) == {"unstaged.modified": 1, "total": 1}


def test_a_bare_repository_has_a_branch_and_a_commit(person: Person, eye: Eye, tmp_path: Path) -> None:
    origin = person.repository(tmp_path / "origin")
    person.git(tmp_path, "clone", "-q", "--bare", str(origin), "bare.git")

    status = eye.sees(tmp_path / "bare.git")
    assert (status.is_repo, status.branch, status.last_commit_message) == (True, "main", "first")
    assert counts(status) == {}


def test_a_repository_of_longer_names_is_read_as_well(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r", "--object-format=sha256", files={})
    write(folder / "a.txt", "one\n")
    person.git(folder, "add", "-A")
    assert (eye.sees(folder).lines_added, counts(eye.sees(folder))) == (1, {"staged.added": 1, "total": 1})
    person.commit(folder, "first")
    modify(folder)
    status = eye.sees(folder)
    assert (status.last_commit_message, counts(status)) == ("first", {"unstaged.modified": 1, "total": 1})


def test_what_the_person_ignores_everywhere_is_ignored(person: Person, eye: Eye, tmp_path: Path) -> None:
    write(person.home / "ignored", "*.swp\n")
    person.git(tmp_path, "config", "--global", "core.excludesFile", str(person.home / "ignored"))
    folder = person.repository(tmp_path / "r")
    write(folder / "x.swp")
    write(folder / ".git" / "info" / "exclude", "*.own\n")
    write(folder / "x.own")

    assert counts(eye.sees(folder)) == {}


def test_line_ends_are_read_as_the_repository_says(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "config", "core.autocrlf", "true")
    (folder / "a.txt").unlink()
    person.git(folder, "checkout", "-q", "a.txt")
    assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    os.utime(folder / "a.txt", (1, 1))  # so that it is read

    assert counts(eye.sees(folder)) == {}


@pytest.mark.parametrize(
    ("subject", "shown"),
    [("ünï 日本", "ünï 日本"), ("x" * 600, "x" * 500), ("first\n\nbody", "first"), ("two\nlines", "two lines")],
)
def test_the_newest_subject_is_shown_cut(person: Person, eye: Eye, tmp_path: Path, subject: str, shown: str) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    assert eye.sees(folder).last_commit_message == shown


def test_a_commit_without_a_subject_has_an_empty_one(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    person.git(folder, "commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "")
    status = eye.sees(folder)
    assert (status.last_commit_message, status.last_commit_time) == ("", AT)


def test_a_new_commit_takes_the_place_of_the_old(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    before = eye.look(folder)
    write(folder / "n")
    person.commit(folder, "second")
    after = eye.look(folder, before)
    assert after.status.last_commit_message == "second"
    assert after.commit != before.commit
    person.git(folder, "reset", "-q", "--hard", "HEAD~1")
    assert eye.look(folder, after).status.last_commit_message == "first"


def test_what_was_a_repository_is_none_any_more(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    before = eye.look(folder)
    (folder / ".git").rename(tmp_path / "taken")
    assert eye.look(folder, before).status == FolderStatus(last_checked=123)
    (tmp_path / "taken").rename(folder / ".git")
    assert eye.sees(folder).is_repo


def test_a_folder_in_no_repository_is_all_zero(eye: Eye, tmp_path: Path) -> None:
    none = FolderStatus(last_checked=123)
    write(tmp_path / "file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for folder in (tmp_path, tmp_path / "missing", tmp_path / "file", tmp_path / "loop", Path("/"), Path("/proc/1")):
        assert eye.sees(folder) == none, folder


def test_a_name_that_is_no_folders_is_in_none(eye: Eye) -> None:
    for name in ("/nul\0byte", "", "/" + "x" * 5000):
        assert eye.looker.look(name, None, 123).status == FolderStatus(last_checked=123)


def test_without_git_no_folder_is_a_repository(person: Person, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    blind = Eye(person, tmp_path, program="no-such-git")
    assert blind.sees(folder) == FolderStatus(last_checked=123)


def test_looking_changes_nothing(person: Person, eye: Eye, tmp_path: Path) -> None:
    folder = person.repository(tmp_path / "r")
    os.utime(folder / "a.txt", (1, 1))  # git would like to renew its index
    before = everything(folder)
    eye.sees(folder)
    assert everything(folder) == before


def everything(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return found


def test_what_git_itself_counts_is_what_is_counted(person: Person, eye: Eye, tmp_path: Path) -> None:
    """Another reading of the same repository: the short format, by hand."""
    folder = person.repository(tmp_path / "r", files={f"{n}.txt": f"{n}\n" * 5 for n in range(20)})
    for n in range(6):
        write(folder / f"{n}.txt", "changed\n")
    for n in range(3, 9):
        (folder / f"{n}.txt").unlink()
    person.git(folder, "add", "0.txt", "1.txt", "3.txt", "7.txt")
    write(folder / "1.txt", "again\n")
    person.git(folder, "mv", "10.txt", "ten.txt")
    write(folder / "new.txt")

    said = person.git(folder, "status", "--porcelain=v1", "-z").split("\0")
    lines, skip = [], False
    for record in said:
        if record and not skip:
            lines.append(record)
        skip = not skip and record[:1] in ("R", "C")
    status = eye.sees(folder)
    assert status.total_files == len(lines)
    assert status.untracked == sum(line.startswith("??") for line in lines)
    assert status.unstaged.modified == sum(line[1] == "M" for line in lines)
    assert status.unstaged.deleted == sum(line[1] == "D" for line in lines)
    assert status.staged.modified == sum(line[0] in "MR" for line in lines)
    assert status.staged.deleted == sum(line[0] == "D" for line in lines)
    numbers = [line.split("\t")[:2] for line in person.git(folder, "diff", "HEAD", "--numstat").splitlines()]
    assert status.lines_added == sum(int(added) for added, _ in numbers)
    assert status.lines_removed == sum(int(removed) for _, removed in numbers)


# Reading, without git


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_what_git_says_may_come_in_any_pieces(size: int) -> None:
    record = b"# branch.oid abc\0# branch.head main\0# branch.ab +2 -3\0001 .M N... 100644 100644 100644 a a a.txt\0"
    record += b"2 R. N... 100644 100644 100644 a a R100 new\0old\0? untracked\0u UU N... 1 1 1 1 a a a c\0"
    reader = StatusReader()
    for at in range(0, len(record), size):
        reader.feed(record[at : at + size])
    status = reader.status()
    assert (status.branch, status.ahead, status.behind) == ("main", 2, 3)
    assert counts(status) == {"staged.modified": 1, "unstaged.modified": 2, "untracked": 1, "total": 4}


def test_a_record_without_an_end_is_no_record() -> None:
    with pytest.raises(ValueError, match="end"):
        StatusReader().feed(b"x" * (1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (b"", (0, 0)),
        (b" 1 file changed, 1 insertion(+)\n", (1, 0)),
        (b" 2 files changed, 10 deletions(-)\n", (0, 10)),
        (b" 3 files changed, 12 insertions(+), 1 deletion(-)\n", (12, 1)),
        (b" 1 file changed, 0 insertions(+), 0 deletions(-)\n", (0, 0)),
    ],
)
def test_numbers_of_lines_are_read_in_each_form(said: bytes, read: tuple[int, int]) -> None:
    assert read_lines(said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [(b"5\0subject\n", (5, "subject")), (b"", None), (b"x\0y", None), (b"5", None), (b"5\0\xff", (5, "\ufffd"))],
)
def test_a_commit_is_read_or_it_is_none(said: bytes, read: tuple[int, str] | None) -> None:
    assert read_commit(said, 100) == read
