"""Writing checkpoints into their sessions' records, within what the settings allow."""

from __future__ import annotations

import msgspec

from dragoman.hub.checkpoints import CheckpointGone, CheckpointProblem, Saved
from dragoman.hub.events import Json

from .camera import Shot
from .files import shown
from .keeper import Keeper
from .objects import Damaged
from .places import Place
from .records import Kept, Original, Record, now
from .settings import CheckpointSettings
from .stop import Stop

_LOST = "-lost"
"""What is added to the id of a checkpoint that the log never learned of."""

_SHOWN = 20
"""So many paths are named in a checkpoint's detail."""


class New(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that is to be. ``first`` is the session's first one, None if this is to be it; ``spare`` stays."""

    session: str
    checkpoint: str
    first: str | None
    spare: str = ""


class Recorder:
    """See the module. Everything here blocks."""

    def __init__(self, settings: CheckpointSettings, keeper: Keeper) -> None:
        self._settings = settings
        self._keeper = keeper

    def add(self, place: Place, new: New, shot: Shot, size: int) -> Saved:
        """Record it. One of the same id, which the log never learned of, is set aside. Raises ``CheckpointProblem``."""
        added: Saved | None = None
        folder = shown(place.path)

        def change(record: Record | None) -> Record:
            nonlocal added
            record = _set_aside(record or _begun(place, new.session), new.checkpoint)
            if new.first is None:
                added = Saved(changed=False, size=size, detail=_detail(shot))
                original = Original(id=new.checkpoint, patch_bytes=size, image=shot.name.hex(), folder=folder)
                return msgspec.structs.replace(record, original_snapshot=original)
            changed = self._differs(record, new.first, shot)
            dropped = self._too_many(record, new)
            added = Saved(changed=changed, size=size, dropped=_known(dropped), detail=_detail(shot))
            kept = Kept(
                id=new.checkpoint,
                index=record.checkpoints[-1].index + 1 if record.checkpoints else 1,
                created_at=now(),
                changed=changed,
                patch_bytes=size,
                image=shot.name.hex(),
                folder=folder,
            )
            record = record.without(frozenset(dropped))
            return msgspec.structs.replace(record, checkpoints=(*record.checkpoints, kept))

        self._keeper.records.change(new.session, change)
        assert added is not None
        return added

    def fit(self, new: New, saved: Saved, stop: Stop) -> Saved:
        """What was recorded, once older ones have gone for the quota, if they have to. Raises ``Stopped``."""
        if not self._keeper.above:
            return saved
        gone = self._keeper.fit(new.session, frozenset((new.checkpoint, new.spare)), stop)
        return msgspec.structs.replace(saved, dropped=saved.dropped + _known(gone))

    def forget(self, session: str, checkpoint: str) -> bool:
        """Take one out of its record; whether it was there. Raises ``CheckpointProblem``."""
        found = False

        def change(record: Record | None) -> Record | None:
            nonlocal found
            found = record is not None and record.find(checkpoint) is not None
            return record.without(frozenset((checkpoint,))) if found and record is not None else None

        self._keeper.records.change(session, change)
        return found

    def close(self, session: str) -> None:
        """Note that nothing will be added. Raises ``CheckpointProblem``."""

        def change(record: Record | None) -> Record | None:
            if record is None or record.state == "closed":
                return None
            return msgspec.structs.replace(record, state="closed", closed_at=now())

        self._keeper.records.change(session, change)

    def image(self, place: Place, session: str, checkpoint: str) -> bytes:
        """The name of a checkpoint's image. Raises ``CheckpointProblem``, also if it is of another workspace.

        What leads to a workspace may be a link, which somebody, the agent say, has made to lead elsewhere since.
        """
        record = self._keeper.records.read(session)
        kept = record.find(checkpoint) if record is not None else None
        if kept is None:
            raise CheckpointGone(f"nothing is kept of checkpoint {checkpoint}")
        if kept.folder not in ("", shown(place.path)):
            raise CheckpointProblem(f"checkpoint {checkpoint} is of {kept.folder}, and not of {shown(place.path)}")
        return kept.object

    def _differs(self, record: Record, first: str, shot: Shot) -> bool:
        kept = record.find(first)
        if kept is not None and kept.object == shot.name:
            return False
        try:
            return kept is None or self._keeper.objects.image(kept.object).substance != shot.image.substance
        except Damaged:  # the first one is lost, which is no reason to keep nothing any more
            return True

    def _too_many(self, record: Record, new: New) -> tuple[str, ...]:
        over = len(record.checkpoints) + 1 - max(1, self._settings.per_session)
        loose = [it.id for it in record.checkpoints if it.id != new.spare]
        return tuple(loose[: max(0, over)])


def _set_aside(record: Record, checkpoint: str) -> Record:
    """Make room for this id. What has it was taken just before a crash; if for safety, it is all there is of somebody's
    work, so that it stays for people to find until it is among the oldest."""
    lost = record.find(checkpoint)
    if not isinstance(lost, Kept):
        return record.without(frozenset((checkpoint,)))
    aside = msgspec.structs.replace(lost, id=checkpoint + _LOST)
    record = record.without(frozenset((checkpoint, aside.id)))
    return msgspec.structs.replace(record, checkpoints=(*record.checkpoints, aside))


def _known(gone: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the log knows of."""
    return tuple(it for it in gone if not it.endswith(_LOST))


def _begun(place: Place, session: str) -> Record:
    return Record(session_id=session, working_directory=shown(place.path), created_at=now())


def _detail(shot: Shot) -> dict[str, Json]:
    skipped = shot.image.skipped
    if not skipped:
        return {}
    return {"sockets": len(skipped), "skipped": [shown(path) for path in skipped[:_SHOWN]]}
