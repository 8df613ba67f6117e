"""Does the page, in a real Chromium before a real daemon, do what it is for?"""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from tests.cockpit.story import envelope
from tests.page.browser import expect, find_axe
from tests.page.site import WAIT_S, Site
from tests.support.daemon import RUNNER, output_of

SOON_MS = 1000  # issue 6; of several questions the middle one: a machine that is busy for a moment is no fault of the page
QUESTIONS = 5
NOTE_ROWS = """() => {
  window.drawn = {};
  const note = () => { for (const row of document.querySelectorAll(".row")) window.drawn[row.dataset.number] ??= Date.now(); };
  new MutationObserver(note).observe(document.body, {childList: true, subtree: true});
}"""
TERMINAL = ".transcript"


def test_a_question_appears_by_itself_and_is_answered_by_mouse(site, visit):
    reader = visit()
    reader.sees("Nobody asks anything")
    question = site.question("Apply the migration? [y/N] ", ["print", "applying it\n"], before=(["print", "12 tables\n"],))
    reader.open(question)
    yes = reader.page.get_by_role("button", name="Yes")
    expect(yes).to_contain_text("types “y” and Enter")
    expect(reader.page.get_by_role("button", name="No (default)")).to_contain_text("types “n” and Enter")
    yes.click()

    reader.sees("Answered by alice", ".detail")
    reader.no_longer_sees(".choice")
    for number in (1, 2, 3, 4):
        expect(reader.page.locator(f".steps li:nth-child({number})")).to_have_class("done", timeout=WAIT_S * 1000)
    reader.page.get_by_role("checkbox", name="plain text").check()
    reader.sees("applying it", TERMINAL)
    done = site.daemon.until(question["task_id"], "COMPLETED")
    assert 'answer: "y"' in output_of(done)


def test_questions_appear_within_a_second_of_their_hosts_commit(site, visit):
    reader = visit()
    reader.sees("Nobody asks anything")
    reader.page.evaluate(NOTE_ROWS)
    task_id = site.daemon.run([["ask", f"Question {number}? [y/N] "] for number in range(QUESTIONS)])["id"]
    took_ms, question = list[int](), site.asked_of(task_id)
    for left in reversed(range(QUESTIONS)):
        asked_at = site.daemon.get(task_id)["status"]["timestamp"]  # the host's commit; both clocks are this machine's
        expect(reader.row(question)).to_be_visible(timeout=WAIT_S * 1000)
        since = "([number, asked]) => window.drawn[number] - Date.parse(asked)"
        took_ms.append(reader.page.evaluate(since, [question["number"], asked_at]))
        site.api("bob", "POST", f"/api/prompts/{question['number']}/answer", {"payload": {"text": "y"}})
        question = site.asked_of(task_id, behind=question["number"]) if left else question

    assert median(took_ms) < SOON_MS, f"from the host's commit to the page, in ms: {sorted(took_ms)}"


def test_the_terminal_is_drawn_and_has_no_way_in(site, visit):
    reader = visit()
    question = site.question("Go on? [y/N] ", before=(["print", "\x1b[1mbold\x1b[0m and \x1b]0;a title\x07plain\n"],))
    reader.open(question)
    expect(reader.page.locator(".xterm-rows")).to_contain_text("bold and plain", timeout=WAIT_S * 1000)
    sent: list[str] = []
    reader.page.on("request", lambda request: sent.append(request.method))
    reader.page.locator(".xterm-screen").click()
    reader.page.keyboard.type("y\n")
    reader.page.get_by_role("checkbox", name="plain text").check()

    assert "POST" not in sent
    assert "a title" not in reader.page.title()
    assert site.phase(question) == "open"


def test_a_question_is_answered_by_keyboard_alone(site, visit):
    question = site.question("Overwrite it? [y/N] ")
    reader = visit()
    reader.sees("Overwrite it?")
    keyboard = reader.page.keyboard
    keyboard.press("j")
    expect(reader.page.locator(".choice").first).to_be_visible(timeout=WAIT_S * 1000)
    keyboard.press("2")
    expect(reader.page.get_by_role("button", name="No (default)")).to_be_focused()
    assert (
        site.api("alice", "GET", f"/api/prompts/{question['number']}")["prompt"]["phase"] == "open"
    )  # a key alone does nothing
    keyboard.press("Enter")

    reader.sees("Answered by alice", ".detail")
    assert 'answer: "n"' in output_of(site.daemon.until(question["task_id"], "COMPLETED"))
    keyboard.press("Escape")
    reader.sees("Nobody asks anything")


