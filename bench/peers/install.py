"""The peers' own virtual environment: made on first use, in the folder that ``--peers`` names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {"ptymini": ("ptymini==0.0.8", "aiohttp>=3.14", "uvloop>=0.22"), "terminado": ("terminado==0.18.1",)}


class Peers:
    """What can be compared with. Without a folder, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._missing: dict[str, str] = dict.fromkeys(PACKAGES, "not installed (--peers DIR installs it)")
        if folder is None:
            return
        self.python = folder.absolute() / "bin" / "python"
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        for name, packages in PACKAGES.items():
            if self._has(name) or self._install(packages):
                del self._missing[name]

    def missing(self, name: str) -> str | None:
        """Why a peer cannot be measured, or None when it can be."""
        return self._missing.get(name)

    def _has(self, name: str) -> bool:
        return (
            subprocess.run([str(self.python), "-c", f"import {name}"], capture_output=True, check=False).returncode == 0
        )

    def _install(self, packages: tuple[str, ...]) -> bool:
        done = subprocess.run(
            [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            self._missing = {**self._missing, packages[0].partition("=")[0]: "its packages could not be installed"}
        return done.returncode == 0
