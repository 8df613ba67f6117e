"""Does a pack load whole, or say everything that is wrong with it?"""

import pytest

from sandboxd.detect.load import check_examples, combine, load_pack
from sandboxd.errors import LoadError

GOOD = """
format = 1

[[rule]]
id     = "mine.go"
title  = "Go on?"
line   = '''Go on\\? \\[(?P<yes>y)/(?P<no>N)\\] $'''
above  = '''ready'''
settle = "50ms"

[rule.answer]
kind    = "yes_no"
choices = [{ text = "{yes}", title = "Yes" }, { text = "{no}", title = "No" }]
default = "capital"

[rule.examples]
asks   = ["ready\\r\\nGo on? [y/N] ", { text = "ready\\r\\nGo on? [y/N] ", choices = ["y", "n"], default = "n" }]
silent = ["Go on? [y/N] y\\r\\n"]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(LoadError) as refused:
        load_pack("/etc/sandboxd/detectors.d/mine.toml", text)
    assert refused.value.source == "/etc/sandboxd/detectors.d/mine.toml"
    return [str(problem) for problem in refused.value.problems]


def test_a_good_pack_loads() -> None:
    pack = load_pack("/etc/sandboxd/detectors.d/mine.toml", GOOD)

    assert pack.name == "mine"
    (rule,) = pack.rules
    assert (rule.id, rule.settle_s) == ("mine.go", 0.05)
    assert rule.above is not None
    assert check_examples([pack]) == ()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("format = 1", "format = 2", "`format`: 1 was expected"),
        ("format = 1", "", "`format`: is missing"),
        ("format = 1", "format = 1\ncolour = 3", "`colour`: unknown key; known here: disable, format, rule"),
        ('settle = "50ms"', 'setle = "50ms"', "mine.go: setle`: unknown key (did you mean `settle`?)"),
        ('settle = "50ms"', 'echo = "off"', "mine.go: echo`: 'off' is not of type 'boolean'"),
        ('settle = "50ms"', "ecko = false", "mine.go: ecko`: unknown key (did you mean `echo`?); known here: above, answer"),
        ('settle = "50ms"', 'allowed-responders = ["specific:ada"]', "mine.go: allowed-responders`: unknown key"),
        ('settle = "50ms"', 'settle = "50 ms"', "mine.go: settle`: `50 ms` does not fit; expected: How long"),
        ('settle = "50ms"', 'settle = "1ms"', "mine.go: settle`: must lie between 20ms and 10s"),
        ('"mine.go"', '"Mine"', "Mine: id`: `Mine` does not fit"),
        ('id     = "mine.go"', "", "number 1: id`: is missing"),
        ('kind    = "yes_no"', 'kind = "riddle"', "mine.go: answer.kind`: 'riddle' is not one of"),
        ('kind    = "yes_no"', 'kind = "secret"', "mine.go: answer.choices`: has no meaning with kind `secret`"),
        ('kind    = "yes_no"', 'kind = "press_enter"', "mine.go: answer.choices`: has no meaning with kind `press_enter`"),
        ("{ text = \"{no}\"", "{ text = \"{non}\"", "mine.go: answer.choices`: `line` has no group named `non` (did"),
        ('default = "capital"', 'default = "{dflt}"', "mine.go: answer.default`: `line` has no group named `dflt`"),
        ("[{ text = \"{yes}\"", "[{ txt = \"{yes}\"", "mine.go: answer.choices[1].txt`: unknown key (did you mean `text`?)"),
        ("'''ready'''", "'''(a+)+'''", "mine.go: above`: begins with an unbounded repeat"),
        ("'''ready'''", "'''x(a+)+'''", "mine.go: above`: repeats something"),
        ("'''ready'''", "'''('''", "mine.go: above`: is no regular expression"),
        ('silent = ["Go on? [y/N] y\\r\\n"]', "", "mine.go: examples.silent`: is missing"),
        ('silent = ["Go on? [y/N] y\\r\\n"]', "silent = []", "mine.go: examples.silent`: [] should be non-empty"),
        ("format = 1", "format = ", "is no TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_rule_and_key(old: str, new: str, problem: str) -> None:
    assert old in GOOD

    found = [text.removeprefix("`rule ") for text in problems(GOOD.replace(old, new))]
    assert any(text.startswith(problem) for text in found), found


def test_every_mistake_is_named_at_once() -> None:
    text = GOOD.replace("'''ready'''", "'''('''").replace('"50ms"', '"90s"')

    assert len(problems(text)) == 2


def test_a_rule_id_that_stands_twice_is_refused_in_one_file_and_over_two() -> None:
    pack = load_pack("mine.toml", GOOD)

    assert problems(GOOD + GOOD.replace("format = 1", "")) == ["`rule mine.go: id`: stands twice in this file"]
    with pytest.raises(LoadError, match=r"`mine\.go`: this rule stands in pack `mine` and in pack `yours`"):
        combine([pack, load_pack("yours.toml", GOOD)])


def test_a_rule_is_silenced_by_its_id() -> None:
    quiet = load_pack("quiet.toml", 'format = 1\ndisable = ["mine.go"]')

    assert combine([load_pack("mine.toml", GOOD), quiet]) == ()
    assert check_examples([load_pack("mine.toml", GOOD), quiet]) == ()


def test_silencing_a_rule_that_does_not_exist_is_a_problem() -> None:
    quiet = load_pack("quiet.toml", 'format = 1\ndisable = ["mine.gone"]')

    (problem,) = check_examples([load_pack("mine.toml", GOOD), quiet])

    assert str(problem) == "`quiet: disable`: no rule is called `mine.gone` (did you mean `mine.go`?)"


def test_rules_stand_in_the_order_of_the_packs() -> None:
    mine, yours = load_pack("mine.toml", GOOD), load_pack("yours.toml", GOOD.replace("mine.go", "yours.go"))

    assert [rule.id for rule in combine([yours, mine])] == ["yours.go", "mine.go"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('asks   = ["ready', 'asks   = ["steady', "`mine: rule mine.go: examples.asks[1]`: no rule takes it for a question"),
        ('choices = ["y", "n"]', 'choices = ["n", "y"]', "`mine: rule mine.go: examples.asks[2]`: the answers are ['y', 'n']"),
        ('default = "n"', 'default = "y"', "`mine: rule mine.go: examples.asks[2]`: the default is 'n', not 'y'"),
        ('["Go on? [y/N] y', '["ready\\r\\nGo on? [y/N] ", "y', "`mine: rule mine.go: examples.silent[1]`: rule mine.go takes"),
    ],
)  # fmt: skip
def test_an_example_that_does_not_hold_is_named(old: str, new: str, problem: str) -> None:
    assert old in GOOD

    (found,) = check_examples([load_pack("mine.toml", GOOD.replace(old, new))])

    assert str(found).startswith(problem)


def test_an_example_must_be_won_by_its_own_rule() -> None:
    mine, yours = load_pack("mine.toml", GOOD), load_pack("yours.toml", GOOD.replace("mine.go", "yours.go"))

    assert {str(found) for found in check_examples([mine, yours])} == {
        f"`yours: rule yours.go: examples.asks[{number}]`: rule mine.go, which comes first, takes it" for number in (1, 2)
    }


MORE = """
format = 1
[[rule]]
id     = "more.pin"
title  = "a code typed blind"
line   = "^Code: $"
echo   = false
answer = { kind = "secret" }
examples = { asks = [{ text = "Code: ", echo = false }], silent = [{ text = "Code: ", echo = true }] }
[[rule]]
id         = "more.key"
title      = "one key"
line       = '^Overwrite[?] $'
single-key = true
polls      = true
answer     = { kind = "yes_no", choices = [{ text = "y" }, { text = "n" }] }
examples   = { asks = ["Overwrite? "], silent = ["Overwrite? y"] }
[[rule]]
id     = "more.pager"
title  = "a pager"
line   = "^-- Next page --$"
answer = { kind = "menu" }
examples = { asks = ["-- Next page --"], silent = ["-- Next page -- and on"] }
"""


def test_a_rule_may_ask_for_the_kernel_s_word_for_one_key_and_for_a_menu() -> None:
    pack = load_pack("more.toml", MORE)

    assert check_examples([pack]) == ()
    pin, key, pager = pack.rules
    assert (pin.echo, key.single_key, key.polls, pager.answer.kind) == (False, True, True, "menu")
