"""Taking checkpoints: one image serves all who asked for the same workspace before it was begun."""

from __future__ import annotations

import asyncio
import logging

from dragoman.hub.checkpoints import CheckpointProblem, Saved

from .camera import Camera, Shot
from .keeper import Keeper
from .locks import locked
from .places import Place
from .recorder import New, Recorder
from .restoring import Restorer
from .settings import CheckpointSettings
from .stop import Stop, Stopped

log = logging.getLogger("dragoman.checkpoints")


class Asked:
    """One who asked. ``outcome`` is what came of it, once the round has ended."""

    def __init__(self, new: New) -> None:
        self.new = new
        self.withdrawn = False
        self.outcome: Saved | CheckpointProblem = CheckpointProblem("it was ended before it was done")

    def result(self) -> Saved:
        """The checkpoint. Raises ``CheckpointProblem``."""
        if isinstance(self.outcome, CheckpointProblem):
            raise self.outcome
        return self.outcome


class Round:
    """Those whom one image serves. ``begun``: who asks from now on is served by the next."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.asked: list[Asked] = []
        self.begun = False
        self.ended = asyncio.Event()
        self.stop = Stop()

    def withdraw(self, asked: Asked) -> None:
        """One has gone. With the last of them the work ends."""
        asked.withdrawn = True
        if all(it.withdrawn for it in self.asked):
            self.stop.set()

    def fail(self, problem: str) -> None:
        """None of them gets one."""
        for asked in self.asked:
            asked.outcome = CheckpointProblem(problem)


class Taker:
    """Serves rounds. Everything here blocks."""

    def __init__(
        self, settings: CheckpointSettings, keeper: Keeper, camera: Camera, recorder: Recorder, restorer: Restorer
    ) -> None:
        self._restorer = restorer
        self._settings = settings
        self._keeper = keeper
        self._camera = camera
        self._recorder = recorder

    def serve(self, round_: Round, stop: Stop) -> None:
        """Take an image, and give each its checkpoint or what stood in the way.

        Raises ``CheckpointProblem`` and ``OSError``, when nobody gets any, and ``Stopped``.
        """
        lock = self._camera.lock(round_.place)
        with (
            locked(lock, stop, self._settings.lock_seconds),
            self._keeper.using(stop),
            self._keeper.batch() as batch,
        ):
            self._restorer.recover(round_.place)
            generation = self._keeper.generation()
            shot = self._camera.take(round_.place, batch, generation, stop)
            batch.keep()
            self._camera.remember(round_.place, shot, generation)
            size = batch.size
            for asked in round_.asked:
                if not asked.withdrawn:
                    self._add(round_.place, asked, shot, size)
                    size = 0  # it brings nothing new any more
        for asked in round_.asked:
            self._fit(asked, stop)

    def _add(self, place: Place, asked: Asked, shot: Shot, size: int) -> None:
        try:
            asked.outcome = self._recorder.add(place, asked.new, shot, size)
        except CheckpointProblem as problem:
            asked.outcome = problem
        except OSError as error:
            asked.outcome = CheckpointProblem(str(error))

    def _fit(self, asked: Asked, stop: Stop) -> None:
        """Older ones go for it; where that is not enough, it goes itself."""
        if isinstance(asked.outcome, CheckpointProblem):
            return
        try:
            asked.outcome = self._recorder.fit(asked.new, asked.outcome, stop)
            if not self._keeper.above:
                return
            self._recorder.forget(asked.new.session, asked.new.checkpoint)
            asked.outcome = CheckpointProblem(
                f"all checkpoints together would take more than {self._settings.quota} bytes (checkpoints.quota)"
            )
            self._keeper.sweep(stop)
        except (CheckpointProblem, OSError, Stopped) as problem:  # others are at work: whoever comes next makes room
            log.info("nothing is let go for the quota now: %s", problem)
