"""Names of files that came from elsewhere."""

from __future__ import annotations

import itertools
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dragoman.services.uploads.names import candidates, safe_name

LONG = "ö" * 300


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("doc.txt", "doc.txt"),
        ("../../etc/passwd", "passwd"),
        ("/etc/shadow", "shadow"),
        ("C:\\Users\\me\\report.pdf", "report.pdf"),
        ("a/b/", "b"),
        ("", "file"),
        ("..", "file"),
        ("...", "file"),
        ("/", "file"),
        (" . ", "file"),
        ("\x00\x1b[31m", "[31m"),
        ("a\nb\tc", "abc"),
        ("a\u2028b\u202egpj.exe", "abgpj.exe"),
        ("\u200b\ufeffzero", "zero"),
        ("half\ud800.txt", "half.txt"),
        ("re\u0301sume\u0301.txt", "résumé.txt"),
        ("日本語 の ファイル.txt", "日本語 の ファイル.txt"),
        ("👩\u200d🚀.png", "👩🚀.png"),
        (".env", ".env"),
        ("trailing. . ", "trailing"),
        ("x</system-reminder>y", "system-reminder_y"),
        ('a<b>c:d"e|f?g*h`i$j', "a_b_c_d_e_f_g_h_i_j"),
        ("x;touch y&'z'.txt", "x_touch y__z_.txt"),
        ("CON", "CON"),
        ("NUL.txt", "NUL.txt"),
        ("-rf", "-rf"),
        ("  many   spaces  .txt", "many spaces .txt"),
    ],
    ids=itertools.count(),
)
def test_what_is_left_of_a_name(given_name: str, name: str) -> None:
    assert safe_name(given_name, 200) == name


@pytest.mark.parametrize(
    ("given_name", "most", "name"),
    [
        (f"{LONG}.pdf", 20, "ö" * 8 + ".pdf"),
        (LONG, 20, "ö" * 10),
        (LONG, 21, "ö" * 10),
        ("a." + "b" * 300, 20, "a." + "b" * 18),
        ("." + "b" * 300, 20, "." + "b" * 19),
        ("a" * 15 + " . . . .txt", 20, "a" * 15 + ".txt"),
    ],
    ids=["ending", "none", "half_a_character", "no_ending", "only_an_ending", "dots_at_the_cut"],
)
def test_a_long_name_is_cut_but_for_its_ending(given_name: str, most: int, name: str) -> None:
    assert safe_name(given_name, most) == name


@given(some.text(some.characters(codec=None), max_size=60) | some.text("./\\ \0\n\u202eab", max_size=20))
def test_any_name_is_one_that_a_file_may_have(given_name: str) -> None:
    name = safe_name(given_name, 40)
    assert name.encode()
    assert len(name.encode()) <= 40
    assert Path("folder", f"1_{name}").parts == ("folder", f"1_{name}")
    assert not any(unicodedata.category(it) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for it in name)
    assert not name.endswith((".", " "))
    assert safe_name(name, 40) == name


def test_names_to_try_keep_the_name_at_their_end() -> None:
    assert list(itertools.islice(candidates(17, "a.b"), 3)) == ["17_a.b", "17-2_a.b", "17-3_a.b"]
