"""Do the shipped detector packs hold what their own examples promise, with all packs loaded, in every order?"""

import itertools
from pathlib import Path

import pytest

from sandboxd.detect.detector import Detector, Prompt
from sandboxd.detect.load import Pack, ask, check_examples, combine, load_pack
from sandboxd.detect.rule import Asks, Rule
from sandboxd.packs import shipped

FILES = sorted(shipped("detectors").glob("*.toml"))
PACKS = tuple(load_pack(path.name, path.read_text("utf-8")) for path in FILES)
RULES = combine(PACKS)
ASKS = [(rule, example) for rule in RULES for example in rule.asks]
SILENT = [(rule, example.data) for rule in RULES for example in rule.silent]


def test_there_are_packs() -> None:
    assert {path.stem for path in FILES} >= {"confirm", "node", "shell"}


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_a_pack_s_rules_are_named_for_their_pack(pack: Pack) -> None:
    assert all(rule.id.startswith(f"{pack.name}.") for rule in pack.rules)


@pytest.mark.parametrize("order", list(itertools.permutations(PACKS)), ids=lambda order: "-".join(pack.name for pack in order))
def test_every_example_holds_in_every_order_of_the_packs(order: tuple[Pack, ...]) -> None:
    assert check_examples(order) == ()


@pytest.mark.parametrize(("rule", "example"), ASKS, ids=lambda value: getattr(value, "id", None))
def test_a_question_is_won_by_its_own_rule(rule: Rule, example: Asks) -> None:
    prompt = ask(RULES, example.data)

    assert prompt is not None
    assert prompt.rule == rule.id


@pytest.mark.parametrize(("rule", "example"), ASKS, ids=lambda value: getattr(value, "id", None))
def test_a_question_is_found_wherever_its_bytes_are_cut(rule: Rule, example: Asks) -> None:
    data = example.data.encode()
    for cut in range(len(data)):
        detector = Detector(RULES)
        detector.feed(data[:cut], 0.0)
        detector.feed(data[cut:], 0.1)
        deadline = detector.next_deadline()
        assert deadline is not None
        prompt = detector.poll(deadline)

        assert isinstance(prompt, Prompt), cut
        assert prompt.rule == rule.id


@pytest.mark.parametrize(("rule", "example"), ASKS, ids=lambda value: getattr(value, "id", None))
def test_a_question_whose_line_has_ended_is_silent(rule: Rule, example: Asks) -> None:
    assert ask(RULES, f"{example.data}\r\n") is None


@pytest.mark.parametrize(("rule", "data"), SILENT, ids=lambda value: getattr(value, "id", None))
def test_what_is_no_question_is_silent(rule: Rule, data: str) -> None:
    assert ask(RULES, data) is None


def real_questions() -> list[tuple[str, tuple[str, ...], str | None]]:
    """What sixteen everyday programs print, as it was recorded; most of them are missed by fixed strings."""
    return [
        ("Do you want to continue? [Y/n] ", ("y", "n"), "y"),
        ("After this operation, 12 kB will be used.\r\nDo you want to continue? [Y/n] ", ("y", "n"), "y"),
        ("Are you sure you want to continue connecting (yes/no/[fingerprint])? ", ("yes", "no"), None),
        ("Found existing installation: six 1.17.0\r\nProceed (Y/n)? ", ("y", "n"), "y"),
        ("/home/ada/.ssh/id_ed25519 already exists.\r\nOverwrite (y/n)? ", ("y", "n"), None),
        ("Deploy web x3 to prod? [y/N]: ", ("y", "n"), "n"),
        ("Remove x.o [y/N]? ", ("y", "n"), "n"),
        ("\x1b[1m(1/2) Stage this hunk [y,n,q,a,d,e,?]? \x1b[m", ("y", "n", "q", "a", "d", "e", "?"), None),
        ("\x1b[34m?\x1b[39m \x1b[1mContinue with setup?\x1b[22m \x1b[2m(Y/n)\x1b[22m \x1b[32G", ("y", "n"), "y"),
        ("Ok to proceed? (y) ", ("y", "n"), "y"),
        ("Write the plan to .aiwg/ops/runs? [y/N] ", ("y", "n"), "n"),
        ("rm: remove write-protected regular file 'a'? ", ("y", "n"), "n"),
        ("Press Enter to continue...", (), None),
    ]


@pytest.mark.parametrize(("data", "choices", "default"), real_questions())
def test_real_questions_are_found_with_their_answers(data: str, choices: tuple[str, ...], default: str | None) -> None:
    prompt = ask(RULES, data)

    assert prompt is not None
    assert tuple(choice.text for choice in prompt.form.choices) == choices
    assert prompt.form.default == default


@pytest.mark.parametrize(
    "data",
    [
        "2026-11-29 12:00:01 INFO asked: Overwrite? [y/N]; answered y\r\n",
        "See the manual: answer (y/n) when asked. Are you sure? is printed first.\r\n",
        "test_delete (y/n) ... ok\r\n",
        "usage: tool [-y] [--confirm (yes/no)] FILE\r\n",
        "  user: Do you want to proceed?\r\n  bot: Would you like to (y/n)? I would.\r\n",
        "  1. Keep the file\r\n  2. Rewrite the tests\r\nI will start with option 2.\r\n",
        "\x1b[?25l\x1b[32m⠧\x1b[39m Are you sure: verifying",
        "Running tests:\r\nSummary:\r\nCoverage of changed files?\r\n3 passed\r\n",
        "Last login: Sun Nov 29 12:00:00 on tty1\r\n",
        "Progress: [ 80%] [####....] ",
        "$ ",
        "user@host:~$ ",
        "[INFO] building (1/3) ",
        "Compiling crate 6 of 8 (release)",
        "? Pick a database (Use arrow keys)\r\n❯ postgres\r\n  sqlite\x1b[1A",
        "? Project name: (demo) ",
    ],
)
def test_harmless_output_is_silent(data: str) -> None:
    assert ask(RULES, data) is None


def test_the_readme_names_every_pack() -> None:
    readme = (Path(FILES[0]).parent / "README.md").read_text("utf-8")

    assert all(f"`{path.name}`" in readme for path in FILES)
