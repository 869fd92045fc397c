"""A pane of somebody's tmux, with the interface of a ``Pty``: watched and driven by a control client, never owned.

The client (``tmux -CC attach-session``) is our only process: its end detaches, and nothing else ends with us. It has
no size until ``resize`` gives it one; then it counts as one more terminal in tmux's ``window-size``, so the pane's
real size may differ, and is told by ``on_resize``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from dragoman.agents.common.ending import KillSchedule
from dragoman.agents.common.processes import ProcessTable, foreground_group, pid_start
from dragoman.hub.errors import InputRefused, InvalidRequest

from .pty import OnData, OnExit, Pty, PtyLimits
from .spawn import check_size
from .tmux import Pane, tmux_environment
from .tmux_control import FORMAT, FORMAT_OF_ALL, ControlReader, Lines, Reply, fields_of, picture

OnResize = Callable[[int, int], None]

_KEYS_AT_ONCE = 512
"""Bytes of input in one command."""

_COMMANDS = 4
"""The client's own input limit, as a multiple of ours: a byte of input is three in a command."""

_CHANGES = frozenset((b"layout-change", b"window-close", b"unlinked-window-close", b"subscription-changed"))
"""Notifications after which the pane may have another size or process, or be gone."""


class TmuxPty:
    """See the module. ``on_data`` gets a picture of the pane first, then what its program writes.

    ``on_exit(None, None)`` comes once: the pane, its program or its session is gone, or we have detached.
    """

    answers_queries = True
    """tmux is the program's terminal, and answers what it asks."""

    def __init__(
        self, pane: Pane, on_data: OnData, on_exit: OnExit, on_resize: OnResize, limits: PtyLimits | None
    ) -> None:
        self._pane = pane
        self._on_data = on_data
        self._on_exit = on_exit
        self._on_resize = on_resize
        self._limits = limits or PtyLimits()
        self._pid, self._pid_start = pane.pid, pane.pid_start
        self._size = pane.size
        self._around = pane.around
        self._started = self._drawn = self._gone = self._over = False
        self._sessions = 0
        self._looking = self._look_again = False
        self._output = bytearray()
        self._bytes_read = 0
        self._bytes_written = 0
        self._input_waiting = 0
        self._drain_waiters: list[asyncio.Future[bool]] = []
        self._commands: list[bytes] = []
        self._reader = ControlReader(started=self._start, output=self._wrote, notified=self._notified)
        self._client: Pty | None = None

    @classmethod
    def spawn(
        cls,
        pane: Pane,
        *,
        cwd: str,
        env: Mapping[str, str],
        on_data: OnData,
        on_exit: OnExit,
        on_resize: OnResize,
        limits: PtyLimits | None = None,
        schedule: KillSchedule | None = None,
        processes: ProcessTable | None = None,
    ) -> TmuxPty:
        """Attach to a pane. Raises what ``Pty.spawn`` raises."""
        self = cls(pane, on_data, on_exit, on_resize, limits)
        self._client = Pty.spawn(
            # -E: the session's environment stays what its owner made it.
            (*pane.command, "-CC", "attach-session", "-E", "-t", pane.session),
            cwd=cwd,
            env=tmux_environment(env),
            cols=pane.size[0],
            rows=pane.size[1],
            on_data=self._read,
            on_exit=self._ended,
            limits=PtyLimits(read=self._limits.read, input=self._limits.input * _COMMANDS),
            schedule=schedule,
            processes=processes,
        )
        self._begin()
        return self

    # What it is

    @property
    def pid(self) -> int | None:
        """The process that tmux started in the pane; None once that is over."""
        return None if self._gone or self._over else self._pid

    @property
    def pid_start(self) -> int | None:
        """When that process started, in clock ticks since the machine's start."""
        return self._pid_start

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the pane."""
        return self._size

    @property
    def running(self) -> bool:
        """Whether ``on_exit`` is still to come."""
        return not self._over

    @property
    def bytes_read(self) -> int:
        """Bytes handed to ``on_data``, the first picture included."""
        return self._bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes of input that tmux has taken."""
        return self._bytes_written

    @property
    def input_waiting(self) -> int:
        """Bytes of input that tmux has not taken yet."""
        return self._input_waiting

    # What one may do with it

    def write(self, data: bytes) -> None:
        """Type into the pane, byte by byte as given; a pager that its owner has opened over it (copy mode) is closed.

        Raises ``InputRefused``, with nothing written, if more than the ``input`` limit would have to wait.
        """
        if self._gone or self._over:
            return
        if self._input_waiting + len(data) > self._limits.input:
            raise InputRefused(
                f"tmux does not read: {self._input_waiting} bytes wait, and {len(data)} more would pass the input "
                f"limit of {self._limits.input}"
            )
        self._input_waiting += len(data)
        for at in range(0, len(data), _KEYS_AT_ONCE):
            self._type(data[at : at + _KEYS_AT_ONCE])

    def _type(self, keys: bytes) -> None:
        def taken(lines: Lines | None) -> None:
            self._input_waiting -= len(keys)
            self._bytes_written += 0 if lines is None else len(keys)
            if not self._input_waiting:
                self._wake_drained(lines is not None)

        pane = self._pane.pane
        self._ask(f"copy-mode -q -t {pane} ; send-keys -H -t {pane} {keys.hex(' ')}", _ignore, taken)

    async def drained(self) -> bool:
        """Wait until tmux has taken all input; False if the pane was gone before that."""
        if self._gone or self._over:
            return False
        if not self._input_waiting:
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._drain_waiters.append(waiter)
        return await waiter

    def unread(self) -> int:
        """Bytes of input that tmux has not taken yet: what became of them there cannot be known."""
        return self._input_waiting

    def resize(self, cols: int, rows: int) -> None:
        """Ask tmux for a new size. Raises ``InvalidSize`` beyond 1 to 65535; after the end it does nothing."""
        check_size(cols, rows)
        if (cols, rows) == self._size or self._gone or self._over:
            return
        self._ask_for(cols, rows)
        self._look()

    def _ask_for(self, cols: int, rows: int) -> None:
        # The window is larger than its pane by what lies beside it; of several panes ours gets the size.
        self._ask(f"refresh-client -C {cols + self._around[0]},{rows + self._around[1]}", _ignore)
        self._ask(f"resize-pane -t {self._pane.pane} -x {cols} -y {rows}", _ignore)

    def signal(self, number: int) -> None:
        """Send a signal to what runs in the foreground of the pane, as a key on its terminal would.

        Raises ``InvalidRequest`` if that belongs to another user.
        """
        if self._gone or self._over or (self._pid_start is not None and pid_start(self._pid) != self._pid_start):
            return
        try:
            os.killpg(foreground_group(self._pid) or os.getpgid(self._pid), number)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise InvalidRequest(
                f"what runs in {self._pane.pane} belongs to another user: the system does not let us signal it"
            ) from error

    def pause(self) -> None:
        """Stop reading; tmux keeps what comes meanwhile, and the program goes on."""
        self._own.pause()

    def resume(self) -> None:
        """Read again."""
        self._own.resume()

    async def terminate(self, interrupt_first: bool = False, *, schedule: KillSchedule | None = None) -> bool:
        """Detach, whatever it takes; what runs in tmux is not touched. True once it is done."""
        return await self._own.terminate(interrupt_first, schedule=schedule)

    async def wait_closed(self) -> None:
        """Wait until nothing of ours is left."""
        await self._own.wait_closed()

    @property
    def _own(self) -> Pty:
        assert self._client is not None
        return self._client

    # The control client

    def _ask(self, line: str, *replies: Reply) -> None:
        self._reader.expect(*replies)
        data = line.encode() + b"\n"
        if self._started:
            self._own.write(data)
        else:  # its terminal would echo it
            self._commands.append(data)

    def _start(self) -> None:
        self._started = True
        waiting, self._commands = self._commands, []
        for line in waiting:
            self._own.write(line)

    def _begin(self) -> None:
        """The first commands: the size that is wanted, then the picture, all taken by tmux in one step."""
        if self._pane.wanted is not None and self._pane.wanted != self._size:
            self._ask_for(*self._pane.wanted)
        pane = self._pane.pane
        capture = f"capture-pane -p -t {pane}"
        replies: list[Lines] = []

        def replied(lines: Lines | None) -> None:
            replies.append(lines or ())
            if len(replies) == 4:
                self._draw(*replies)

        commands = (self._question, f"{capture} -e", f"{capture} -e -a -q", f"{capture} -P -C")
        self._ask(" ; ".join(commands), *[replied] * len(commands))
        self._ask(f"refresh-client -B 'dragoman::{FORMAT_OF_ALL}'", _ignore)

    @property
    def _question(self) -> str:
        """Empty when the pane is not in this session any more."""
        here = self._pane
        return f"list-panes -s -t '{here.session}' -f '#{{==:#{{pane_id}},{here.pane}}}' -F '{FORMAT}'"

    def _draw(self, said: Lines, lines: Lines = (), other: Lines = (), pending: Lines = ()) -> None:
        if not self._take_in(said):
            return
        self._output += picture(fields_of(said[0]), lines, other, b"".join(pending), pasting=self._pane.pasting)
        self._drawn = True

    def _look(self) -> None:
        """Ask how the pane is; of many looks in a row only the last counts."""
        if self._looking:
            self._look_again = True
            return
        self._looking = True
        self._ask(self._question, self._looked)

    def _looked(self, lines: Lines | None) -> None:
        self._looking = False
        again, self._look_again = self._look_again, False
        if again:
            self._look()
        else:
            self._take_in(lines or ())

    def _take_in(self, said: Lines) -> bool:
        """Follow the pane's size and process; False if it is over."""
        pane = fields_of(said[0]) if said else {"pane_dead": "1"}
        if pane["pane_dead"] == "1":
            self._leave()
            return False
        if int(pane["pane_pid"]) != self._pid:  # its owner has respawned it
            self._pid = int(pane["pane_pid"])
            self._pid_start = pid_start(self._pid)
        self._size = int(pane["pane_width"]), int(pane["pane_height"])
        self._around = int(pane["window_width"]) - self._size[0], int(pane["window_height"]) - self._size[1]
        self._pass_on()  # what was written before belongs to the old size
        self._on_resize(*self._size)
        return True

    def _leave(self) -> None:
        """The pane is over: detach."""
        if not self._gone:
            self._gone = True
            self._wake_drained(False)
            self._own.write(b"\n")

    def _notified(self, name: bytes, _rest: bytes) -> None:
        if name in _CHANGES:
            self._look()
        elif name == b"session-changed":
            # The first one is ours. Another: the session is gone, and tmux took us to the next (detach-on-destroy).
            self._sessions += 1
            if self._sessions > 1:
                self._leave()

    def _read(self, chunk: bytes) -> None:
        self._reader.feed(chunk)
        self._pass_on()

    def _pass_on(self) -> None:
        if self._output:
            data = bytes(self._output)
            self._output.clear()
            self._bytes_read += len(data)
            self._on_data(data)

    def _wrote(self, pane: bytes, data: bytes) -> None:
        if self._drawn and pane == self._pane.pane.encode():
            self._output += data

    def _ended(self, _code: int | None, _signal: int | None) -> None:
        self._over = True
        self._wake_drained(False)
        self._on_exit(None, None)

    def _wake_drained(self, taken: bool) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(taken)


def _ignore(_lines: Lines | None) -> None:
    """What a command says that may fail: a look at the pane tells what came of it."""
