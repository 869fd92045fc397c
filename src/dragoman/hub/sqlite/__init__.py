"""The journal on disk: one SQLite file in WAL mode, one writer thread with natural group commit.

``schema`` knows the file (what it must look like, how it is made, checked and migrated), ``writer`` the thread that
commits, ``reader`` the connections that never wait for it, ``journal`` puts them together for the event loop.
"""

from .journal import SqliteJournal

__all__ = ["SqliteJournal"]
