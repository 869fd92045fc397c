"""Uploads: files and pictures that come inline with a prompt."""

from .receiving import UPLOAD, Received, discard, receive
from .refused import UploadFailed, UploadRefused
from .settings import UploadSettings

__all__ = ["UPLOAD", "Received", "UploadFailed", "UploadRefused", "UploadSettings", "discard", "receive"]
