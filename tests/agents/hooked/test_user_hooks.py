"""The socket of installed hooks, under what programs may do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.user_hooks import BEAT, CHECK_EVENT
from dragoman.hub.errors import LimitReached
from dragoman.hub.limits import HubLimits
from tests.hub.rig import turns_of_the_loop, until

from .posting import PERMISSION, Place, line, listening

BOTH_LOOPS = True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hooks.sock"


async def test_a_post_reaches_the_intake_with_all_that_is_known_beside_it(path: Path) -> None:
    payload = {"hook_event_name": "Stop", "session_id": "s", "text": "ü"}
    known = {"at": 1700, "session": "5e55/0abc", "secret": "of-it", "pid": os.getpid(), "parents": [[7, 70], [1, 2]]}
    async with listening(path) as place:
        assert await place.posted(line(payload, **known)) == b"\n"
    (post,) = place.posts
    assert (post.payload, post.channel, post.agent, post.event) == (payload, "socket", "claude", "Stop")
    assert (post.at, post.session, post.secret, post.parents) == (1700, "5e55", "of-it", ((7, 70), (1, 2)))


async def test_ancestors_of_a_hook_whose_processes_we_do_not_see_are_no_ancestors(path: Path) -> None:
    async with listening(path) as place:
        await place.posted(line({"hook_event_name": "Stop"}, pid=os.getpid() + 1, parents=[[7, 70]]))
    assert [post.parents for post in place.posts] == [()]


async def test_what_is_not_said_is_not_known(path: Path) -> None:
    async with listening(path) as place:
        await place.posted(b'{"agent":"","session":"","data":{}}\n')
    (post,) = place.posts
    assert (post.agent, post.event, post.at, post.session, post.secret, post.parents) == (None,) * 5 + ((),)


async def test_the_socket_is_this_users_alone(path: Path) -> None:
    async with listening(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_another_user_is_not_heard_even_where_the_file_system_lets_them(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(path) as place:
        path.chmod(0o666)
        path.parent.chmod(0o755)
        child = os.fork()
        if child == 0:
            heard = b"?"
            try:
                os.chdir(path.parent)
                os.setgid(65534)
                os.setuid(65534)
                with socket.socket(socket.AF_UNIX) as link:
                    link.connect(path.name)
                    link.sendall(line({}))
                    heard = b""
                    with contextlib.suppress(ConnectionError):
                        heard = link.recv(100)
            finally:
                os._exit(len(heard))
        ended = await asyncio.to_thread(os.waitpid, child, 0)
        assert ended == (child, 0)
        assert place.posts == []
        assert caplog.messages == ["a hook of another user came to the socket and is not heard"]
        assert await place.posted(line({})) == b"\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": "\\ud83d", "b": "\\ud83d\\ude00"}', {"a": "?", "b": "\U0001f600"}),
        (b'{"a": NaN}', {"a": None}),
        (b'{"a": "\xff"}', {"a": "�"}),
    ],
)
async def test_what_is_nearly_json_is_read(path: Path, data: bytes, said: Any) -> None:
    async with listening(path) as place:
        assert await place.posted(b'{"data":' + data + b"}\n") == b"\n"
    assert [post.payload for post in place.posts] == [said]


@pytest.mark.parametrize(
    "text",
    [
        b"\n",
        b"{\n",
        b"[]\n",
        b'{"data":5}\n',
        b'{"data":[]}\n',
        b'{"data":{},"at":"x"}\n',
        b"[" * 50_000 + b"\n",
        b"\0\n",
    ],
    ids=lambda text: repr(text[:12]),
)
async def test_what_is_no_post_is_said_once_and_answered_with_nothing(
    path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(path) as place:
        for _ in range(10):
            assert await place.posted(text) == b""
        assert place.posts == []
        assert len(caplog.messages) == 1
        assert await place.posted(line({})) == b"\n"


@pytest.mark.parametrize("data", ["x" * 100_000, [{}] * 2000], ids=["bytes", "values"])
async def test_a_post_of_too_much_is_left_out(path: Path, data: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(path, HubLimits(hook_bytes=100_000, hook_values=1000)) as place:
        assert await place.posted(line({"tool_response": data})) == b""
        assert place.posts == []
        assert ["hub.hook_" in message for message in caplog.messages] == [True]


async def test_one_that_only_looks_whether_somebody_is_here_is_no_trouble(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(path) as place:
        _, writer = await place.connected()
        writer.close()
        await place.posted(line({}))
    assert caplog.messages == []


async def test_what_the_intake_refuses_is_no_trouble_of_the_agent(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(path) as place:
        for problem in (LimitReached("too many"), RuntimeError("ours")):
            place.taken.problem = problem
            assert await place.posted(line({})) == b""
            assert await place.posted(line(PERMISSION)) in (b"", b"\n")
        place.taken.problem = None
        assert await place.posted(line({})) == b"\n"
    assert "a hook is not taken: too many" in caplog.messages[0]


async def test_no_more_are_heard_at_once_than_there_is_room_for(path: Path) -> None:
    async with listening(path, links=3) as place:
        place.taken.free.clear()
        hooks = [asyncio.create_task(place.posted(line({"n": number}))) for number in range(10)]
        await until(lambda: len(place.posts) == 3)
        await turns_of_the_loop(50)
        assert len(place.posts) == 3
        place.taken.free.set()
        assert await asyncio.gather(*hooks) == [b"\n"] * 10


# Permissions


async def test_only_a_permission_is_asked_about_and_its_answer_printed(path: Path) -> None:
    async with listening(path) as place:
        place.taken.answers.put_nowait('{"hookSpecificOutput":\n{}}')
        assert await place.posted(line(PERMISSION)) == b'\n{"hookSpecificOutput": {}}\n'
        assert [post.payload for post in place.taken.asked] == [PERMISSION]
        assert place.posts == []
        for event in ("PreToolUse", "Notification", "Stop", "PermissionDenied"):
            await place.posted(line({"hook_event_name": event}))
        assert len(place.posts) == 4
        assert len(place.taken.asked) == 1


@pytest.mark.parametrize("spelled", ["PermissionRequest", "permission_request"])
async def test_which_hook_it_is_may_stand_in_the_payload_only(path: Path, spelled: str) -> None:
    async with listening(path) as place:
        place.taken.answers.put_nowait("said")
        text = json.dumps({"data": {"hook_event_name": spelled}}).encode() + b"\n"
        assert await place.posted(text) == b"\nsaid\n"


async def test_a_hook_that_waits_is_told_that_we_live(path: Path) -> None:
    async with listening(path) as place:
        reader, writer = await place.connected()
        writer.write(line(PERMISSION))
        async with asyncio.timeout(BEAT * 5):
            assert await reader.readexactly(3) == b"\n\n\n"
        place.taken.answers.put_nowait("said")
        assert (await reader.read()).strip() == b"said"
        writer.close()


async def test_a_hook_that_goes_is_given_up(path: Path) -> None:
    async with listening(path) as place:
        _, writer = await place.connected()
        writer.write(line(PERMISSION))
        await until(lambda: place.taken.asked)
        writer.close()
        await until(lambda: place.taken.given_up)


async def test_a_hook_that_goes_on_talking_is_still_there(path: Path) -> None:
    async with listening(path) as place:
        reader, writer = await place.connected()
        writer.write(line(PERMISSION))
        await until(lambda: place.taken.asked)
        writer.write(b"more\n" * 1000)
        await turns_of_the_loop(50)
        place.taken.answers.put_nowait("said")
        assert (await reader.read()).strip() == b"said"
        writer.close()


async def test_half_of_the_links_may_wait_and_the_others_are_heard(path: Path) -> None:
    """However many wait for an answer, what goes on is heard; one too many is taken without being waited for."""
    async with listening(path, links=4) as place:
        links = [await place.connected() for _ in range(2)]
        for _, writer in links:
            writer.write(line(PERMISSION))
        await until(lambda: len(place.taken.asked) == 2)
        assert await place.posted(line(PERMISSION)) == b"\n"
        assert await place.posted(line({})) == b"\n"
        assert len(place.posts) == 2
        for _, writer in links:
            writer.close()
        await until(lambda: len(place.taken.given_up) == 2)
        place.taken.answers.put_nowait("said")
        assert await place.posted(line(PERMISSION)) == b"\nsaid\n"


async def test_what_waits_when_the_server_stops_is_given_up_and_prints_nothing(path: Path) -> None:
    async with listening(path) as place:
        reader, writer = await place.connected()
        writer.write(line(PERMISSION))
        await until(lambda: place.taken.asked)
        await place.hooks.close()
        assert (await reader.read()).strip() == b""
        assert len(place.taken.given_up) == 1
        writer.close()


async def test_a_check_is_answered_and_is_nothing_that_happened(path: Path) -> None:
    async with listening(path) as place:
        said = await place.posted(line({"hook_event_name": CHECK_EVENT, "check": "7"}))
        assert said == f"{CHECK_EVENT} 7\n".encode()
    assert (place.posts, place.taken.asked) == ([], [])


# Where it listens


async def test_the_socket_of_a_server_that_is_no_more_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as lost:
        lost.bind(str(path))
    async with listening(path) as place:
        assert place.hooks.listening
        assert await place.posted(line({})) == b"\n"


@pytest.mark.parametrize("full", [False, True], ids=["free", "full"])
async def test_the_socket_of_another_server_is_left_to_it(
    path: Path, full: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    with contextlib.ExitStack() as held:
        other = held.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(str(path))
        other.listen(0)
        with contextlib.suppress(BlockingIOError):
            while full:
                waiting = held.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        async with listening(path) as place:
            assert not place.hooks.listening
        assert path.exists()
        assert f"{path} is another server's (hooked.socket names another place)" in caplog.messages[0]


async def test_of_two_servers_the_first_has_it_and_the_second_leaves_it(path: Path) -> None:
    async with listening(path) as first:
        async with listening(path) as second:
            assert not second.hooks.listening
        assert await first.posted(line({})) == b"\n"
    async with listening(path) as third:
        assert third.hooks.listening


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_what_is_no_socket_is_left_alone(path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_text("mine") if what == "file" else path.mkdir()
    async with listening(path) as place:
        assert not place.hooks.listening
    assert path.exists()
    assert "something else than a socket lies there" in caplog.messages[0]


async def test_a_folder_that_cannot_be_made_does_not_keep_the_server_from_running(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    async with listening(tmp_path / "file" / "hooks.sock") as place:
        assert not place.hooks.listening
    assert "cannot be listened at: File exists" in caplog.messages[0]


async def test_a_path_that_is_too_long_for_a_socket_is_reached_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "hooks.sock"
    async with listening(path) as place:
        assert place.hooks.listening
        process = await place.run("claude", "Stop")
        await process.communicate(b"{}")
        assert [post.event for post in place.posts] == ["Stop"]
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    async with listening(path), listening(path) as second:
        assert not second.hooks.listening


async def test_a_socket_that_somebody_put_in_its_place_is_not_removed(path: Path) -> None:
    async with listening(path):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
    assert path.exists()
    other.close()


def test_where_it_is() -> None:
    assert HookedSettings().socket_path(Path("/data")) == Path("/data/hooks.sock")
    assert HookedSettings(socket="/run/h").socket_path(Path("/data")) == Path("/run/h")
    assert HookedSettings(socket="~/h").socket_path(Path("/data")) == Path.home() / "h"


def test_places_can_be_made_without_a_loop(path: Path) -> None:
    assert not Place(path).hooks.listening
