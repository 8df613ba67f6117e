"""Which URLs may a card name, and how is one put together and signed?

A signed card is kept and passed on, so it names only what this host knows to answer: `public_url`, or the address that the TCP
door listens on. What a request's `Host` says is believed only where it is `localhost` with that very port of loopback; else
anyone could have a card signed that sends its readers elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import attrs

from sandboxd.a2a import card
from sandboxd.a2a.card_signing import JWKS_PATH
from sandboxd.http.card_keys import CardKeys
from sandboxd.operations.host import Host
from sandboxd.serving.listeners import Listener, is_loopback
from sandboxd.serving.peer import Peer
from sandboxd.tasks.output import JSON, MEDIA_TYPES
from sandboxd.values import frozen

_NOWHERE: Final = "http://localhost"  # a host with a Unix socket alone has no URL; its clients write this one


@frozen
class Asked:
    """Who asks for a card, and by which `Host`."""

    peer: Peer
    host: str


@frozen
class Cards:
    """How this host's cards are made. `tcp`: the TCP door, None: there is none. `limits`: what extended cards tell of them."""

    keys: CardKeys | None = None
    is_merged: bool = True
    public_url: str | None = None
    tcp: Listener | None = None
    limits: Mapping[str, Any] = attrs.field(factory=dict)

    def public(self, host: Host, instance: str, version: str, asked: Asked) -> dict[str, Any]:
        """The card that everybody may see; `InstanceNotFound`."""
        return self._make(host, instance, version, asked, None)

    def extended(self, host: Host, instance: str, version: str, asked: Asked) -> dict[str, Any]:
        """The card for callers that are known; `InstanceNotFound`."""
        found = host.instance(instance)
        told = {
            "isolation": found.isolation,
            "workspace": found.shown,
            "levels": dict(found.levels),
            "adapters": [{"adapter": adapter, "modes": list(modes)} for adapter, modes in found.adapters],
            "limits": dict(self.limits),
        }
        return self._make(host, instance, version, asked, told)

    def _make(self, host: Host, instance: str, version: str, asked: Asked, told: Mapping[str, Any] | None) -> dict[str, Any]:
        found = host.instance(instance)
        door = asked.peer.listener or self.tcp
        url = self._base_url(asked)
        if instance != host.default_instance:
            url += f"/agents/{quote(instance)}"
        promised = host.capabilities
        facts = card.CardFacts(
            instance,
            url,
            version,
            tuple((adapter, mode) for adapter, modes in found.adapters for mode in modes),
            needs_bearer=door is not None and not door.open_access,
            needs_certificate=door is not None and door.asks_certificate,
            streaming=promised.streaming,
            push_notifications=promised.push_notifications,
            extended_card=promised.extended_card,
            required_extensions=promised.required_extensions,
            is_merged=self.is_merged,
            unconfined=frozenset(
                adapter for adapter, _ in found.adapters if found.levels.get(adapter, found.isolation) == "none"
            ),
            host=told,
            output_modes=MEDIA_TYPES,
        )
        if host.plays_scripts:
            facts = attrs.evolve(facts, input_modes=("*/*",), output_modes=(*MEDIA_TYPES, JSON))
        spelled = card.agent_card(facts)
        return self.keys.signed(spelled, url + JWKS_PATH) if self.keys else spelled

    def _base_url(self, asked: Asked) -> str:
        if self.public_url:
            return self.public_url
        door = asked.peer.listener or self.tcp
        if door is None:
            return _NOWHERE
        name, _, port = door.address.rpartition(":")
        if is_loopback(name) and asked.host == f"localhost:{port}":
            return f"{door.url.partition('://')[0]}://{asked.host}"
        return door.url
