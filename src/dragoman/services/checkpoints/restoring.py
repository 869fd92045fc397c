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
        """Do it; the safety checkpoint. When it raises ``CheckpointProblem``, ``Stopped`` or ``OSError``, the workspace
        is as it was.

        The caller keeps objects from being removed, and others from working on the workspace.
        """
        image = self._keeper.objects.image(wish.image)
        with self._keeper.batch() as batch, folder_at(wish.place.path) as root:
            swap = self._begin(wish, root)
            try:
                swap.stage(root)
                plan, shot = self._stage(wish, swap, root, image, batch, stop)
                batch.keep()
                saved = self._recorder.add(wish.place, wish.safety, shot, batch.size)
                swap.intend(plan)
                swap.perform(plan, root, stop)
            except BaseException:
                self._undo(swap)
                raise
            self._end(swap)
            return saved

    def recover(self) -> None:
        """End what a crash has cut off: what was done stays, anything else is taken back."""
        for swap in left_swaps(self._keeper.restores, sync=self._settings.sync):
            log.warning("a restore of %s was cut off: it is ended now", shown(swap.written.workspace))
            try:
                if not Path(os.fsdecode(swap.written.workspace)).is_dir():
                    swap.forget()
                elif swap.done:
                    self._end(swap)
                else:
                    self._undo(swap)
            except (CheckpointProblem, OSError) as problem:
                log.error("%s", problem)  # noqa: TRY400

    def _begin(self, wish: Wish, root: int) -> Swap:
        new, sync = wish.safety, self._settings.sync
        return begin_swap(self._keeper.restores, wish.place.path, root, new.session, new.checkpoint, sync=sync)

    def _take(self, wish: Wish, batch: Batch, stop: Stop) -> Shot:
        return self._camera.take(wish.place, batch, self._keeper.generation(), stop)

    def _stage(self, wish: Wish, swap: Swap, root: int, image: Image, batch: Batch, stop: Stop) -> tuple[Plan, Shot]:
        """Build what comes, until the workspace stood still meanwhile."""
        objects = self._keeper.objects
        shot = self._take(wish, batch, stop)
        for _ in range(self._settings.walks):
            plan = make_plan(shot.view, image, wish.place, objects.tree)
            with swap.staged(root) as (new, _old):
                clear_inside(new)
                Staging(new, objects.get, objects.tree, image.groups, stop).build(plan)
            again = self._take(wish, batch, stop)
            if again.name == shot.name:
                return plan, again
            shot = again
        raise CheckpointProblem(f"{shown(wish.place.path)} changes while it is to be restored")

    def _undo(self, swap: Swap) -> None:
        try:
            swap.undo()
            self._recorder.forget(swap.written.session, swap.written.safety)
        except (CheckpointProblem, OSError) as problem:
            swap.let_go()
            left = shown(swap.written.workspace + b"/" + swap.written.staging)
            raise CheckpointProblem(
                f"the restore failed, and was not taken back: {problem}. What it had moved away lies in {left}; "
                "the server tries again when it starts"
            ) from problem
        swap.forget()

    def _end(self, swap: Swap) -> None:
        """It is done: what cannot be cleared away now is left to the next start."""
        try:
            swap.finish()
        except (CheckpointProblem, OSError) as problem:
            log.warning("%s is left over: %s", shown(swap.written.staging), problem)
            swap.let_go()
        else:
            swap.forget()
