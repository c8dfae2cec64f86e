"""The code blocks of the README are run, one after the other."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

from server import Server

from seriatim import Client

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_runs(own_server: Server) -> None:
    text = README.read_text().replace("http://127.0.0.1:7400", own_server.url)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {}
    for block in blocks:
        done = eval(compile(block, str(README), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(done):
            asyncio.run(done)
    for value in names.values():
        if isinstance(value, Client):
            value.close()
