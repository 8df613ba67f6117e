"""What does a detector pack say, and does it hold what its examples promise?

Text in, a `Pack` out: all of it or a `LoadError` that names file, rule and key of everything that is wrong. Reading the file,
and who may write it, is `sandboxd.packs`' business. There is no inheritance and no merging: a rule is silenced by its id.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import attrs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from sandboxd.detect.detector import Detector, Prompt, Stalled
from sandboxd.detect.evidence import NOTHING_KNOWN, Evidence
from sandboxd.detect.pattern import PatternRefused, compile_pattern
from sandboxd.detect.rule import AnswerTemplate, Asks, ChoiceTemplate, Rule, holes
from sandboxd.errors import LoadError, Problem
from sandboxd.values import frozen

SETTLE_MIN_S: Final = 0.02
SETTLE_MAX_S: Final = 10.0
_LOOKS_MAX: Final = 16


@frozen
class Pack:
    """The rules of one file, and the ids that it silences."""

    name: str
    rules: tuple[Rule, ...]
    disable: tuple[str, ...] = ()


def load_pack(source: str, text: str) -> Pack:
    """The pack that this file holds; `source` is its path, and its stem the pack's name."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LoadError(source, [Problem("", f"is no TOML: {error}")]) from None
    problems = [_explain(document, error) for error in _validator().iter_errors(document)]
    if problems:
        raise LoadError(source, problems)
    rules, seen = [], set[str]()
    for number, table in enumerate(document.get("rule", []), 1):
        rule, found = _rule(table, _at(number, table))
        problems += found
        if table["id"] in seen:
            problems.append(Problem(f"{_at(number, table)}: id", "stands twice in this file"))
        seen.add(table["id"])
        if rule is not None:
            rules.append(rule)
    if problems:
        raise LoadError(source, problems)
    return Pack(PurePath(source).stem, tuple(rules), tuple(document.get("disable", [])))


def combine(packs: Sequence[Pack]) -> tuple[Rule, ...]:
    """The rules of these packs in their order, without the silenced ones; a rule id that stands twice is a `LoadError`."""
    silenced = {rule_id for pack in packs for rule_id in pack.disable}
    owner: dict[str, str] = {}
    problems = []
    for pack in packs:
        for rule in pack.rules:
            if rule.id in owner:
                problems.append(Problem(rule.id, f"this rule stands in pack `{owner[rule.id]}` and in pack `{pack.name}`"))
            owner[rule.id] = pack.name
    if problems:
        raise LoadError("the detector packs", problems)
    return tuple(rule for pack in packs for rule in pack.rules if rule.id not in silenced)


def check_examples(packs: Sequence[Pack]) -> tuple[Problem, ...]:
    """Feed every example through the whole detector, with all packs loaded; empty: all of them hold.

    Each `asks` must be won by its own rule, with the answers it names; each `silent` must be silent for all rules.
    """
    rules = combine(packs)
    active = {rule.id for rule in rules}
    problems = []
    for pack in packs:
        known = {rule.id for other in packs for rule in other.rules}
        problems += [
            Problem(f"{pack.name}: disable", f"no rule is called `{rule_id}`{_did_you_mean(rule_id, known)}")
            for rule_id in pack.disable
            if rule_id not in known
        ]
        for rule in pack.rules:
            at = f"{pack.name}: rule {rule.id}: examples"
            if rule.id in active:
                for number, example in enumerate(rule.asks, 1):
                    why = _why_not(rule, example, _news(rules, rule, example))
                    problems += [Problem(f"{at}.asks[{number}]", why)] if why else []
            for number, example in enumerate(rule.silent, 1):
                prompt = ask(rules, example.data, _evidence(example))
                if prompt is not None:
                    problems.append(Problem(f"{at}.silent[{number}]", f"rule {prompt.rule} takes it for a question"))
    return tuple(problems)


def ask(rules: Sequence[Rule], data: str, evidence: Evidence = NOTHING_KNOWN) -> Prompt | None:
    """What these rules raise when these bytes arrive and silence follows."""
    news = _listen(Detector(rules, by_shape=False), data, evidence)
    return news if isinstance(news, Prompt) else None


def _listen(detector: Detector, data: str, evidence: Evidence) -> Prompt | Stalled | None:
    detector.feed(data.encode(), 0.0)
    for _ in range(_LOOKS_MAX):  # with the kernel's word a detector never stops looking
        deadline = detector.next_deadline()
        if deadline is None:
            break
        news = detector.poll(deadline, evidence)
        if isinstance(news, Prompt | Stalled):
            return news
    return None


def _news(rules: Sequence[Rule], rule: Rule, example: Asks) -> Prompt | Stalled | None:
    evidence = _evidence(example)
    if rule.answer.kind == "menu":  # noticed only where somebody reads
        return _listen(Detector(rules, by_shape=False), example.data, attrs.evolve(evidence, reading=True))
    return ask(rules, example.data, evidence)


def _evidence(example: Asks) -> Evidence:
    return Evidence() if example.echo is None else Evidence(canonical=True, echo=example.echo)


def _why_not(rule: Rule, example: Asks, prompt: Prompt | Stalled | None) -> str:
    is_menu = rule.answer.kind == "menu"
    if prompt is None or (isinstance(prompt, Stalled) and not is_menu):
        return "no rule takes it for a question"
    if prompt.rule != rule.id:
        return f"rule {prompt.rule}, which comes first, takes it"
    if isinstance(prompt, Stalled):
        return ""
    choices = tuple(choice.text for choice in prompt.form.choices)
    if example.choices is not None and choices != example.choices:
        return f"the answers are {list(choices)}, not {list(example.choices)}"
    if example.default is not None and prompt.form.default != example.default:
        return f"the default is {prompt.form.default!r}, not {example.default!r}"
    return ""


