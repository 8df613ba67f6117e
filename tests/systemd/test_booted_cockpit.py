"""Does a cockpit run as a service of a real systemd, beside the daemon, from an installed wheel?"""

from __future__ import annotations

import httpx
import pytest

from tests.support.daemon import output_of, prompt_of, wait_until
from tests.support.unit import PORT, PYTHON, TOKEN, Unit

pytestmark = pytest.mark.systemd

SERVICE = "sandboxd-cockpit.service"
SOCKET = "sandboxd-cockpit.socket"
STATE = "/var/lib/sandboxd-cockpit"
CONFIG = f"""
state-dir = "{STATE}"

[web]
tcp = "127.0.0.1:8770"
unix = "/run/sandboxd-cockpit/cockpit.sock"

[[host]]
name = "here"
url = "http://127.0.0.1:{PORT}"
token-file = "{STATE}/here.token"

[[person]]
name = "alice"
token-file = "{STATE}/alice.token"
"""


@pytest.fixture(scope="module")
def beside(booted: Unit) -> Unit:
    """The daemon's machine, with a cockpit that is installed as the page says."""
    machine = booted.machine
    machine.write("/etc/sandboxd/cockpit.toml", CONFIG)
    machine.run("sandboxd", "install-units", "--cockpit", "/etc/sandboxd/cockpit.toml")
    machine.run("systemd-sysusers")
    machine.run("install", "-d", "-m", "0700", "-o", "sandboxd-cockpit", "-g", "sandboxd-cockpit", STATE)
    machine.write(f"{STATE}/here.token", TOKEN, 0o600)
    machine.run("chown", "sandboxd-cockpit:", f"{STATE}/here.token")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "enable", "--now", SOCKET, SERVICE)
    return booted


def client(unit: Unit) -> httpx.Client:
    """Root, at the cockpit's Unix socket."""
    door = httpx.HTTPTransport(uds=str(unit.machine.path("/run/sandboxd-cockpit/cockpit.sock")))
    return httpx.Client(base_url="http://cockpit", transport=door, timeout=30)


def test_a_question_of_the_daemon_is_answered_at_the_cockpit(beside: Unit) -> None:
    machine = beside.machine
    wait_until(lambda: machine.path("/run/sandboxd-cockpit/cockpit.sock").exists(), timeout_s=60, what="the cockpit's door")
    task = beside.run([["ask", "Proceed? [y/N] "]])
    prompt_id = prompt_of(task)["prompt_id"]
    with client(beside) as root:
        wait_until(lambda: root.get("/api/prompts?state=open").json()["prompts"], timeout_s=60, what="the question")
        wait_until(
            lambda: root.post(f"/api/prompts/{prompt_id}/answer", json={"payload": {"text": "y"}}).status_code == 200,
            timeout_s=60,
            what="the answer",
        )

    assert 'answer: "y"' in output_of(beside.until(task["id"], "COMPLETED", timeout_s=60))
    assert machine.run("stat", "-c", "%a %U", f"{STATE}/alice.token").split() == ["600", "sandboxd-cockpit"]


def test_the_page_and_its_terminal_come_from_the_wheel(beside: Unit) -> None:
    lines = [
        "import httpx",
        "page = httpx.get('http://127.0.0.1:8770/', trust_env=False)",
        "drawn = httpx.get('http://127.0.0.1:8770/static/xterm.mjs', trust_env=False)",
        "print(page.status_code, 'data-xterm=\"yes\"' in page.text, drawn.status_code, len(drawn.content) > 100000)",
    ]

    assert beside.machine.run(PYTHON, "-c", "\n".join(lines)).split() == ["200", "True", "200", "True"]


def test_it_stops_and_starts_without_losing_anything(beside: Unit) -> None:
    machine = beside.machine
    machine.run("systemctl", "restart", SERVICE)
    wait_until(lambda: machine.journal(SERVICE).count("the cockpit runs") == 2, timeout_s=60, what="its second start")
    with client(beside) as root:
        assert len(root.get("/api/prompts?state=closed").json()["prompts"]) == 1
    assert machine.show(SERVICE, "Result")["Result"] == "success"


def test_its_doors_stay_while_it_is_stopped_and_the_first_client_starts_it(beside: Unit) -> None:
    machine = beside.machine
    machine.run("systemctl", "stop", SERVICE)
    assert machine.show(SERVICE, "ActiveState")["ActiveState"] == "inactive"

    with client(beside) as root:
        assert root.get("/api/me").status_code == 200  # the request waits for the start
    assert machine.show(SERVICE, "ActiveState")["ActiveState"] == "active"


def test_a_reload_changes_its_people_and_refuses_a_bad_file(beside: Unit) -> None:
    machine = beside.machine
    bob = f'\n[[person]]\nname = "bob"\ntoken-file = "{STATE}/bob.token"\n'
    machine.write("/etc/sandboxd/cockpit.toml", CONFIG + bob)
    machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: "bob (new)" in machine.journal(SERVICE), timeout_s=60, what="the reload")
    token = machine.run("cat", f"{STATE}/bob.token").strip()

    assert asks_as(beside, token) == "200"
    machine.write("/etc/sandboxd/cockpit.toml", CONFIG + bob + "unknown = 1\n")
    assert machine.do("systemctl", "reload", SERVICE).returncode != 0
    assert asks_as(beside, token) == "200"
    machine.write("/etc/sandboxd/cockpit.toml", CONFIG)
    machine.run("systemctl", "reload", SERVICE)
    wait_until(lambda: "bob (gone)" in machine.journal(SERVICE), timeout_s=60, what="the second reload")
    assert asks_as(beside, token) == "401"


def asks_as(unit: Unit, token: str) -> str:
    ask = "httpx.get('http://127.0.0.1:8770/api/me', headers={'Authorization': 'Bearer ' + sys.argv[1]}, trust_env=False)"
    return unit.machine.run(PYTHON, "-c", f"import httpx, sys; print({ask}.status_code)", token).strip()
