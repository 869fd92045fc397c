"""Real agents that somebody starts by themselves, with our hooks installed: what the bridge tells of them."""

import pytest

pytest.register_assert_rewrite("tests.e2e.cin.house", "tests.e2e.cin.told", "tests.e2e.cin.lines")