def test_typed_text_is_sent_by_keyboard_and_a_wrong_one_keeps_it(site, visit):
    question = site.question("Name of the release: ")
    reader = visit()
    reader.open(question)
    field = reader.page.get_by_label("Your text")
    wrong = reader.page.locator("#field-text-wrong")
    # As characters the second one fits, as bytes it does not: the cockpit takes it, and its host refuses it.
    for text, why in (("a" * 4097, "at most 4096 are allowed"), ("a" + "é" * 4090, "The host says that it does not fit")):
        field.fill(text)
        field.press("Enter")

        expect(wrong).to_contain_text(why, timeout=WAIT_S * 1000)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_value(text)
    field.fill("v2 “final”")
    expect(wrong).to_be_hidden()
    field.press("Control+Enter")
    reader.sees("Answered by alice", ".detail")
    assert "v2 “final”" in output_of(site.daemon.until(question["task_id"], "COMPLETED"))


def test_buttons_retire_everywhere_and_say_who_answered(site, visit):
    question = site.question("Deploy? [y/N] ")
    alice, bob = visit("alice"), visit("bob", width=390)
    for reader in (alice, bob):
        reader.open(question)
        expect(reader.page.locator(".choice")).to_have_count(2)
    bob.page.get_by_role("button", name="No (default)").click()

    alice.sees("Answered by bob", ".detail")
    for reader in (alice, bob):
        reader.no_longer_sees(".choice")
        reader.no_longer_sees("#field-text")
    expect(alice.row(question)).to_have_count(0)


def test_everything_from_a_task_is_denied_with_a_reason(site, visit):
    question = site.question("Delete it all? [y/N] ", ["hang"])
    reader = visit()
    reader.open(question)
    reader.page.locator("summary", has_text="Deny everything").click()
    deny = reader.page.get_by_role("button", name="Deny everything from this task")
    deny.click()
    reader.sees("Say why")
    reader.page.get_by_label("Reason").fill("wrong machine")
    deny.click()

    reader.sees("Cancelled", ".detail")
    site.daemon.until(question["task_id"], "CANCELED")
    reader.page.get_by_role("tab", name="Audit").click()
    reader.sees("token:alice", ".log")


def test_two_must_agree_and_the_page_counts_them(site, visit):
    question = site.question("Launch it? [y/N] ")
    alice, bob = visit("alice"), visit("bob")
    for reader in (alice, bob):
        reader.open(question)
        reader.sees("0 of 2", ".facts")
    alice.page.get_by_role("button", name="Yes").click()

    alice.sees("You have answered; 1 of 2 so far", ".detail")
    bob.sees("1 of 2", ".facts")
    bob.page.get_by_role("button", name="Yes").click()
    for reader in (alice, bob):
        reader.sees("Answered by alice and bob", ".detail")


