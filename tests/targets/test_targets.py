"""Can a URL make this host send to itself or to its neighbours?"""

from __future__ import annotations

import ipaddress

import pytest

from sandboxd.targets import BadTarget, Targets, shown_url

PUBLIC = Targets()
LOOPBACK = Targets((ipaddress.ip_network("127.0.0.0/8"),))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.1./",
        "http://0/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://240.0.0.1/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::10.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:7f00:1::1]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fec0::1]/",
        "http://[fc00::1]/",
        "http://[fd12:3456::1]/",
        "http://[ff02::1]/",
        "http://localhost/",
        "http://LOCALHOST:8080/",
        "http://a.localhost./",
        "http://１２７.0.0.1/",
        "http://①②⑦.⓪.⓪.①/",
    ],
)
def test_no_spelling_of_an_address_that_is_not_public_is_taken(url):
    with pytest.raises(BadTarget):
        PUBLIC.read(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "//example.com/",
        "example.com/hook",
        "http:///hook",
        "http://",
        "http://user:secret@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "http://example.com/#part",
        "http://example.com/a b",
        "http://example.com/\r\nX: y",
        "http://exa\tmple.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://exam_ple..com/",
        "http://[::1/",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_what_is_no_plain_web_address_is_refused(url):
    with pytest.raises(BadTarget):
        LOOPBACK.read(url)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("http://Example.com:8080/a/b?c=d&e", "example.com", 8080, "/a/b?c=d&e"),
        ("https://example.com?x=1", "example.com", 443, "/?x=1"),
        ("http://93.184.215.14/", "93.184.215.14", 80, "/"),
        ("http://[2606:4700::1111]:81/", "2606:4700::1111", 81, "/"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/"),
    ],
)
def test_a_public_target_is_read(url, host, port, path):
    target = PUBLIC.read(url)

    assert (target.host, target.port, target.path) == (host, port, path)


def test_only_the_networks_that_the_config_names_are_allowed_besides():
    assert LOOPBACK.read("http://127.0.0.1:81/").origin == "http://127.0.0.1:81"
    assert LOOPBACK.read("http://[::ffff:127.0.0.1]/").port == 80
    assert LOOPBACK.read("http://localhost/").host == "localhost"
    for url in ("http://10.0.0.1/", "http://[::1]/", "http://0.0.0.0/"):
        with pytest.raises(BadTarget):
            LOOPBACK.read(url)


def test_a_url_is_shown_without_its_query():
    assert shown_url("https://example.com/hook?token=secret") == "https://example.com/hook?…"
    assert shown_url("https://example.com/hook") == "https://example.com/hook"