def _rule(table: Mapping[str, Any], at: str) -> tuple[Rule | None, list[Problem]]:
    problems: list[Problem] = []
    patterns: dict[str, re.Pattern[str]] = {}
    for key in ("line", "above"):
        if key in table:
            try:
                patterns[key] = compile_pattern(table[key])
            except PatternRefused as refused:
                problems.append(Problem(f"{at}: {key}", str(refused)))
    settle_s = _seconds(table.get("settle", "200ms"))
    if not SETTLE_MIN_S <= settle_s <= SETTLE_MAX_S:
        problems.append(Problem(f"{at}: settle", "must lie between 20ms and 10s"))
    answer, found = _answer(table["answer"], at)
    problems += found
    if "line" in patterns:
        groups = patterns["line"].groupindex
        problems += [
            Problem(f"{at}: answer.{key}", f"`line` has no group named `{hole}`{_did_you_mean(hole, groups)}")
            for hole, key in holes(answer).items()
            if hole not in groups
        ]
    if table.get("single-key", False):
        problems += [
            Problem(f"{at}: answer.choices", f"`{choice.text}` is no single key")
            for choice in answer.choices
            if len(choice.text) > 1 and not choice.text.startswith("{")
        ]
    if problems:
        return None, problems
    examples = table["examples"]
    return Rule(
        id=table["id"],
        title=table["title"],
        line=patterns["line"],
        above=patterns.get("above"),
        settle_s=settle_s,
        answer=answer,
        echo=table.get("echo"),
        edits=table.get("edits"),
        single_key=table.get("single-key", False),
        polls=table.get("polls", False),
        asks=tuple(_asks(example) for example in examples["asks"]),
        silent=tuple(_asks(example) for example in examples["silent"]),
    ), []


def _answer(table: Mapping[str, Any], at: str) -> tuple[AnswerTemplate, list[Problem]]:
    problems = []
    kind = table["kind"]
    names_choices = "choices" in table or "choices-in" in table
    if "choices" in table and "choices-in" in table:
        problems.append(Problem(f"{at}: answer.choices-in", "cannot stand beside `choices`"))
    if kind in ("yes_no", "choice") and not names_choices:
        problems.append(Problem(f"{at}: answer.choices", f"required with kind `{kind}` (or `choices-in`)"))
    if kind in ("press_enter", "secret", "menu"):
        problems += [Problem(f"{at}: answer.{key}", f"has no meaning with kind `{kind}`") for key in table if key != "kind"]
    if "titles" in table and "choices-in" not in table:
        problems.append(Problem(f"{at}: answer.titles", "only goes with `choices-in`"))
    if table.get("default") == "capital" and not names_choices:
        problems.append(Problem(f"{at}: answer.default", "`capital` needs `choices` or `choices-in`"))
    choices = tuple(ChoiceTemplate(choice["text"], choice.get("title", "")) for choice in table.get("choices", []))
    choices_in = table.get("choices-in")
    template = AnswerTemplate(
        kind=kind,
        choices=choices,
        choices_in=choices_in[1:-1] if choices_in else None,
        titles=dict(table.get("titles", {})),
        default=table.get("default"),
    )
    return template, problems


def _asks(example: str | Mapping[str, Any]) -> Asks:
    if isinstance(example, str):
        return Asks(example)
    choices = example.get("choices")
    return Asks(example["text"], None if choices is None else tuple(choices), example.get("default"), example.get("echo"))


def _seconds(text: str) -> float:
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text[:-1])


@functools.cache
def _validator() -> Draft202012Validator:
    # Part of the code, not of the world: the same bytes for as long as this version is installed.
    schema = importlib.resources.files("sandboxd").joinpath("share/schemas/detector-pack.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(schema))


def _at(number: int, table: Any) -> str:
    name = table.get("id") if isinstance(table, Mapping) else None
    return f"rule {name}" if isinstance(name, str) else f"rule number {number}"


def _explain(document: Mapping[str, Any], error: ValidationError) -> Problem:
    if error.validator == "anyOf":
        error = best_match([error]) or error
    path: list[Any] = list(error.absolute_path)
    keyword = str(error.validator)
    instance: Any = error.instance
    schema: Any = error.schema
    reason = error.message
    if keyword == "additionalProperties" and isinstance(schema, Mapping):
        known = schema.get("properties", {})
        unknown = sorted(instance.keys() - known.keys())
        path.append(unknown[0])
        reason = f"unknown key{_did_you_mean(unknown[0], known)}; known here: {', '.join(sorted(known))}"
    elif keyword == "required":
        path += [key for key in schema["required"] if key not in instance][:1]
        reason = "is missing"
    elif keyword == "pattern":
        reason = f"`{instance}` does not fit; expected: {schema.get('description', schema['pattern'])}"
    if path[:1] == ["rule"] and len(path) > 1:
        number = int(path[1])
        return Problem(f"{_at(number + 1, document['rule'][number])}: {_dotted(path[2:])}".removesuffix(": "), reason, keyword)
    return Problem(_dotted(path), reason, keyword)


def _dotted(path: Sequence[Any]) -> str:
    text = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _did_you_mean(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean `{near[0]}`?)" if near else ""
