"""Does the wheel hold the packs and the page, whichever way it is built?

A wheel that is built from the sdist is what `pip install` of a release gives; a symlink or a missing include loses the
packs there without a word, and the daemon that comes out detects nothing.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from sandboxd.cockpit.web.pages import XTERM
from tests.support.daemon import wait_until

KINDS = {"detectors": ".toml", "policies": ".toml", "systemd": ".service"}


def build(source: Path, out: Path, *kinds: str) -> Path:
    """The wheel that `build` makes of the tree; without kinds it is made from the sdist."""
    argv = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(out), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", params=[("--wheel",), ()], ids=["from the tree", "from the sdist"])
def wheel(request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(repository, tmp_path_factory.mktemp("dist"), *request.param)


def digests(folder: Path, prefix: str) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{prefix}/{path.relative_to(folder)}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def packed(wheel: Path, prefix: str) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{prefix}/")]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_the_wheel_holds_every_pack_as_it_stands_in_the_tree(wheel: Path, repository: Path, kind: str) -> None:
    shipped = digests(repository / kind, f"sandboxd/share/{kind}")

    assert any(name.endswith(KINDS[kind]) for name in shipped)
    assert packed(wheel, f"sandboxd/share/{kind}") == shipped


def test_the_wheel_holds_every_module_and_nothing_beside_them(wheel: Path, repository: Path) -> None:
    packs = (*(f"sandboxd/share/{kind}/" for kind in KINDS), "sandboxd/share/@xterm/")
    inside = {name: digest for name, digest in packed(wheel, "sandboxd").items() if not name.startswith(packs)}

    assert inside == digests(repository / "sandboxd", "sandboxd")


def test_the_wheel_holds_xterm_js_as_it_is_pinned(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        package = json.loads(archive.read("sandboxd/share/@xterm/xterm/package.json"))
        held = {name: len(archive.read(f"sandboxd/share/@xterm/xterm/{name}")) for name in XTERM.values()}
        license_text = archive.read("sandboxd/share/@xterm/xterm/LICENSE").decode()
    locked = json.loads((repository / "package-lock.json").read_text())["packages"]

    assert package["version"] == locked["node_modules/@xterm/xterm"]["version"]
    assert all(size > 1000 for size in held.values())
    assert "Permission is hereby granted, free of charge" in license_text


def test_the_lock_names_no_registry(repository: Path) -> None:
    locked = json.loads((repository / "package-lock.json").read_text())["packages"]

    assert all("resolved" not in package for package in locked.values())
    assert all("integrity" in package for name, package in locked.items() if name)


def test_the_wheel_holds_the_license_and_a_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = {name.split(".dist-info/")[-1]: name for name in archive.namelist() if ".dist-info/" in name}
        assert "licenses/LICENSE" in info
        assert "sandboxd = sandboxd.cli.main:main" in archive.read(info["entry_points.txt"]).decode()


def test_the_page_is_served_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (tmp_path / "state").mkdir(mode=0o700)
    config, port_file = tmp_path / "cockpit.toml", tmp_path / "state" / "web-port"
    config.write_text(
        'state-dir = "state"\nweb = { tcp = "127.0.0.1:0" }\nhost = [{ name = "lab", url = "http://127.0.0.1:9" }]\n'
    )
    argv = [sys.executable, "-m", "sandboxd", "cockpit", "--config", str(config)]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "installed")}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        what = "the cockpit's port"
        port = wait_until(lambda: port_file.exists() and port_file.read_text().strip(), timeout_s=60, what=what)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            page, *parts = (client.get(path).content for path in ("/", "/static/app.js", "/static/xterm.mjs"))
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, (tmp_path / "log").read_text()

    package = tmp_path / "installed" / "sandboxd"
    assert b'data-xterm="yes"' in page
    files = ("cockpit/web/static/app.js", "share/@xterm/xterm/lib/xterm.mjs")
    assert parts == [(package / name).read_bytes() for name in files]
