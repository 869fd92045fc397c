"""The lists on disk: what a line means, what cannot be read lets nobody in, and writers do not undo each other."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.trust import Refused
from dragoman.services.trust.entries import entries, is_identity
from dragoman.services.trust.lists import Lists
from tests.services.trust.kit import ALICE, BOB, CODES, EVE, HOST, Door, caller

MOST = 100_000
ADDRESS = ALICE.address

LINES = {
    "an address": (ADDRESS, ADDRESS, True),
    "in capitals": (ADDRESS.upper(), ADDRESS, True),
    "without its mark": (ADDRESS[2:], ADDRESS, True),
    "asked in capitals": (ADDRESS, ADDRESS.upper(), True),
    "another": (BOB.address, ADDRESS, False),
    "half of it": (ADDRESS[:20], ADDRESS, False),
    "a name": ("trusted-x", "trusted-x", True),
    "a name in another case": ("Trusted-X", "trusted-x", True),
    "part of a name": ("trusted", "trusted-x", False),
    "a comment": (f"# {ADDRESS}", ADDRESS, False),
    "a comment without a space": (f"#{ADDRESS}", ADDRESS, False),
    "a comment behind it": (f"{ADDRESS}  # Alice", ADDRESS, True),
    "spaces around it": (f"\t {ADDRESS} \r", ADDRESS, True),
    "a byte order mark before it": (f"\ufeff{ADDRESS}", ADDRESS, True),
    "the last of several": (f"x\n\n# y\n{ADDRESS}", ADDRESS, True),
    "a blank line is nobody": ("\n \n", "", False),
    "everybody": ("*", ADDRESS, True),
    "a beginning": ("trusted-*", "trusted-x", True),
    "a beginning is one": ("trusted-*", "un-trusted-x", False),
    "a beginning in another case": ("TRUSTED-*", "Trusted-x", True),
    "an end": ("*-bot", "my-bot", True),
    "an end is one": ("*-bot", "my-bot-2", False),
    "both": ("0x81*94", ADDRESS, True),
    "both, which must not overlap": ("aba*ba", "aba", False),
    "pieces in their order": ("a*b*c", "a-b-c", True),
    "pieces in another order": ("a*b*c", "a-c-b", False),
    "a piece that is not there": ("a*x*c", "a-b-c", False),
    "no other mark is one": ("trusted-?", "trusted-x", False),
    "nor are brackets": ("trusted-[x]", "trusted-x", False),
    "nor a point": ("trusted.x", "trusted-x", False),
    "many marks": ("*" * 50 + "y", "x" * 5000, False),
}


@pytest.mark.parametrize(("line", "asked", "named"), LINES.values(), ids=LINES.keys())
def test_lines(line: str, asked: str, named: bool) -> None:
    assert entries(line.encode()).names(asked) is named


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns_are_those_of_a_shell(pattern: str, name: str) -> None:
    import re

    meant = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    assert entries(pattern.encode()).names(name) is (meant and pattern != "")


IDENTITIES = {
    ADDRESS: True,
    "client-1": True,
    "": False,
    "a b": False,
    "a\nb": False,
    "a\u2028b": False,
    "a\x00": False,
    "*": False,
    "a*": False,
    "#a": False,
    "x" * 201: False,
}


@pytest.mark.parametrize(("given_", "is_one"), IDENTITIES.items(), ids=[f"{n}" for n in range(len(IDENTITIES))])
def test_what_may_become_a_line(given_: str, is_one: bool) -> None:
    assert is_identity(given_) is is_one


# Reading


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path / "trust", most=MOST, lock_seconds=0.05)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "trust"
    folder.mkdir()
    return folder / "contacts.txt"


def test_without_a_folder_nobody_is_known(lists: Lists) -> None:
    assert not lists.names("contacts", ADDRESS)


def test_what_is_edited_counts_at_once(lists: Lists, file: Path) -> None:
    for _ in range(3):
        file.write_text(ADDRESS)
        assert lists.names("contacts", ADDRESS)
        file.write_text(BOB.address)
        assert not lists.names("contacts", ADDRESS)
        file.unlink()
        assert not lists.names("contacts", BOB.address)


def test_an_edit_of_the_same_length_within_a_moment_counts(lists: Lists, file: Path) -> None:
    for number in range(50):
        who = (ALICE, BOB)[number % 2].address
        file.write_text(who)
        assert lists.names("contacts", who)


def test_a_list_that_stands_is_not_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(ADDRESS)
    # One that changed a moment ago is read anew each time: for this clock that was long ago.
    lists = Lists(file.parent, most=MOST, now=lambda: time.time_ns() + 10**10)
    assert lists.names("contacts", ADDRESS)
    opened = []
    monkeypatch.setattr(os, "open", lambda *given, **more: opened.append(given))
    for _ in range(100):
        assert lists.names("contacts", ADDRESS)
        assert not lists.names("whitelist", ADDRESS)
    assert opened == []


def _folder(file: Path) -> None:
    file.mkdir()


def _latin(file: Path) -> None:
    file.write_bytes("é".encode("latin-1"))


def _utf16(file: Path) -> None:
    file.write_text(ADDRESS, "utf-16")


def _large(file: Path) -> None:
    file.write_bytes(b"x" * (MOST + 1))


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _lost(file: Path) -> None:
    file.symlink_to(file.with_name("nowhere"))


def _loop(file: Path) -> None:
    file.symlink_to(file)


UNUSABLE = {
    "a folder": (_folder, "it is no regular file"),
    "a pipe": (_pipe, "it is no regular file"),
    "of another encoding": (_latin, "it is not UTF-8 text"),
    "of two bytes each": (_utf16, "it is not UTF-8 text"),
    "too large": (_large, f"it is larger than {MOST} bytes"),
    "a link that leads nowhere": (_lost, "it is a link that leads nowhere"),
    "a link to itself": (_loop, "it is no regular file"),
}


@pytest.mark.parametrize(("spoil", "problem"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_read_is_no_empty_list(
    lists: Lists,
    file: Path,
    spoil: Callable[[Path], None],
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spoil(file)
    with caplog.at_level(logging.ERROR, "dragoman.trust"):
        for _ in range(3):
            with pytest.raises(Refused) as refused:
                lists.names("contacts", ADDRESS)
            assert str(refused.value) == f"misconfigured: contacts.txt: {problem}"
        for change in (lists.add, lists.remove):
            with pytest.raises(Refused, match=r"^misconfigured: contacts.txt: "):
                change("contacts", ADDRESS)
    assert str(file) in caplog.text
    assert caplog.text.count(problem) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_so_is_one_without_permission(lists: Lists, file: Path) -> None:
    file.write_text(ADDRESS)
    file.chmod(0)
    with pytest.raises(Refused, match=r"^misconfigured: contacts.txt: Permission denied"):
        lists.names("contacts", ADDRESS)


@pytest.mark.parametrize("name", ["blocklist", "whitelist", "contacts", "admins"])
async def test_trust_fails_closed(tmp_path: Path, name: str) -> None:
    door = Door(tmp_path, CODES)
    door.write("contacts", ALICE.address)
    door.write("whitelist", BOB.address)
    _latin(tmp_path / f"{name}.txt")
    for who in (ALICE, EVE):
        with pytest.raises(Refused, match=f"^misconfigured: {name}.txt: it is not UTF-8 text$"):
            await door.trust.admit(caller(who))
    assert await door.trust.admit(caller(HOST)) is None
    assert not door.trust.may_approve(caller(EVE))
    assert not door.trust.sees_all(caller(ALICE))


# Writing


def test_what_a_person_wrote_stays(lists: Lists, file: Path) -> None:
    file.write_text(f"# friends\n{BOB.address}  # Bob\n\n# family\nold-name\n")
    assert lists.add("contacts", ADDRESS.upper())
    assert file.read_text() == f"# friends\n{BOB.address}  # Bob\n\n# family\nold-name\n{ADDRESS}\n"
    assert lists.remove("contacts", BOB.address[2:])
    assert file.read_text() == f"# friends\n\n# family\nold-name\n{ADDRESS}\n"


def test_a_last_line_without_an_end_is_one(lists: Lists, file: Path) -> None:
    file.write_text(BOB.address)
    assert lists.add("contacts", ADDRESS)
    assert file.read_text() == f"{BOB.address}\n{ADDRESS}\n"


def test_nobody_stands_there_twice(lists: Lists, file: Path) -> None:
    assert lists.add("contacts", ADDRESS)
    assert not lists.add("contacts", ADDRESS.upper())
    assert file.read_text() == f"{ADDRESS}\n"
    assert lists.remove("contacts", ADDRESS)
    assert not lists.remove("contacts", ADDRESS)
    assert file.read_text() == ""


def test_all_lines_of_one_go(lists: Lists, file: Path) -> None:
    file.write_text(f"{ADDRESS}\n{ADDRESS.upper()} # again\nx\n{ADDRESS[2:]}\n")
    assert lists.remove("contacts", ADDRESS)
    assert file.read_text() == "x\n"


def test_patterns_stay(lists: Lists, file: Path) -> None:
    file.write_text("0x*\n")
    assert not lists.remove("contacts", ADDRESS)
    assert lists.names("contacts", ADDRESS)
    assert not lists.lists("contacts", ADDRESS)


def test_only_their_owner_may_read_them(lists: Lists, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        lists.add("contacts", ADDRESS)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "trust").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "trust").iterdir()} == {0o600}


def test_a_link_stays_a_link(lists: Lists, file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "kept.txt"
    elsewhere.write_text("x\n")
    file.symlink_to(elsewhere)
    assert lists.add("contacts", ADDRESS)
    assert file.is_symlink()
    assert elsewhere.read_text() == f"x\n{ADDRESS}\n"


def test_one_that_is_full_stays_as_it_is(lists: Lists, file: Path) -> None:
    file.write_bytes(b"x" * (MOST - 1) + b"\n")
    with pytest.raises(Refused, match="it would be larger"):
        lists.add("contacts", ADDRESS)
    assert file.stat().st_size == MOST


def test_nothing_is_left_behind(lists: Lists, tmp_path: Path) -> None:
    lists.add("contacts", ADDRESS)
    lists.remove("contacts", ADDRESS)
    assert sorted(file.name for file in (tmp_path / "trust").iterdir()) == [".lock", "contacts.txt"]


def test_what_a_killed_writer_left_goes_with_the_next_change(lists: Lists, file: Path) -> None:
    left, own = file.with_name(".contacts.txt.0123456789abcdef"), file.with_name(".contacts.txt.mine")
    for each in (left, own):
        each.write_text(f"{BOB.address}\n")
    assert lists.add("blocklist", ADDRESS)
    assert not left.exists()
    assert own.exists()
    assert not lists.names("contacts", BOB.address)


def test_where_none_can_be_written_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"^misconfigured: contacts.txt: it cannot be written: "):
        Lists(tmp_path / "file", most=MOST).add("contacts", ADDRESS)


def test_a_writer_waits_for_another_but_not_for_ever(lists: Lists, file: Path) -> None:
    with (file.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another process holds it"):
            lists.add("contacts", ADDRESS)
    assert lists.add("contacts", ADDRESS)


def test_writers_in_threads_do_not_undo_each_other(tmp_path: Path) -> None:
    lists = Lists(tmp_path, most=MOST)
    names = [f"client-{number}" for number in range(60)]
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda name: lists.add("contacts", name), names))
        assert all(threads.map(lambda name: lists.remove("contacts", name), names[::2]))
    assert sorted((tmp_path / "contacts.txt").read_text().split()) == sorted(names[1::2])


def test_writers_in_processes_do_not_undo_each_other(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from dragoman.services.trust.lists import Lists\n"
        "lists = Lists(pathlib.Path(sys.argv[1]), most=100_000)\n"
        "for number in range(20): lists.add('contacts', f'{sys.argv[2]}-{number}')"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [process.wait(timeout=20) for process in started] == [0, 0, 0]
    wanted = [f"{name}-{number}" for name in ("a", "b", "c") for number in range(20)]
    assert sorted((tmp_path / "contacts.txt").read_text().split()) == sorted(wanted)


def test_readers_never_see_half_a_list(tmp_path: Path) -> None:
    lists = Lists(tmp_path, most=MOST)
    lists.add("blocklist", ADDRESS)

    def write() -> None:
        for number in range(60):
            lists.add("blocklist", f"client-{number}")

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        looked = 0
        while not writing.done() or looked < 100:
            assert lists.names("blocklist", ADDRESS)
            looked += 1
        writing.result()
