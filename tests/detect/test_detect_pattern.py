"""Are slow patterns refused, and useful ones not?"""

import time

import pytest

from sandboxd.detect.pattern import TEXT_MAX_CHARS, PatternRefused, compile_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i)[\[(](?P<yes>y|yes)/(?P<no>n|no)[\])] ?[:?]? ?$",
        r"(?i)\b(?:password|passphrase|pin)\b.{0,80}: ?$",
        r"Are you sure.*\?$",
        r"\((?P<list>[^)]*)\)\s?$",
        r"\([^)]*\) \[[^\]]*\]:$",
        r"^.{1,200}\?\s$",
        r"x(?:ab)*\?$",
        r"x(?:[a-z]++,)*+[a-z]+\?$",
        r"x(?:a+b)*+\?$",
        r"x(?>a+)b$",
        r"(?:yes|no)(?:, (?:yes|no)){1,9}\?$",
        r"(?<!not )sure\?(?= )",
    ],
)
def test_useful_patterns_are_taken(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"^(a+)+$", "nested"),
        (r"x(\s*[\w\s]+)*\[y/N\]", "nested"),
        (r"x(?:a|a)*b", "nested"),
        (r"x(?:a|ab)*c", "nested"),
        (r"x(?:a?a)*b", "nested"),
        (r"x(?:a?){40}b", "nested"),
        (r"x(?:(?:a{1,3}){1,5}){2,9}b", "nested"),
        (r"a.*b.*c$", "too long"),
        (r"x\s*\s*y", "too long"),
        (r"x\w+[a-z0-9]+y", "too long"),
        (r"x.{0,80}.{0,80}y", "too long"),
        (r"x(?:a?a?a?a?a?a?a?a?a?a?a?a?a?a?)aaaaaaaaaaaaaab", "too long"),
        (r".*\? \[y/N\]$", "begins with an unbounded repeat"),
        (r"\s+$", "begins with an unbounded repeat"),
        (r"(?:x|(\w*))\?$", "begins with an unbounded repeat"),
        (r"(?P<q>['\"])yes(?P=q)", "refers back"),
        (r"(a)?(?(1)b|c)", "refers back"),
        ("a" * 601, "601 characters"),
        ("(", "no regular expression"),
        ("[z-a]", "no regular expression"),
    ],
)
def test_dangerous_patterns_are_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(PatternRefused, match=why):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a.*\?$", "a" * TEXT_MAX_CHARS),
        (r"\([^)]*\)\s?$", "(" * TEXT_MAX_CHARS),
        (r"x\w+\s$", "x" * TEXT_MAX_CHARS),
        (r"x.{0,60}.{0,60}y", "x" * TEXT_MAX_CHARS),
        (r"x(?:[a-z]++,)*+[a-z]+\?$", "xa," * (TEXT_MAX_CHARS // 3)),
    ],
)
def test_the_worst_line_for_a_pattern_that_is_taken_costs_little(pattern: str, text: str) -> None:
    compiled = compile_pattern(pattern)
    began = time.thread_time()
    compiled.search(text)

    assert time.thread_time() - began < 0.5  # measured: at most 40 ms; CPU time, so that a busy machine changes nothing
