"""Making a workspace what a checkpoint holds: staged and verified first, then swapped, and undone if anything fails."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem, Saved

from .camera import Camera, Shot
from .files import clear_inside, folder_at, shown
from .image import Image
from .keeper import Keeper
from .objects import Batch
from .places import Place
from .plan import Plan, make_plan
from .recorder import New, Recorder
from .settings import CheckpointSettings
from .staging import Staging
from .stop import Stop
from .swap import Swap, begin_swap, left_swaps

log = logging.getLogger("dragoman.checkpoints")


class Wish(msgspec.Struct, frozen=True):
    """What is to be restored where: ``image`` names the object; ``safety`` is what becomes of what is there."""

    place: Place
    safety: New
    image: bytes


class Restorer:
    """Restores, and ends what restores before a crash have left."""

    def __init__(self, settings: CheckpointSettings, keeper: Keeper, camera: Camera, recorder: Recorder) -> None:
        self._settings = settings
        self._keeper = keeper
        self._camera = camera
        self._recorder = recorder

    def restore(self, wish: Wish, stop: Stop) -> Saved:
        """Do it; gives the safety checkpoint. When it raises, the workspace is as it was.

        The caller keeps objects from being removed, and others from working on the workspace. Raises
        ``CheckpointProblem``, ``Stopped``, ``OSError``.
        """
        image = self._keeper.objects.image(wish.image)
        with self._keeper.batch() as batch, folder_at(wish.place.path) as root:
            swap = self._begin(wish, root)
            try:
                swap.stage(root)
                plan, shot = self._stage(wish, swap, root, image, batch, stop)
                batch.keep()
                swap.intend(plan)
                swap.perform(plan, root, stop)
                saved = self._recorder.add(wish.place, wish.safety, shot, batch.size)
                swap.mark_done()
            except BaseException:
                self._undo(swap)
                raise
            self._end(swap)
            return saved

    def recover(self, place: Place | None = None) -> None:
        """End what was cut off, here or everywhere: what was done stays, anything else is taken back.

        Raises ``CheckpointProblem`` if ``place`` has to stay halfway.
        """
        for swap in left_swaps(self._keeper.restores, sync=self._settings.sync):
            if place is not None and not place.overlaps(Place(swap.written.workspace, frozenset())):
                swap.let_go()
                continue
            log.warning("a restore of %s was cut off: it is ended now", shown(swap.written.workspace))
            try:
                self._recover(swap)
            except CheckpointProblem as problem:
                if place is not None:
                    raise
                log.error("%s", problem)  # noqa: TRY400

    def _recover(self, swap: Swap) -> None:
        if not Path(os.fsdecode(swap.written.workspace)).is_dir():
            log.warning("%s is not there now", shown(swap.written.workspace))  # a disk that may come back
            swap.let_go()
        elif swap.done:
            self._end(swap)
        else:
            self._undo(swap)

    def _begin(self, wish: Wish, root: int) -> Swap:
        new, sync = wish.safety, self._settings.sync
        return begin_swap(self._keeper.restores, wish.place.path, root, new.session, new.checkpoint, sync=sync)

    def _stage(self, wish: Wish, swap: Swap, root: int, image: Image, batch: Batch, stop: Stop) -> tuple[Plan, Shot]:
        """Build what comes, until the workspace stood still meanwhile."""
        objects, generation = self._keeper.objects, self._keeper.generation()
        shot = self._camera.take(wish.place, batch, generation, stop)
        for _ in range(self._settings.walks):
            plan = make_plan(shot.view, image, wish.place, objects.tree)
            with swap.staged(root) as (new, _old):
                clear_inside(new)
                Staging(new, objects.get, objects.tree, image.groups, stop).build(plan)
            again = self._camera.take(wish.place, batch, generation, stop, shot)
            if again.name == shot.name:
                return plan, again
            shot = again
        raise CheckpointProblem(f"{shown(wish.place.path)} changes while it is to be restored")

    def _undo(self, swap: Swap) -> None:
        written = swap.written
        try:
            swap.undo()
        except (CheckpointProblem, OSError) as problem:
            swap.let_go()
            left = shown(written.workspace + b"/" + written.staging)
            raise CheckpointProblem(
                f"a restore failed halfway, and was not taken back: {problem}. What it had moved away lies in {left}; "
                "the next checkpoint or restore tries again, and goes on once that folder is removed"
            ) from problem
        try:
            self._recorder.forget(written.session, written.safety)
        except CheckpointProblem as problem:  # nobody knows of it: one checkpoint too many does no harm
            log.warning("checkpoint %s of session %s is left over: %s", written.safety, written.session, problem)
        swap.forget()

    def _end(self, swap: Swap) -> None:
        """It is done, and nothing may fail any more: what cannot be cleared away now is left to the next time."""
        problem: Exception | None = None
        for _ in range(2):
            try:
                swap.finish()
            except (CheckpointProblem, OSError) as error:
                problem = error
            else:
                swap.forget()
                return
        log.warning("%s is left over: %s", shown(swap.written.staging), problem)
        swap.let_go()
