"""Is the card a card of A2A 1.0, and does it tell the truth?"""

from __future__ import annotations

from typing import Any

from a2a import types as sdk
from google.protobuf.json_format import ParseDict

from sandboxd.a2a.card import CardFacts, agent_card, etag
from sandboxd.a2a.extensions import ADAPTER_COMMAND, HITL_PROMPT

COMMANDS = (("sandbox-agent-runner", "plan"), ("sandbox-agent-runner", "assess"))
BARE = CardFacts("default", "http://127.0.0.1:8765/agents/default", "0.1.0")
FULL = CardFacts("default", "http://127.0.0.1:8765/", "0.1.0", COMMANDS, needs_bearer=True)


def extensions(card: dict[str, Any]) -> dict[str, Any]:
    return {extension["uri"]: extension for extension in card["capabilities"]["extensions"]}


def test_protobuf_reads_the_card_and_nothing_required_is_missing() -> None:
    for facts in (BARE, FULL):
        card = agent_card(facts)
        read = ParseDict(card, sdk.AgentCard(), ignore_unknown_fields=False)
        assert read.name == "default"
        for required in ("name", "description", "supportedInterfaces", "version", "capabilities", "skills"):
            assert card[required]
        assert card["defaultInputModes"]
        assert card["defaultOutputModes"]
        for skill in card["skills"]:
            assert skill["id"] and skill["name"] and skill["description"] and skill["tags"]


def test_both_bindings_are_at_the_instances_url() -> None:
    assert agent_card(FULL)["supportedInterfaces"] == [
        {"url": "http://127.0.0.1:8765", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "http://127.0.0.1:8765", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ]


def test_the_prompt_extension_is_always_there_optional_and_without_parameters() -> None:
    declared = extensions(agent_card(BARE))[HITL_PROMPT]

    assert declared["required"] is False
    assert declared["params"] == {}


def test_the_command_extension_is_there_only_where_something_is_allowed() -> None:
    assert ADAPTER_COMMAND not in extensions(agent_card(BARE))
    assert extensions(agent_card(FULL))[ADAPTER_COMMAND]["params"] == {
        "adapters": ["sandbox-agent-runner"],
        "modes": ["plan", "assess"],
    }


def test_a_bearer_scheme_is_declared_only_where_a_token_is_in_force() -> None:
    assert not {"securitySchemes", "securityRequirements"} & agent_card(BARE).keys()
    assert agent_card(FULL)["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    assert agent_card(FULL)["securityRequirements"] == [{"schemes": {"bearer": {"list": []}}}]


def test_nothing_of_03_is_on_the_card() -> None:
    stale = {
        "url",
        "preferredTransport",
        "protocolVersion",
        "additionalInterfaces",
        "supportsAuthenticatedExtendedCard",
        "security",
    }

    assert not stale & agent_card(FULL).keys()


def test_the_entity_tag_changes_with_the_card_alone() -> None:
    assert etag(agent_card(FULL)) == etag(agent_card(FULL))
    assert etag(agent_card(FULL)) != etag(agent_card(BARE))
    assert etag(agent_card(FULL)).strip('"').isalnum()
