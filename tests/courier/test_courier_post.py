"""Does the courier connect only to addresses that it judged, whatever a name or an answer leads to?"""

from __future__ import annotations

import ipaddress
import socket

import trio

from sandboxd.courier.post import Poster
from sandboxd.targets import Targets

LOOPBACK = Targets((ipaddress.ip_network("127.0.0.0/8"),))


class Names(trio.abc.HostnameResolver):
    """A name server that gives one answer after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002, PLR0917 - trio's own signature
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        kinds = {4: socket.AF_INET, 6: socket.AF_INET6}
        return [
            (kinds[ipaddress.ip_address(address).version], socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses
        ]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


def names(*answers: list[str]) -> None:
    """What names mean from now on, in this test's run."""
    trio.socket.set_custom_hostname_resolver(Names(*answers))


async def post(targets: Targets, url: str):
    async with Poster(targets) as poster:
        return await poster.post(url, [("Content-Length", "2"), ("X-AIWG-Event-Id", "t-1")], b"{}")


async def test_a_name_that_leads_to_loopback_is_refused(make_receiver):
    receiver = make_receiver()
    for answer in (["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"], ["::1"]):
        names(answer)

        assert (await post(Targets(), f"http://hook.example:{receiver.port}/")).refused
        async with Poster(Targets()) as poster:
            told = await poster.look(f"http://hook.example:{receiver.port}/")
        assert told
        assert not any(address in told for address in answer), "a client is not told what is inside"
    assert not receiver.requests


async def test_the_address_that_was_judged_is_the_one_that_is_connected_to(make_receiver):
    receiver = make_receiver()
    names(["127.0.0.1"], ["10.0.0.1"])  # a name that leads elsewhere when it is asked again

    sent = await post(LOOPBACK, f"http://hook.example:{receiver.port}/x?y=1")

    assert sent.status == 200
    ((path, headers, body),) = receiver.requests
    assert (path, headers["host"], body) == ("/x?y=1", f"hook.example:{receiver.port}", b"{}")


async def test_each_new_connection_is_judged_anew(make_receiver):
    receiver = make_receiver()
    names(["127.0.0.1"])
    url = f"http://hook.example:{receiver.port}/"
    assert (await post(LOOPBACK, url)).status == 200
    names(["10.0.0.1"])

    assert "10.0.0.1" in (await post(LOOPBACK, url)).refused


async def test_a_redirect_is_not_followed(make_receiver):
    elsewhere = make_receiver()
    receiver = make_receiver(redirect=elsewhere.url())

    assert (await post(LOOPBACK, receiver.url())).status == 302
    assert not elsewhere.requests


async def test_a_port_that_nobody_listens_on_is_a_failure(make_receiver):
    receiver = make_receiver()
    receiver.close()

    assert (await post(LOOPBACK, receiver.url())).failed


async def test_a_name_that_leads_nowhere_is_no_reason_to_refuse_a_config():
    names([])

    async with Poster(Targets()) as poster:
        assert await poster.look("http://hook.example/") is None
