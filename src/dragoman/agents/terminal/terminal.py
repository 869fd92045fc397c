"""A program on a PTY with its tape and its screen: the ``Terminal`` port.

Per chunk: the tape keeps it, watchers are told (a link sends it in the same step), then the model draws it. Pictures
are published at most every ``screen_interval`` seconds, and never from the middle of a synchronized update.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import ProcessTable
from dragoman.hub.errors import InvalidSize
from dragoman.hub.ports import TerminalWatcher

from .findings import Finding, Reply
from .keys import encode_keys
from .limits import check_size
from .pacing import Pacer
from .pty import Pty, PtyLimits
from .recording import Recording
from .replies import ANSWER
from .screen import PyavtScreen
from .settings import TerminalSettings
from .signals import parse_signal
from .stored_screen import StoredScreen
from .tape import RingTape
from .tmux import Pane
from .tmux_pty import TmuxPty

RESIZE_INTERVAL = 0.02
"""Seconds between two sizes that are carried out: reflowing a large screen takes milliseconds."""

READ_AT_ONCE = 16 * 1024
"""Bytes read, and so drawn, in one turn of the loop: crafted output can make the model slow, never for long."""

ANSWER_WINDOW = 2.0
"""Seconds after a query of the program in which a viewer's own answer to it is dropped: we have answered already."""


class TerminalUser(Protocol):
    """Who owns the terminal is told what concerns the log."""

    def began_to_write(self) -> None: ...
    def wrote(self, end: int) -> None: ...
    def found(self, finding: Finding) -> None: ...
    def was_resized(self, cols: int, rows: int, by: str | None) -> None: ...
    def ended(self, code: int | None, signal: int | None) -> None: ...


