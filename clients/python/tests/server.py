"""A real server: the binary on a port and a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import httpx


def binary() -> Path:
    root = Path(__file__).resolve().parents[3]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return Path(os.environ.get("SERIATIM_BINARY", target / "debug" / "seriatim"))


class Server:
    """Runs until the end of the `with` block. It can be killed and started again at the same address."""

    def __init__(self, folder: Path, data: str = "data") -> None:
        self.folder = folder
        self.url = ""
        self._storage = f"file:{folder / data}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, and waits until it can give out numbers."""
        log = self.folder / "server.log"
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        with log.open("wb") as output:
            command: list[str | Path] = [binary(), "serve", "--listen", listen, "--storage", self._storage]
            self._process = subprocess.Popen(command, cwd=self.folder, env=_environment(), stdout=output, stderr=output)
        deadline = time.monotonic() + 60
        while not self._is_ready(log):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {log.read_text()}")
            time.sleep(0.02)

    def _is_ready(self, log: Path) -> bool:
        found = re.search(r"listens on (http://127\.0\.0\.1:\d+)", log.read_text())
        if found is None:
            return False
        self.url = found[1]
        # A restored copy is fenced, and never ready.
        return httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200 or "restored" in self._storage

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    def run(self, *arguments: str | Path) -> str:
        """A command of the binary."""
        command: list[str | Path] = [binary(), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=_environment(), check=True, capture_output=True, text=True)
        return done.stdout


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SERIATIM_")}
