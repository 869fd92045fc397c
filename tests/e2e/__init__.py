"""Real agents behind the real server."""

import pytest

pytest.register_assert_rewrite("tests.e2e.harness", "tests.e2e.lines")
