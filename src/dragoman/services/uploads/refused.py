"""What stands in the way of files and pictures. ``str()`` is what a client is told (spec §8)."""

from __future__ import annotations


class UploadRefused(Exception):
    """It is not taken as it came, and nothing of it is kept."""


class UploadFailed(UploadRefused):
    """It could not be kept, for a reason that lies here: no room, a folder that cannot be written."""
