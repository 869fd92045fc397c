"""Reading a terminal and drawing it, without a server: ``python -m bench.bare.feed HOW SIZE PROGRAM ARG...``

One loop: read, decode, feed the screen model; HOW ``json`` also makes each read a JSON message with base64 in it.
Prints the megabytes per second until SIZE bytes of flood are through.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import avt
import msgspec

from bench.programs import GO, READY

COLS, ROWS, SCROLLBACK = 120, 40, 1000


class Output(msgspec.Struct):
    """A message as coop's ``output`` is; msgspec writes bytes as base64."""

    event: str
    data: bytes
    offset: int


def main() -> None:
    how, size, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    program = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    seen = b""
    while not seen.endswith(READY):
        seen += os.read(master, 65536)
    began = time.perf_counter()
    os.write(master, GO)
    frames = _drain(master, size, with_json=how == "json")
    taken = time.perf_counter() - began
    print(json.dumps({"mbps": size / 1e6 / taken, "reads": frames}), flush=True)
    program.kill()
    program.wait()


def _drain(master: int, size: int, *, with_json: bool) -> int:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    feed = avt.Vt(COLS, ROWS, SCROLLBACK).feed_str
    encode = msgspec.json.Encoder().encode
    done = reads = 0
    while done < size:
        chunk = os.read(master, 65536)
        if with_json:
            encode(Output("output", chunk, done))
        feed(decode(chunk))
        done += len(chunk)
        reads += 1
    return reads


if __name__ == "__main__":
    main()
