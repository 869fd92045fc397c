"""Hostile and ordinary terminal output, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

CONTROLS = [bytes((code,)) for code in (0x00, 0x07, 0x08, 0x09, 0x0A, 0x0D, 0x18, 0x1A, 0x1B, 0x7F)]
PIECES = [
    *CONTROLS,
    *(b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b^", b"\x1bX", b"\x1b\\", b"\x1b(", b"\x1b#", b"\x1bc", b"\x1b7"),
    *(b"\xc2\x9b", b"\xc2\x9d", b"\xc2\x90", b"\xc2\x9c", b"\xc2\x85", b"\xc2\x9f"),
    *(b"?", b">", b"<", b"=", b"!", b"$", b" ", b";", b":", b"0", b"1", b"2", b"25", b"2026", b"1049", b"47", b"66585"),
    *(b"h", b"l", b"m", b"n", b"c", b"p", b"q", b"u", b"t", b"H", b"J", b"K", b"L", b"P", b"r", b"A", b"B", b"x"),
    *(b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?47h", b"\x1b[?1047l", b"\x1b[?25l", b"\x1b[?25h", b"\x1b[?1;25h"),
    *(b"\x1b[?2026h", b"\x1b[?2026l", b"\x1b[6n", b"\x1b[c", b"\x1b[!p", b"\x1b[?7l", b"\x1b[4h", b"\x1b[?2004h"),
    *(
        b"\x1b]0;t\x07",
        b"\x1b]2;u\x1b\\",
        b"\x1b]11;?\x07",
        b"\x1b]7501;?\x1b\\",
        b"\x1b]133;A\x07",
        b"\x1b]52;c;QQ==\x07",
    ),
    *(
        "é".encode(),
        "世".encode(),
        "🙂".encode(),
        "e\u0301".encode(),
        b"\xe4\xb8",
        b"\xf0\x9f",
        b"\xff",
        b"\x80",
        b"\xc3",
    ),
    *(b"hello", b"\r\n", b"\x1b[31m", b"\x1b[0m", b"\x1b[2J", b"\x1b[2;4r", b"\x1b[3;3H", b"\x1b[99C", b"\x1b[5b"),
]

pieces = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)), max_size=40)
"""Pieces of output; cut between them or joined."""

streams = pieces.map(b"".join)