def test_a_secret_of_any_host_is_typed_hidden_and_shown_nowhere(site, visit):
    secret = "correct-horse-battery"
    text = {"type": "string", "writeOnly": True}
    envelope: dict[str, Any] = {
        "prompt_id": "0b5c0f3e-8d4f-4a4b-9f0f-000000000001",
        "prompt": "Password:",
        "response_schema": {"type": "object", "required": ["text"], "properties": {"text": text}},
    }
    site.executor.ask(site.executor.begin(), envelope)
    reader = visit(None)
    reader.sign_in("alice")
    reader.page.locator(".row").click()
    field = reader.page.get_by_label("The secret")
    expect(field).to_have_attribute("type", "password")
    field.fill(secret)
    reader.page.get_by_role("button", name="Send the secret").click()
    reader.sees("Answered by alice", ".detail")
    reader.sees("this host does not say", ".steps")  # that it was read: nothing is made of silence
    reader.page.get_by_role("tab", name="Audit").click()

    assert secret not in reader.page.content()
    assert field.count() == 0
    assert site.executor.taken(envelope["prompt_id"]) == {"text": secret}
    assert [path for path in site.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []


def test_missions_are_started_shown_and_cancelled(site, visit):
    reader = visit()
    reader.page.get_by_role("link", name="Missions").click()
    reader.sees("Start a mission")
    reader.page.locator("summary", has_text="Start a mission").click()
    reader.page.get_by_role("button", name="Start the mission").click()
    reader.sees("; adapter: must not be empty", ".wrong")
    reader.page.get_by_label("Host").fill("lab")
    reader.page.get_by_label("Adapter").fill("sandbox-agent-runner")
    path = site.daemon.request([["ask", "Shall we? [y/N] "], ["hang"]])
    reader.page.get_by_label("Command").fill(f"node\n{RUNNER}\n--request\n{path}")
    reader.page.get_by_role("button", name="Start the mission").click()

    reader.sees("awaiting-approval", ".mission")
    assert reader.axe() == [] if find_axe() else True
    reader.page.locator(".mission summary", has_text="Cancel mission").click()
    reader.page.get_by_label("Reason").fill("only a try")
    reader.page.get_by_role("button", name="Cancel mission").click()
    reader.sees("cancelled", ".mission")


def test_who_may_only_look_has_no_buttons(site, visit):
    question = site.question("Deploy? [y/N] ")
    reader = visit("eve")
    reader.open(question)

    reader.sees("You may look at this question, and not answer it.")
    reader.no_longer_sees(".choice")


def test_a_cockpit_that_was_gone_finds_the_page_as_it_was_left(site, visit):
    question = site.question("Deploy? [y/N] ")
    alice, bob = visit("alice"), visit("bob")
    for reader in (alice, bob):
        reader.open(question)
        reader.page.get_by_label("Any other text").fill(f"half a thought of {reader.name}")
    site.sign_out("bob")
    site.stop()
    alice.sees("the cockpit does not answer")
    site.start()

    bob.sees("You have been signed out. What you typed is still here.")
    bob.sign_in("bob")
    for reader in (alice, bob):  # a restart alone signs nobody out
        reader.sees("live", "#link")
        expect(reader.page.get_by_label("Any other text")).to_have_value(f"half a thought of {reader.name}")
    alice.page.get_by_role("button", name="Yes").click()
    alice.sees("Answered by alice", ".detail")


def test_a_host_that_goes_away_is_said_so_and_comes_back(site, visit):
    question = site.question("Deploy? [y/N] ")
    reader = visit()
    reader.open(question)
    site.daemon.kill()
    reader.sees("The host does not answer", ".status")
    assert site.phase(question) == "open"  # that nobody hears anything is no answer
    site.daemon.start()

    reader.sees("Closed without an answer", ".detail")  # the program died with its daemon
    reader.no_longer_sees(".choice")
    again = site.question("Once more? [y/N] ")
    expect(reader.row(again)).to_be_visible(timeout=WAIT_S * 1000)


def test_a_link_is_answered_by_its_form(site, visit):
    question = site.question("Deploy? [y/N] ")
    reader = visit(at=site.link(question))
    assert reader.axe() == [] if find_axe() else True
    reader.page.get_by_label("Yes").check()
    reader.page.get_by_role("button", name="Send this answer").click()

    reader.sees("It is on record")
    assert 'answer: "y"' in output_of(site.daemon.until(question["task_id"], "COMPLETED"))
    reader.go(site.link(question))
    reader.sees("No answer is taken any more")


def ask_elsewhere(site: Site, number: int, **more: Any) -> dict[str, Any]:
    """A question of the host that is not ours."""
    task_id = site.executor.begin()
    site.executor.ask(task_id, envelope(1000 + number, **more))
    return site.asked_of(task_id)


def test_the_countdown_goes_by_the_cockpits_clock_and_not_by_the_browsers(site, visit):
    question = ask_elsewhere(site, 2, prompt="Go on?")  # it stands for a day
    reader = visit()
    reader.page.add_init_script("const now = Date.now; Date.now = () => now() + 2 * 86_400_000;")  # two days ahead
    reader.go()
    reader.open(question)

    reader.sees("23 h", ".timer")
    expect(reader.row(question)).to_contain_text("23 h", timeout=WAIT_S * 1000)


def test_what_is_paused_names_its_reason_and_its_way_out(site, visit):
    question = ask_elsewhere(site, 3, allowed_responders=["team:ops"])
    reader = visit()
    reader.open(question)

    expect(reader.row(question)).to_contain_text("nobody")
    reader.sees("no responder rule is understood: team:ops", ".box.bad")
    reader.sees("Way out: answer it at its host, or end its task", ".box.bad")
    reader.no_longer_sees(".answer")


def test_a_question_is_text_whatever_it_holds(site, visit):
    hostile = "<img src=x onerror=alert(1)> \u202egnp.exe\u202c ok? [y/N] "
    question = site.question(hostile)
    reader = visit()
    reader.open(question)

    shown = reader.page.locator(".asks")
    expect(shown).to_contain_text("<img src=x onerror=alert(1)>")
    assert "\u202e" not in shown.inner_text()
    assert reader.page.locator(".asks img").count() == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True), (320, False)])
def test_nothing_is_in_the_way_of_anybody(site, visit, width, dark):
    if find_axe() is None:
        pytest.skip("NOT TESTED HERE: accessibility (no axe-core: `scripts/setup` fetches it with npm)")
    reader = visit(None, width=width, dark=dark)
    expect(reader.page.get_by_label("Your token")).to_be_visible()
    found = {"sign-in": reader.axe()}
    reader.sign_in("alice")
    reader.sees("Nobody asks anything")
    found["empty"] = reader.axe()
    question = site.question("Deploy to production? [y/N] ")
    expect(reader.row(question)).to_be_visible(timeout=WAIT_S * 1000)
    found["inbox"] = reader.axe()
    reader.open(question)
    found["question"] = reader.axe()
    assert reader.overflow() == 0
    for tab in ("What will run", "Audit"):
        reader.page.get_by_role("tab", name=tab).click()
        found[tab] = reader.axe()
        assert reader.overflow() == 0
    reader.page.get_by_role("button", name="Yes").click()
    reader.sees("Answered by alice", ".detail")
    found["closed"] = reader.axe()

    assert {where: what for where, what in found.items() if what} == {}
