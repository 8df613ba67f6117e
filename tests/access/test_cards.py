"""Does the card of a real daemon tell the truth, to clients of both versions, and is it signed so that others can tell?"""

from __future__ import annotations

import base64
import json
import stat
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.types import AgentCard
from a2a.utils import _jcs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.support.daemon import ADAPTER, HITL, Daemon
from tests.support.tokens import bearer, make_token, sandboxd

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
OLD_FIELDS = {
    "url",
    "preferredTransport",
    "protocolVersion",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
    "security",
}


def fetch(daemon: Daemon, path: str = CARD, **headers: str) -> dict[str, Any]:
    answer = httpx.get(daemon.url + path, headers=headers, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.json()


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def keys_of(jwks: dict[str, Any]) -> dict[str, Ed25519PublicKey]:
    return {key["kid"]: Ed25519PublicKey.from_public_bytes(unpadded(key["x"])) for key in jwks["keys"]}


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := without_empty(item)) is not None} or None
    if isinstance(value, list):
        return [kept for item in value if (kept := without_empty(item)) is not None] or None
    return None if value == "" else value


def sdk_form(card: dict[str, Any]) -> bytes:
    """What a client with the public SDK takes for the signed bytes: the card as protobuf knows it, empty values gone."""
    from a2a.client.card_resolver import parse_agent_card

    known = MessageToDict(parse_agent_card(json.loads(json.dumps(card))))
    known.pop("signatures")
    return _jcs.canonicalize(without_empty(known)).encode()


def json_form(card: dict[str, Any]) -> bytes:
    return _jcs.canonicalize({key: value for key, value in card.items() if key != "signatures"}).encode()


def holding(card: dict[str, Any], jwks: dict[str, Any], form: bytes) -> list[str]:
    """The key ids of the signatures that hold over these bytes, by RFC 7515's own words."""
    keys, found = keys_of(jwks), []
    for entry in card["signatures"]:
        header = json.loads(unpadded(entry["protected"]))
        assert header["alg"] == "EdDSA"
        signed = entry["protected"].encode() + b"." + base64.urlsafe_b64encode(form).rstrip(b"=")
        try:
            keys[header["kid"]].verify(unpadded(entry["signature"]), signed)
        except InvalidSignature:
            continue
        found.append(header["kid"])
    return found


@pytest.fixture(scope="module")
def strict(tmp_path_factory, node):
    folder = tmp_path_factory.mktemp("strict")
    (folder / "second").mkdir()
    extra = f'[[instance]]\nid = "second"\nroot = "{folder / "second"}"\n'
    daemon = Daemon(folder, str(node), extra=extra)
    daemon.config.write_text('card = "strict"\npublic_url = "https://sandbox.example/a2a"\n' + daemon.config.read_text())
    daemon.start()
    yield daemon
    daemon.end()


def test_both_sdks_read_the_merged_card(shared: Daemon):
    card = fetch(shared)
    new = ParseDict(card, AgentCard(), ignore_unknown_fields=True)
    old = OldCard.model_validate(card)

    assert {(it.protocol_binding, it.protocol_version) for it in new.supported_interfaces} == {
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
    }
    assert (old.url, old.preferred_transport, old.protocol_version) == (shared.url, "JSONRPC", "0.3.0")
    assert old.security_schemes is not None
    assert old.security_schemes["bearer"].root.type == "http"
    assert new.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert fetch(shared, "/.well-known/agent.json") == card


def test_a_negotiator_that_appends_paths_finds_doors_behind_every_interface(shared: Daemon):
    card = fetch(shared, "/agents/default" + CARD)
    new = {it["url"] for it in card["supportedInterfaces"]} | {card["url"]}
    old = {it["url"] for it in card["additionalInterfaces"]}

    assert {url.partition("://")[0] for url in new | old} == {"http"}
    for url in new | old:
        sent = httpx.post(f"{url}/v1/messages:send", json={}, trust_env=False)
        proper = httpx.post(f"{url}/v1/message:send", json={}, trust_env=False)
        assert (sent.status_code, proper.status_code) == (401, 401), url
    for url in new:
        called = httpx.post(url, json={}, headers={"A2A-Version": "1.0"}, trust_env=False)
        assert called.status_code == 401, url


def test_the_strict_card_is_1_0_alone_and_names_the_public_url(strict: Daemon):
    card = fetch(strict)
    second = fetch(strict, "/agents/second" + CARD)

    assert not OLD_FIELDS & card.keys()
    ParseDict(card, AgentCard(), ignore_unknown_fields=False)
    assert {it["protocolVersion"] for it in card["supportedInterfaces"]} == {"1.0"}
    assert {it["url"] for it in card["supportedInterfaces"]} == {"https://sandbox.example/a2a"}
    assert {it["url"] for it in second["supportedInterfaces"]} == {"https://sandbox.example/a2a/agents/second"}
    assert httpx.get(strict.url + "/.well-known/agent.json", trust_env=False).status_code == 404
    assert ADAPTER not in json.dumps(second)


def test_extensions_have_the_params_that_their_specs_demand(shared: Daemon):
    declared = {extension["uri"]: extension for extension in fetch(shared)["capabilities"]["extensions"]}

    assert (declared[HITL]["required"], declared[HITL]["params"]) == (False, {})
    assert declared[ADAPTER]["params"] == {"adapters": ["sandbox-agent-runner"], "modes": ["plan", "assess"]}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:443", "127.0.0.1:1", "localhost.evil.example:80"])
def test_nobody_has_a_card_signed_that_sends_its_readers_elsewhere(shared: Daemon, host):
    card = fetch(shared, Host=host)

    assert {it["url"] for it in card["supportedInterfaces"]} == {shared.url}
    assert host not in json.dumps(card)


