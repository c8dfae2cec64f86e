from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from script import Script, problem
from server import Server

import seriatim
from seriatim import Client, FencedError, ForbiddenError, Retry, SeriatimError, UnauthorizedError

CODES = {
    "invalid": (400, seriatim.InvalidError),
    "unauthorized": (401, seriatim.UnauthorizedError),
    "forbidden": (403, seriatim.ForbiddenError),
    "not_found": (404, seriatim.NotFoundError),
    "conflict": (409, seriatim.ConflictError),
    "too_large": (413, seriatim.TooLargeError),
    "exhausted": (422, seriatim.ExhaustedError),
    "busy": (503, seriatim.BusyError),
    "unavailable": (503, seriatim.UnavailableError),
    "fenced": (503, seriatim.FencedError),
    "in_doubt": (503, seriatim.InDoubtError),
    "corrupt": (500, seriatim.CorruptError),
    "internal": (500, seriatim.InternalError),
}


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_a_class(code: str) -> None:
    status, kind = CODES[code]
    with pytest.raises(SeriatimError) as raised:
        Script(problem(code, status)).client(Retry(attempts=1)).series("s").next()
    error = raised.value
    assert type(error) is kind
    assert (error.code, error.detail, error.status) == (code, "a detail", status)
    assert str(error) == f"{code}: a detail"


def test_the_server_has_no_other_codes(server: Server) -> None:
    document = httpx.get(f"{server.url}/openapi.json", trust_env=False).json()
    assert set(document["components"]["schemas"]["Code"]["enum"]) == set(CODES)


def test_tokens_decide_what_a_client_may_do(own_server: Server) -> None:
    def token(scope: str, *more: str) -> str:
        return own_server.run("token", "create", "--scope", scope, "--server", own_server.url, *more).split()[-1]

    admin = token("*:admin")
    with Client(own_server.url) as client, pytest.raises(UnauthorizedError):
        client.series("s").next()
    with Client(own_server.url, token="seriatim_0_0") as client, pytest.raises(UnauthorizedError):
        client.series("s").next()
    with Client(own_server.url, token=admin) as client:
        assert client.series("s").next().number == 1
        made = httpx.post(
            f"{own_server.url}/v1/tokens",
            json={"scopes": ["series:read"]},
            headers={"authorization": f"Bearer {admin}"},
            trust_env=False,
        )
    with Client(own_server.url, token=made.json()["secret"]) as client:
        assert client.series("s").show().next == 2
        with pytest.raises(ForbiddenError, match="series:write"):
            client.series("s").next()


def test_a_restored_copy_is_fenced(own_server: Server, tmp_path: Path) -> None:
    with Client(own_server.url) as client:
        client.series("s").next()
    own_server.run("backup", tmp_path / "backup", "--server", own_server.url)
    own_server.run("restore", tmp_path / "backup", "--storage", f"file:{tmp_path / 'restored'}")
    with Server(tmp_path, "restored") as copy, Client(copy.url) as client, pytest.raises(FencedError) as raised:
        client.series("s").next()
    assert not raised.value.retryable
