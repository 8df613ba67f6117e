"""Tokens of a real daemon, made by the command line as an operator makes them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import Any

import httpx

from tests.support.daemon import HITL, Daemon


def sandboxd(daemon: Daemon, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command line with this daemon's config."""
    argv = [sys.executable, "-m", "sandboxd", *args, "--config", str(daemon.config)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=check)


def make_token(daemon: Daemon, name: str, *scopes: str, options: tuple[str, ...] = ()) -> str:
    """The new token."""
    given = [word for scope in scopes for word in ("--scope", scope)]
    made = json.loads(sandboxd(daemon, "tokens", "create", name, *given, *options, "--json").stdout)
    return str(made["token"])


def bearer(daemon: Daemon, token: str, **headers: str) -> httpx.Client:
    """A client with that token, A2A 1.0, hitl-prompt/v1 activated."""
    known = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0", "A2A-Extensions": HITL, **headers}
    return httpx.Client(base_url=daemon.url, headers=known, timeout=20, trust_env=False)


def answer_body(task: dict[str, Any], prompt_id: str, text: Any = "y") -> dict[str, Any]:
    """A message that answers."""
    return {
        "message": {
            "messageId": str(uuid.uuid4()),
            "role": "ROLE_USER",
            "taskId": task["id"],
            "parts": [{"text": "answer"}],
            "metadata": {"hitl_response_for": {"prompt_id": prompt_id, "payload": {"text": text}}},
        },
        "configuration": {"returnImmediately": True},
    }


def reason_of(answer: httpx.Response) -> str:
    """The stable reason of a refusal by HTTP+JSON."""
    return str(answer.json()["error"]["details"][0]["reason"])