def test_a_name_of_this_machine_that_answers_is_kept(shared: Daemon):
    name = shared.url.removeprefix("http://").replace("127.0.0.1", "localhost")

    assert fetch(shared, Host=name)["url"] == f"http://{name}"


@pytest.mark.parametrize("which", ["shared", "strict"])
def test_a_signature_holds_for_the_sdk_and_one_for_those_who_take_the_json_as_it_is(request, which):
    daemon: Daemon = request.getfixturevalue(which)
    card, jwks = fetch(daemon), fetch(daemon, JWKS)
    (kid,) = keys_of(jwks)

    assert holding(card, jwks, sdk_form(card)) == [kid]
    assert holding(card, jwks, json_form(card)) == [kid]
    assert json.loads(unpadded(card["signatures"][0]["protected"]))["jku"].endswith(JWKS)
    assert fetch(daemon, "/agents/default" + JWKS) == jwks
    forged = {**card, "name": "other"}
    assert holding(forged, jwks, sdk_form(forged)) == holding(forged, jwks, json_form(forged)) == []


def test_the_key_is_private_and_outlives_a_restart(daemon: Daemon):
    file = daemon.folder / "state" / "card-keys.json"
    before = fetch(daemon, JWKS)
    daemon.stop()
    daemon.start()

    assert fetch(daemon, JWKS) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert '"d"' not in json.dumps(before)


def test_two_keys_live_while_a_rotation_goes_on(daemon: Daemon):
    tag = httpx.get(daemon.url + CARD, trust_env=False).headers["etag"]
    (old,) = keys_of(fetch(daemon, JWKS))
    rotated = json.loads(sandboxd(daemon, "card", "rotate", "--json").stdout)["keys"]
    between, keys = fetch(daemon), fetch(daemon, JWKS)
    again = sandboxd(daemon, "card", "rotate", check=False)
    sandboxd(daemon, "card", "rotate", "--finish")
    after, left = fetch(daemon), fetch(daemon, JWKS)
    unchanged = httpx.get(daemon.url + CARD, headers={"If-None-Match": tag}, trust_env=False)

    new = rotated[0]["kid"]
    assert [key["kid"] for key in rotated] == [key["kid"] for key in keys["keys"]] == [new, old]
    assert holding(between, keys, sdk_form(between)) == [new, old]
    assert again.returncode == 1
    assert list(keys_of(left)) == holding(after, left, sdk_form(after)) == [new]
    assert unchanged.status_code == 200


def test_the_command_line_verifies_a_card_and_pins_its_keys(daemon: Daemon, tmp_path):
    pinned = tmp_path / "jwks.json"
    pinned.write_text(json.dumps(fetch(daemon, JWKS)))
    verify = ["card", "verify", daemon.url]

    def run(*args: str):
        return run_plain(*verify, *args, "--json")

    plain, by_pin = run(), run("--jwks", str(pinned))
    sandboxd(daemon, "card", "rotate")
    during = run("--jwks", str(pinned))
    sandboxd(daemon, "card", "rotate", "--finish")
    after = run("--jwks", str(pinned))
    shown = run_plain("card", "show", daemon.url, "--json")

    assert [done.returncode for done in (plain, by_pin, during, after)] == [0, 0, 0, 1]
    assert [one["covers"] for one in json.loads(plain.stdout)["signatures"]] == ["a2a", "json"]
    assert json.loads(shown.stdout)["card"]["name"] == "default"


def run_plain(*args: str):
    import subprocess
    import sys

    return subprocess.run([sys.executable, "-m", "sandboxd", *args], capture_output=True, text=True, timeout=60, check=False)


def test_the_card_is_kept_by_tag_and_by_date(shared: Daemon):
    first = httpx.get(shared.url + CARD, trust_env=False)
    for name, value in (("If-None-Match", first.headers["etag"]), ("If-Modified-Since", first.headers["last-modified"])):
        assert httpx.get(shared.url + CARD, headers={name: value}, trust_env=False).status_code == 304
    assert "max-age=" in first.headers["cache-control"]


def test_the_extended_card_tells_more_and_only_to_those_who_are_known(shared: Daemon):
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
    old_call = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    with bearer(shared, make_token(shared, "reader", "view")) as client:
        by_rest, by_rpc = client.get("/extendedAgentCard").json(), client.post("/", json=call).json()["result"]
        by_old = client.post("/", json=old_call, headers={"A2A-Version": "0.3"}).json()["result"]
    anonymous = httpx.get(shared.url + "/extendedAgentCard", headers={"A2A-Version": "1.0"}, trust_env=False)
    public = fetch(shared)
    (told,) = [it["params"] for it in by_rest["capabilities"]["extensions"] if it["uri"] == "urn:sandboxd:host:v1"]

    assert by_rest == by_rpc == by_old
    assert anonymous.status_code == 401
    assert public["capabilities"]["extendedAgentCard"] is True
    assert (told["isolation"], told["workspace"], told["limits"]["max_tasks"]) == ("none", "/workspace", 64)
    assert told["levels"] == {"sandbox-agent-runner": "none"}
    assert "WITHOUT ISOLATION" in public["skills"][0]["description"]
    assert told["adapters"] == [{"adapter": "sandbox-agent-runner", "modes": ["plan", "assess"]}]
    assert "urn:sandboxd:host:v1" not in json.dumps(public)
    assert holding(by_rest, fetch(shared, JWKS), sdk_form(by_rest))
    ParseDict(by_rest, AgentCard(), ignore_unknown_fields=True)


def test_an_instance_that_is_not_there_has_no_card_and_no_keys(shared: Daemon):
    for path in (CARD, JWKS):
        assert httpx.get(f"{shared.url}/agents/none{path}", trust_env=False).status_code == 404
