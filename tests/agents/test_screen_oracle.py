"""The terminal model against an independent one: tmux draws the same bytes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.agents.terminal.screen import PyavtScreen

from .tmux_oracle import TMUX, Picture, TmuxOracle

pytestmark = pytest.mark.skipif(TMUX is None, reason="tmux is not installed: no independent terminal to ask")

COLS, ROWS = 20, 6


@pytest.fixture(scope="module")
def server() -> Iterator[TmuxOracle]:
    # Not below pytest's own folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="oracle") as folder:
        oracle = TmuxOracle(Path(folder), COLS, ROWS)
        yield oracle
        oracle.close()


@pytest.fixture
def tmux(server: TmuxOracle) -> TmuxOracle:
    server.resize(COLS, ROWS)
    server.clear()
    return server


def shown(screen: PyavtScreen) -> Picture:
    picture = screen.snapshot()
    return Picture(
        picture.lines,
        picture.cursor.row,
        picture.cursor.col,
        picture.alt_screen,
        picture.cursor_visible,
    )


def drawn(data: bytes, cols: int = COLS, rows: int = ROWS) -> PyavtScreen:
    screen = PyavtScreen(cols, rows)
    screen.feed(data, 0)
    return screen


DRAWINGS = {
    "text": "hello\r\nworld",
    "accents and wide characters": "héllo 世界 ñ",
    "line full": "a" * COLS,
    "line overfull": "a" * COLS + "b",
    "wrap over several lines": "the quick brown fox jumps over the lazy dog",
    "wide characters fill the line": "世" * 15,
    "wide character ends in the last column": "a" * (COLS - 2) + "世",
    "wide character does not fit the last column": "a" * (COLS - 1) + "世x",
    "korean": "한국 가x",
    "no wrap": "\x1b[?7l" + "a" * 30,
    "scrolling": "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8",
    "carriage return overwrites": "abcdef\rxyz",
    "backspace": "abc\b\bX",
    "tabs": "a\tb\tc\td",
    "tab stop set": "\x1b[5C\x1bH\ra\tb",
    "tab stops cleared": "a\x1b[3g\tb",
    "back tab": "abc\x1b[ZX",
    "scroll region": "\x1b[2;4r1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7",
    "scroll region, reverse index": "\x1b[2;4r\x1b[2Ha\r\nb\r\nc\x1b[2H\x1bMtop",
    "scroll region, scroll up and down": "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[S\x1b[2T",
    "scroll region reset": "\x1b[2;3r\x1b[rX\x1b[6HY\r\nZ",
    "origin mode": "\x1b[3;5r\x1b[?6h\x1b[1;1HX\x1b[99;1HY",
    "insert characters": "abcdef\x1b[3G\x1b[2@XY",
    "delete characters": "abcdef\x1b[2G\x1b[2P",
    "erase characters": "abcdef\x1b[2G\x1b[3X",
    "insert lines": "a\r\nb\r\nc\r\nd\x1b[2;1H\x1b[2LX",
    "delete lines": "a\r\nb\r\nc\r\nd\x1b[2;1H\x1b[2MX",
    "insert lines in a region": "a\r\nb\r\nc\r\nd\r\ne\x1b[2;4r\x1b[3;1H\x1b[L",
    "insert mode": "abc\x1b[G\x1b[4hXY\x1b[4lZ",
    "erase in line": "abcdef\x1b[3D\x1b[K\r\nabcdef\x1b[3D\x1b[1K\r\nabcdef\x1b[2K",
    "erase below": "a\r\nbbb\r\nc\x1b[2;2H\x1b[J",
    "erase above": "a\r\nbbb\r\nc\x1b[2;2H\x1b[1J",
    "erase all": "a\r\nb\x1b[2JX",
    "cursor moves are clamped": "\x1b[99;99HX\x1b[99AY\x1b[99D\x1b[99BZ",
    "cursor saved and restored": "ab\x1b7\r\ncd\x1b8X",
    "next line, index": "ab\x1bEcd\x1bDef",
    "repeat": "ab\x1b[5bc",
    "alignment": "\x1b#8",
    "alternate screen on": "main\x1b[?1049h\x1b[Halt",
    "alternate screen and back": "main\x1b[?1049h\x1b[Halt\x1b[?1049lX",
    "alternate screen 47": "main\x1b[?47h\x1b[Halt",
    "alternate screen 1047 and back": "main\x1b[?1047halt\x1b[?1047l",
    "alternate screen off, on, off in one": "x\x1b[?1049h\x1b[?1049l\x1b[?1049h\x1b[?1049ly",
    "cursor hidden": "abc\x1b[?25l",
    "cursor hidden and shown with other modes": "\x1b[?25;1l\x1b[?1000;25;2004h",
    "full reset": "abc\x1b[?25l\x1b[2;4r\x1b[31mX\x1bcY",
    "control inside a sequence": "ab\x1b[2\nCd",
    "sequence aborted": "ab\x1b[31\x18cd",
    "sequence restarted": "ab\x1b[31\x1b[2Ccd",
    "title does not draw": "ab\x1b]2;a title\x07cd\x1b]0;b\x1b\\ef",
    "device string does not draw": "ab\x1bP1;2|stuff\x1b\\cd",
    "application string does not draw": "ab\x1b_Gi=1;AAAA\x1b\\cd",
    "delete is ignored": "a\x7fb",
    "null is ignored": "a\x00b",
}


@pytest.mark.parametrize("text", DRAWINGS.values(), ids=DRAWINGS.keys())
def test_drawing_is_the_same(tmux: TmuxOracle, text: str) -> None:
    tmux.paint(text.encode())
    assert shown(drawn(text.encode())) == tmux.picture()


@pytest.mark.parametrize(
    "text",
    [
        "aé世界ñ🙂b\x1b[31m世\x1b[0m",
        "世\x1b[?1049h界\x1b[?25l\x1b[2;3H🙂\x1b]2;títle\x1b\\ü\x1b[?1049lé",
        "ab\x1b[2;4r\x1b[3;1H世\r\n\x1b[?7l" + "é" * 25,
    ],
)
def test_drawing_is_the_same_wherever_the_bytes_are_cut(tmux: TmuxOracle, text: str) -> None:
    data = text.encode()
    tmux.paint(data)
    expected = tmux.picture()
    for cut in range(1, len(data)):
        screen = PyavtScreen(COLS, ROWS)
        screen.feed(data[:cut], 0)
        screen.feed(data[cut:], cut)
        assert shown(screen) == expected, f"cut at {cut}: {data[:cut]!r} | {data[cut:]!r}"


def random_drawing(rng: random.Random) -> bytes:
    """Sequences that all terminals agree on.

    The top margin is above the bottom one, no wide character is cut up, no text stops in the last column (where tmux
    alone lets the cursor stand one further right), and lines are inserted and deleted only inside the margins.
    """

    def step() -> str:
        n, m, top = rng.randint(1, ROWS), rng.randint(1, COLS), rng.randint(1, ROWS - 1)
        return rng.choice(
            [
                *("\r", "\n", "\t", "\b", "\x1b[@", "\x1bM", "\x1bD", "\x1bE"),
                f"\x1b[{n};{rng.randint(1, COLS - 12)}H{rng.choice(('hello world', 'é', 'x'))}",
                f"\x1b[{n};{m}H",
                f"\x1b[{n}{rng.choice('ABST')}",
                f"\x1b[r\x1b[{n};{m}H\x1b[{top}{rng.choice('LM')}",
                f"\x1b[{m}{rng.choice('CDGPX')}",
                f"\x1b[{rng.randint(0, 2)}{rng.choice('JK')}",
                f"\x1b[{top};{rng.randint(top + 1, ROWS)}r",
            ]
        )

    return "".join(step() for _ in range(rng.randint(1, 25))).encode()


def test_random_drawings_are_the_same(tmux: TmuxOracle) -> None:
    rng = random.Random(2026)
    for _ in range(200):
        tmux.clear()
        data = random_drawing(rng)
        tmux.paint(data)
        assert shown(drawn(data)) == tmux.picture(), f"after {data!r}"


ENGINE_FAULTS = {
    "an impossible scroll region moves the cursor": "abc\x1b[5;4r",
}
"""Where the engine is wrong, and tmux and xterm are right. May only shrink."""


@pytest.mark.parametrize("text", ENGINE_FAULTS.values(), ids=ENGINE_FAULTS.keys())
def test_known_faults_of_the_engine_are_still_there(tmux: TmuxOracle, text: str) -> None:
    tmux.paint(text.encode())
    assert shown(drawn(text.encode())) != tmux.picture(), "it draws right now: take it out of the table"


STYLES = {
    "attributes": "".join(f"\x1b[{code}mx\x1b[0m-" for code in (1, 2, 3, 4, 5, 7, 9)),
    "attributes off": "\x1b[1;3;4;7;9mx\x1b[22my\x1b[23mz\x1b[24ma\x1b[27mb\x1b[29mc",
    "basic colours": "".join(f"\x1b[{30 + n};{47 - n}m{n}" for n in range(8)),
    "bright colours": "".join(f"\x1b[{90 + n};{107 - n}m{n}" for n in range(8)),
    "palette": "\x1b[38;5;208;48;5;17mx\x1b[39my\x1b[49mz",
    "true colour": "\x1b[38;2;1;2;3;48;2;250;251;252mx",
    "styled blanks": "a\x1b[44m   \x1b[0m b",
    "styled wide characters": "\x1b[1;35m世界\x1b[0m!",
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES.keys())
def test_styles_are_the_same(tmux: TmuxOracle, text: str) -> None:
    tmux.paint(text.encode())
    theirs = drawn(tmux.coloured().removesuffix(b"\n").replace(b"\n", b"\r\n"))
    assert drawn(text.encode()).styled() == theirs.styled()


def test_title_is_the_same(tmux: TmuxOracle) -> None:
    data = "\x1b]0;one\x07\x1b]2;zwei 世界 é\x1b\\".encode()
    tmux.paint(data)
    assert drawn(data).snapshot().title == tmux.title()


def redraw(cols: int, rows: int) -> bytes:
    """What a program draws that fills its window after a resize: a frame of lines, the cursor in the middle."""
    lines = (f"{row:2d} {'世' if row % 2 else 'é'} ".ljust(cols, "=")[: cols - 1] for row in range(rows))
    body = "".join(f"\x1b[{row + 1};1H\x1b[K{line}" for row, line in enumerate(lines))
    return f"\x1b[2J{body}\x1b[{rows // 2 + 1};{cols // 2 + 1}H".encode()


@pytest.mark.parametrize("alternate", [False, True])
def test_a_program_that_redraws_looks_the_same_after_a_storm_of_resizes(tmux: TmuxOracle, alternate: bool) -> None:
    rng = random.Random(7)
    screen = PyavtScreen(COLS, ROWS)
    start = b"\x1b[?1049h" if alternate else b"some lines\r\nthat are there\r\n" * 3
    tmux.paint(start)
    screen.feed(start, 0)
    for _ in range(25):
        cols, rows = rng.randint(10, 60), rng.randint(5, 20)
        tmux.resize(cols, rows)
        screen.resize(cols, rows)
        picture = redraw(cols, rows)
        tmux.paint(picture)
        screen.feed(picture, 0)
        assert shown(screen) == tmux.picture(), f"at {cols}x{rows}"


CLUSTERS = {
    "precomposed": "é",
    "combining mark": "e\u0301",
    "two combining marks": "a\u0323\u0302",
    "hangul": "한",
    "skin tone": "\N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}",
    "flag": "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}",
    "family": "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
    "profession": "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
    "keycap": "1\ufe0f\u20e3",
    "emoji presentation": "\N{HEAVY BLACK HEART}\ufe0f",
    "text presentation": "\N{HEAVY BLACK HEART}\ufe0e",
    "devanagari": "\u0915\u094d\u0937\u093f",
}

CURSOR_IS_FURTHER_RIGHT_BY = {
    "combining mark": 1,
    "two combining marks": 2,
    "family": 6,
    "profession": 3,
    "keycap": 2,
    "emoji presentation": 1,
    "text presentation": 1,
    "devanagari": 1,
}
"""Known differences in width: the engine gives a mark or a joiner a cell of its own. May only shrink."""


@pytest.mark.parametrize("name", CLUSTERS)
def test_clusters_read_the_same_and_differ_in_width_only_where_known(tmux: TmuxOracle, name: str) -> None:
    text = f"<{CLUSTERS[name]}>".encode()
    tmux.paint(text)
    theirs, ours = tmux.picture(), shown(drawn(text))
    assert ours.lines == theirs.lines
    assert ours.row == theirs.row
    assert ours.col - theirs.col == CURSOR_IS_FURTHER_RIGHT_BY.get(name, 0), (
        "if the difference is gone, shorten the table; if it is new, the engine got worse"
    )
