"""Do links and signed answers let people answer, and nobody else, with the same verdict as every other way?"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cockpit.test_cockpit_foreign import question
from tests.courier.receiver import Receiver
from tests.fakes.executor import Executor
from tests.support.cockpit import Cockpit, post_signed
from tests.support.daemon import wait_until

KEY = "a-key-of-alices-channel-0123456789"
CHAT_KEY = "a-key-of-the-chats-channel-012345"


@pytest.fixture
def cockpit(tmp_path: Path, executor: Executor, receiver: Receiver) -> Iterator[Cockpit]:
    hook = 'secret-file = "{key}"\nallow = ["127.0.0.0/8"]\nurl = "{url}"\n'
    more = f"""
[[webhook]]
name = "own"
answers-as = "alice"
{hook.format(key="own.key", url=receiver.url())}
[[webhook]]
name = "chat"
form = "text"
accounts = {{ U1 = "alice", U2 = "bob" }}
{hook.format(key="chat.key", url=receiver.url("/chat"))}
"""
    made = Cockpit(tmp_path / "cockpit", {"lab": (executor.url, "")}, more=more)
    made.write("own.key", KEY)
    made.write("chat.key", CHAT_KEY)
    made.start()
    yield made
    made.end()


def ask(executor: Executor, cockpit: Cockpit, **more) -> str:
    envelope = question(**more)
    executor.ask(executor.begin(), envelope)
    cockpit.prompt(envelope["prompt_id"])
    return str(envelope["prompt_id"])


def link_to(receiver: Receiver, prompt_id: str) -> str:
    def found() -> str | None:
        return next((one["link"] for one in receiver.events if one.get("prompt", {}).get("prompt_id") == prompt_id), None)

    link: str = wait_until(found, timeout_s=60, what="the link")
    return "/q/" + link.rpartition("/q/")[2]


def test_a_signed_answer_is_its_persons_and_is_delivered(cockpit, executor):
    prompt_id = ask(executor, cockpit)

    answer = post_signed(cockpit, "own", KEY, {"prompt_id": prompt_id, "payload": {"text": "y"}, "display_name": "root"})

    assert answer.status_code == 200, answer.text
    assert cockpit.prompt(prompt_id, "closed")["status"] == "responded"
    assert executor.taken(prompt_id) == {"text": "y"}
    (entry,) = [one for one in cockpit.audit() if one["event"] == "voted"]
    assert (entry["principal"], entry["channel"], entry["outcome"]) == ("webhook:own", "webhook:own", "decided")
    assert entry["note"] == "it calls itself 'root'"


@pytest.mark.parametrize(
    ("channel", "key", "more", "status"),
    [
        ("own", CHAT_KEY, {}, 401),
        ("nobody", KEY, {}, 401),
        ("chat", CHAT_KEY, {}, 403),
        ("chat", CHAT_KEY, {"account": "U3", "display_name": "alice"}, 403),
        ("own", KEY, {"is_admin": True}, 400),
        ("own", KEY, {"prompt_id": str(uuid.uuid4())}, 404),
        ("own", KEY, {"payload": {"text": "far too long"}}, 422),
        ("own", KEY, {"payload": "y"}, 400),
    ],
)
def test_what_is_not_a_known_persons_answer_is_refused(cockpit, executor, *, channel, key, more, status):
    prompt_id = ask(executor, cockpit)

    answer = post_signed(cockpit, channel, key, {"prompt_id": prompt_id, "payload": {"text": "y"}} | more)

    assert answer.status_code == status, answer.text
    assert executor.answers == []


def test_an_old_signature_and_one_that_was_used_are_refused(cockpit, executor):
    prompt_id = ask(executor, cockpit, allowed_responders=["consensus:2"])
    body = {"id": "one-and-the-same", "prompt_id": prompt_id, "payload": {"text": "y"}}

    assert post_signed(cockpit, "own", KEY, body, at_s=int(time.time()) - 400).status_code == 401
    assert post_signed(cockpit, "own", KEY, body).status_code == 200
    assert post_signed(cockpit, "own", KEY, body).status_code == 409


def test_a_channel_of_one_person_votes_and_never_completes_a_consensus_alone(cockpit, executor):
    prompt_id = ask(executor, cockpit, allowed_responders=["consensus:2"])
    said = {"prompt_id": prompt_id, "payload": {"text": "y"}}

    assert post_signed(cockpit, "own", KEY, said).json()["outcome"] == "counted"
    assert post_signed(cockpit, "own", KEY, said).json()["outcome"] == "counted"
    assert post_signed(cockpit, "chat", CHAT_KEY, said | {"account": "U1"}).json()["outcome"] == "counted"  # the same person
    assert executor.answers == []
    assert post_signed(cockpit, "chat", CHAT_KEY, said | {"account": "U2"}).json()["outcome"] == "decided"
    assert cockpit.prompt(prompt_id, "closed")["verdict"]["persons"] == ["alice", "bob"]


def test_a_link_shows_its_question_and_does_nothing(cockpit, executor, receiver):
    prompt_id = ask(executor, cockpit, prompt="Deploy <b>now</b>?")
    path = link_to(receiver, prompt_id)
    with cockpit.client() as anybody:
        shown = anybody.get(path)
        assert anybody.head(path).status_code in (200, 405)
        sheets = [anybody.get(sheet).status_code for sheet in re.findall(r'href="(/static/[a-z.]+)"', shown.text)]
        forged = anybody.get(path[:-1] + ("A" if path[-1] != "A" else "B"))

    assert shown.status_code == 200
    assert "Deploy &lt;b&gt;now&lt;/b&gt;?" in shown.text
    assert "script" not in shown.text
    assert sheets == [200, 200]
    assert "form-action 'self'" in shown.headers["content-security-policy"]
    assert forged.status_code == 404
    assert cockpit.prompt(prompt_id)["votes"] == []
    assert executor.answers == []


def test_a_link_answers_for_who_is_signed_in(cockpit, executor, receiver):
    prompt_id = ask(executor, cockpit)
    path = link_to(receiver, prompt_id)
    with cockpit.browser() as stranger:
        refused = stranger.post(path, data={"text.text": "y"})
    with cockpit.browser("bob") as browser:
        elsewhere = browser.post(path, data={"text.text": "y"}, headers={"Origin": "https://evil.example"})
        misfit = browser.post(path, data={"text.text": "far too long"})
        endless = browser.post(path, data={"text.text": "y" * 70_000})  # never cut to what would fit
        good = browser.post(path, data={"text.text": "y"})
        again = browser.post(path, data={"text.text": "n"})

    assert (refused.status_code, elsewhere.status_code) == (401, 403)
    assert 'value="y"' in refused.text  # what was typed is kept
    assert misfit.status_code == 422
    assert "/text" in misfit.text
    assert endless.status_code == 400
    assert "has 70000 characters" in endless.text
    assert good.status_code == 200
    assert again.status_code == 409
    assert cockpit.prompt(prompt_id, "closed")["status"] == "responded"
    assert executor.taken(prompt_id) == {"text": "y"}
    voted = [one for one in cockpit.audit() if one["event"] == "voted" and one["outcome"] == "decided"]
    assert [(one["principal"], one["channel"]) for one in voted] == [("token:bob", "link:own")]


def test_a_closed_question_has_no_form_any_more(cockpit, executor, receiver):
    prompt_id = ask(executor, cockpit)
    path = link_to(receiver, prompt_id)
    post_signed(cockpit, "own", KEY, {"prompt_id": prompt_id, "payload": {"text": "y"}})
    cockpit.prompt(prompt_id, "closed")
    with cockpit.client() as anybody:
        shown = anybody.get(path)

    assert "<form" not in shown.text
    assert "No answer is taken any more" in shown.text


def test_a_link_that_leads_nowhere_says_so_on_a_page(cockpit):
    with cockpit.client() as anybody:
        for answer in (anybody.get("/q/nothing"), anybody.post("/q/nothing", data={"text.text": "y"})):
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
            assert "its time is over" in answer.text


def test_a_link_to_what_nobody_may_answer_has_no_form_and_names_the_way_out(cockpit, executor, receiver):
    prompt_id = ask(executor, cockpit, allowed_responders=["team:ops"])
    with cockpit.client() as anybody:
        shown = anybody.get(link_to(receiver, prompt_id)).text

    assert "Nobody can answer it: no responder rule is understood: team:ops." in shown
    assert "Way out: answer it at its host" in shown
    assert "<form" not in shown


def test_a_form_offers_the_choices_and_hides_what_is_secret(cockpit, executor, receiver):
    choice = {"const": "y", "title": 'Yes, "go"'}
    text = {"type": "string", "anyOf": [choice, {"const": "n"}, {"type": "string"}]}
    schema = {
        "type": "object",
        "required": ["text"],
        "properties": {"text": text, "code": {"type": "string", "writeOnly": True}},
    }
    prompt_id = ask(executor, cockpit, response_schema=schema)
    path = link_to(receiver, prompt_id)
    with cockpit.browser() as browser:
        shown = browser.get(path).text
        again = browser.post(path, data={"choice.text": '"y"', "text.code": "hunter2"}).text

    assert re.search(r'type="radio" name="choice.text" value="&#34;y&#34;"', shown)
    assert "Yes, &#34;go&#34;" in shown
    assert 'type="password" name="text.code"' in shown
    assert "checked" in again
    assert "hunter2" not in again


def test_every_way_has_the_same_verdict_for_the_same_person_and_answer(cockpit, executor, receiver):
    """CLI is beside these in `tests/cockpit/test_cockpit_cli.py`."""
    cases = [
        ({}, {"text": "y"}, "decided"),
        ({}, {"text": "far too long"}, "invalid"),
        ({}, {"other": 1}, "invalid"),
        ({"allowed_responders": ["specific:alice"]}, {"text": "y"}, "decided"),
        ({"allowed_responders": ["specific:bob"]}, {"text": "y"}, "not-eligible"),
        ({"allowed_responders": ["consensus:2"]}, {"text": "y"}, "counted"),
        ({"allowed_responders": ["quorum:3"]}, {"text": "y"}, "not-eligible"),
    ]
    for envelope, payload, wanted in cases:
        by_web, by_hook, by_token = (ask(executor, cockpit, **envelope) for _ in range(3))
        with cockpit.browser("alice") as browser:
            browser.post(f"/api/prompts/{by_web}/answer", json={"payload": payload})
        with cockpit.client("alice") as client:
            client.post(f"/api/prompts/{by_token}/answer", json={"payload": payload})
        post_signed(cockpit, "own", KEY, {"prompt_id": by_hook, "payload": payload})
        verdicts = {one["prompt_id"]: one["outcome"] for one in cockpit.audit() if one["event"] == "voted"}
        assert [verdicts[one] for one in (by_web, by_hook, by_token)] == [wanted] * 3, (envelope, payload)
