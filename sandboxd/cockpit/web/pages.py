"""How does the page reach a browser?

A fixed table of files, read once: what is not in it does not exist. The page holds nothing of anybody's; its scripts ask the
API. Everything comes from here, nothing from elsewhere. xterm.js is a package of its own and not in the tree: a wheel carries
it, in a checkout `scripts/setup` fetched it. Where it is missing the page says so, and shows the terminal as plain text.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

import attrs
import quart

from sandboxd.cockpit.web.desk import Desk
from sandboxd.errors import MethodNotFound
from sandboxd.logs import logger
from sandboxd.values import frozen

_TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
XTERM: Final = {"xterm.mjs": "lib/xterm.mjs", "xterm.css": "css/xterm.css"}

_log = logger(__name__)


@frozen
class Asset:
    """One file of the page."""

    content: bytes = attrs.field(repr=False)
    content_type: str
    etag: str


class Pages:
    """Everything that is served beside the API."""

    def __init__(self, xterm: Path | None) -> None:
        """`xterm`: the folder of the package @xterm/xterm."""
        own = resources.files("sandboxd.cockpit.web") / "static"
        self._page = (own / "index.html").read_text(encoding="utf-8")
        assets = {file.name: file.read_bytes() for file in own.iterdir() if file.name != "index.html"}
        self._has_xterm = xterm is not None
        if xterm is not None:
            assets |= {name: (xterm / path).read_bytes() for name, path in XTERM.items()}
        self._assets: Mapping[str, Asset] = {name: _asset(name, content) for name, content in assets.items()}

    async def page(self, desk: Desk) -> quart.Response:
        """`GET /`. The nonce is for the style sheets that xterm.js makes while it runs, and for nothing else."""
        nonce = secrets.token_urlsafe(16)
        text = self._page.replace("{{nonce}}", nonce).replace("{{xterm}}", "yes" if self._has_xterm else "no")
        made = quart.Response(text, 200, content_type="text/html; charset=utf-8")
        made.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self'; connect-src 'self';"
            " manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        made.headers["Cache-Control"] = "no-store"
        return made

    async def asset(self, desk: Desk, name: str) -> quart.Response:
        """`GET /static/{name}`."""
        asset = self._assets.get(name)
        if asset is None:
            raise MethodNotFound("cannot find the path: there is none of that name")
        if quart.request.headers.get("If-None-Match") == asset.etag:
            made = quart.Response(b"", 304)
        else:
            made = quart.Response(asset.content, 200, content_type=asset.content_type)
        made.headers["ETag"] = asset.etag
        made.headers["Cache-Control"] = "no-cache"  # asked for anew each time, and sent when it changed
        return made


def find_xterm() -> Path | None:
    """The folder of the package: in the wheel, where `scripts/setup` put it, or where `npm ci` did in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "share", Path(sys.prefix) / "npm" / "node_modules", package.parent / "node_modules"):
        found = folder / "@xterm" / "xterm"
        if all((found / path).is_file() for path in XTERM.values()):
            return found
    _log.warning("xterm.js is not installed: terminals are shown as plain text")
    return None


def _asset(name: str, content: bytes) -> Asset:
    return Asset(content, _TYPES[name.rpartition(".")[2]], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
