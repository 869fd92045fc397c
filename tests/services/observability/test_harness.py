"""What a run is about: tidied as the original does it, in the same wire form."""

from __future__ import annotations

import msgspec

from dragoman.hub.clock import iso_time
from dragoman.services.observability.harness import HarnessContext, tidied

NOW = 1_795_817_227_128


def test_texts_are_trimmed_and_blank_ones_left_out() -> None:
    given = (
        b'{"runId":" run-01 ","taskId":"  ","objective":" Improve ","acceptanceCriteria":[" a ","","  "],'
        b'"constraints":["x"],"metadata":{"owner":" platform "},"extra":1}'
    )
    kept = tidied(msgspec.json.decode(given, type=HarnessContext), NOW)
    assert msgspec.json.encode(kept) == (
        b'{"runId":"run-01","objective":"Improve","acceptanceCriteria":["a"],"constraints":["x"],'
        b'"metadata":{"owner":" platform "},"updatedAt":"2026-11-27T22:07:07.128Z"}'
    )


def test_the_task_is_kept_where_there_is_one() -> None:
    given = HarnessContext(run_id="r2", task_id="t", objective="o", acceptance_criteria=(), constraints=())
    assert msgspec.json.encode(tidied(given, NOW)) == (
        b'{"runId":"r2","taskId":"t","objective":"o","acceptanceCriteria":[],"constraints":[],'
        b'"updatedAt":"2026-11-27T22:07:07.128Z"}'
    )


def test_times_have_milliseconds_even_where_there_are_none() -> None:
    assert iso_time(1_770_811_200_000) == "2026-02-11T12:00:00.000Z"