class PtyTerminal:
    """See the module. One object for all runs of a session: the tape goes on where the last run left it."""

    def __init__(
        self,
        user: TerminalUser,
        settings: TerminalSettings,
        *,
        load_tape: Callable[[], RingTape],
        last_screen: StoredScreen,
        model: bool,
    ) -> None:
        self._user = user
        self._settings = settings
        self._model = model
        self._load_tape = load_tape
        self._tape: RingTape | None = None
        self._last_screen = last_screen
        self._screen: PyavtScreen | None = None
        self._pty: Pty | TmuxPty | None = None
        self._recording: Recording | None = None
        self._size = (last_screen.cols, last_screen.rows)
        self._written_before = 0
        self._silent = True
        self._put_away = False
        self._watchers: tuple[TerminalWatcher, ...] = ()
        self._publishing: asyncio.TimerHandle | None = None
        self._resizing: asyncio.TimerHandle | None = None
        self._wanted: tuple[int, int, str | None] | None = None
        self._expected: dict[str, float] = {}
        self.person: Callable[[bytes], None] | None = None
        """What takes a person's input instead of the program: a driver that must not be written into."""
        self._pacer = Pacer(settings.tape, settings.breath, pause=self._pause, resume=self._resume)

    # What it is

    @property
    def tape(self) -> RingTape:
        """The tape. After the program's end it lies on disk and is read from there, once for all who watch."""
        if self._tape is not None:
            return self._tape
        tape = self._load_tape()
        if self._watchers:
            self._tape = tape
        return tape

    @property
    def screen(self) -> PyavtScreen | StoredScreen | None:
        if not self._model:
            return None
        if self._wanted is not None:
            self._resize_wanted()
        return self._screen if self._screen is not None else self._last_screen

    @property
    def cols(self) -> int:
        return self._size[0]

    @property
    def rows(self) -> int:
        return self._size[1]

    @property
    def pid(self) -> int | None:
        return self._pty.pid if self._pty is not None else None

    @property
    def pid_start(self) -> int | None:
        """Start time of the program in clock ticks, for telling it from another process with its number."""
        return self._pty.pid_start if self._pty is not None else None

    @property
    def running(self) -> bool:
        return self._pty is not None and self._pty.running

    @property
    def bytes_written(self) -> int:
        return self._written_before + (self._pty.bytes_written if self._pty is not None else 0)

    # What one may do with it

    def write(self, data: bytes) -> None:
        if self._expected:
            data = self._without_second_answers(data)
        if self.person is not None and data:
            self.person(data)
        else:
            self.deliver(data)

    def deliver(self, data: bytes) -> None:
        """Write to the program at once, whoever else types."""
        if self._wanted is not None:
            self._resize_wanted()  # who types behind a resize types into the new size
        if self._pty is not None:
            self._pty.write(data)

    def deliver_keys(self, keys: Sequence[str]) -> None:
        """Press named keys at once, whoever else types; cursor keys as the program asked for them."""
        data = encode_keys(keys)
        screen = self._screen
        if screen is not None and screen.modes.application_cursor_keys:
            data = re.sub(rb"\x1b\[([ABCDHF])", rb"\x1bO\1", data)
        self.deliver(data)

    async def drained(self) -> bool:
        """Wait until the program's terminal has taken all input; False if the program ended before."""
        return self._pty is not None and await self._pty.drained()

    def unread(self) -> int:
        """Bytes of input that the program has not read yet."""
        return 0 if self._pty is None else self._pty.unread()

    def press(self, keys: Sequence[str]) -> int:
        data = encode_keys(keys)
        self.write(data)
        return len(data)

    def resize(self, cols: int, rows: int, by: str | None = None) -> None:
        """As the port says; of many in a row only the last is carried out, within ``RESIZE_INTERVAL``."""
        check_size(cols, rows)
        if self._resizing is not None:
            self._wanted = (cols, rows, by)
            return
        self._resize_now(cols, rows, by)

    def _resize_now(self, cols: int, rows: int, by: str | None) -> None:
        if (cols, rows) == self._size or not self.running:
            return
        assert self._pty is not None
        self._resizing = asyncio.get_running_loop().call_later(RESIZE_INTERVAL, self._resize_wanted)
        self._size = (cols, rows)
        if self._screen is not None:
            self._screen.resize(cols, rows)
        if self._recording is not None:
            self._recording.resize(cols, rows)
        self._pty.resize(cols, rows)
        self._user.was_resized(cols, rows, by)
        for watcher in self._watchers:
            watcher.resized()
        self._publish_soon()

    def _resize_wanted(self) -> None:
        """Carry out what was asked for last, now."""
        if self._resizing is not None:
            self._resizing.cancel()
            self._resizing = None
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._resize_now(*wanted)

    def signal(self, name: str) -> None:
        number = parse_signal(name)
        if self._pty is not None:
            self._pty.signal(number)

    def watch(self, watcher: TerminalWatcher) -> Callable[[], None]:
        self._watchers = (*self._watchers, watcher)

        def stop() -> None:
            self._watchers = tuple(other for other in self._watchers if other is not watcher)
            if self._put_away and not self._watchers:
                self._tape = None

        return stop

    # Life

    def launch(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        size: tuple[int, int],
        recording: Recording | None,
        processes: ProcessTable,
        pane: Pane | None = None,
    ) -> None:
        """Start the program; its bytes wait for ``begin``. Raises what ``Pty.spawn`` raises, changing nothing.

        With ``pane`` no program is started: it is attached to, ``env`` is that of our client there.
        """
        check_size(*size)
        limits = PtyLimits(read=READ_AT_ONCE, input=self._settings.input_buffer)
        pty = (
            Pty.spawn(
                command,
                cwd=cwd,
                env=env,
                cols=size[0],
                rows=size[1],
                on_data=self._data,
                on_exit=self._exit,
                limits=limits,
                schedule=self._settings.schedule,
                processes=processes,
            )
            if pane is None
            else TmuxPty.spawn(
                pane,
                cwd=cwd,
                env=env,
                on_data=self._data,
                on_exit=self._exit,
                on_resize=self._pane_resized,
                limits=limits,
                schedule=self._settings.schedule,
                processes=processes,
            )
        )
        pty.pause()
        self._tape, self._put_away = self.tape, False
        self._written_before = self.bytes_written
        self._pty, self._size, self._recording = pty, size, recording
        self._silent = True
        self._expected.clear()
        self._pacer.stop()
        if self._model:
            self._screen = PyavtScreen(
                *size,
                scrollback=self._settings.scrollback,
                seq=self._last_screen.seq,
                tape_offset=self._tape.end,
            )

    def begin(self) -> None:
        """Take the program's bytes."""
        if self._pty is not None:
            self._pty.resume()

    async def terminate(self, schedule: KillSchedule) -> bool:
        """End the program and all that descends from it; True once it is gone."""
        return self._pty is None or await self._pty.terminate(schedule=schedule)

    async def settled(self, limit: float) -> None:
        """Wait until what an ended program left behind is ended too, ``limit`` seconds at most.

        The next program carries the same marker: started before, it would be taken for one of those.
        """
        if self._pty is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._pty.wait_closed(), limit)

    def freeze(self) -> StoredScreen:
        """After the end: keep the last picture and let the model go."""
        if self._screen is not None:
            self._last_screen = StoredScreen.of(self._screen)
            self._screen = None
        return self._last_screen

    def put_tape_away(self) -> None:
        """The tape is on disk now: hold it in memory only as long as somebody watches."""
        self._put_away = True
        if not self._watchers:
            self._tape = None

    def take_recording(self) -> Recording | None:
        """The recording under way, given up by the terminal."""
        recording, self._recording = self._recording, None
        return recording

    # From the PTY

    def _data(self, chunk: bytes) -> None:
        assert self._tape is not None
        offset = self._tape.append(chunk)
        self._user.wrote(offset + len(chunk))
        if self._silent:
            self._silent = False
            self._user.began_to_write()
        for watcher in self._watchers:
            watcher.tape_grew()
        self._pacer.wrote(offset + len(chunk), self._watchers)
        if self._recording is not None:
            self._recording.output(chunk)
        if self._screen is not None:
            for finding in self._screen.feed(chunk, offset):
                self._take(finding)
            self._publish_soon()

    def _pane_resized(self, cols: int, rows: int) -> None:
        """tmux decides on the size of its pane: follow at once, what comes next is drawn for it."""
        with suppress(InvalidSize):
            check_size(cols, rows)
            self._resize_now(cols, rows, None)

    def _pause(self) -> None:
        if self._pty is not None:
            self._pty.pause()

    def _resume(self) -> None:
        if self._pty is not None:
            self._pty.resume()

    def _take(self, finding: Finding) -> None:
        if not isinstance(finding, Reply):
            self._user.found(finding)
        elif self._pty is not None:
            self._expected[finding.kind] = asyncio.get_running_loop().time() + ANSWER_WINDOW
            waits = self._pty.input_waiting
            if not self._pty.answers_queries and waits + len(finding.data) < self._settings.input_buffer:
                self._pty.write(finding.data)

    def _exit(self, code: int | None, signal: int | None) -> None:
        if self._screen is not None:
            self._screen.end()
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        for watcher in self._watchers:
            watcher.tape_grew()
            watcher.screen_changed()
        self._user.ended(code, signal)

    # Publishing

    def _publish_soon(self) -> None:
        if self._publishing is None and self._watchers and self._screen is not None:
            loop = asyncio.get_running_loop()
            self._publishing = loop.call_later(self._settings.screen_interval, self._publish)

    def _publish(self) -> None:
        self._publishing = None
        if self._screen is not None and self._screen.held:
            self._publish_soon()
            return
        for watcher in self._watchers:
            watcher.screen_changed()

    def _without_second_answers(self, data: bytes) -> bytes:
        now = asyncio.get_running_loop().time()
        self._expected = {kind: until for kind, until in self._expected.items() if until > now}

        def keep(match: re.Match[bytes]) -> bytes:
            return b"" if match.lastgroup in self._expected else match.group()

        return ANSWER.sub(keep, data) if b"\x1b" in data else data
