"""Which policy stands in this TOML text, and do its own examples hold?

Strict: an unknown key, a hole without a description, a path that climbs, a restriction that this route cannot keep is a
`LoadError` that names file and key. Whether the file may be trusted (owner, mode) is asked where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, cast

from sandboxd.errors import LoadError, Problem
from sandboxd.hitl.foreign import refuse_schema
from sandboxd.policy.adapter import MESSAGE_VARIABLE, MODES, TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S, AdapterCommand, Mode
from sandboxd.policy.decide import LEVELS, Subject, decide
from sandboxd.policy.exec_text import shown, unfit
from sandboxd.policy.model import (
    HANDED_MAX,
    TMP_BYTES,
    Denied,
    Example,
    Hole,
    Isolation,
    IsolationRules,
    Limits,
    OneOf,
    OnExpiry,
    PathUnder,
    Policy,
    PromptRules,
    Secrets,
    Template,
)
from sandboxd.policy.paths import not_plain
from sandboxd.policy.table import Table, closest, listed, parse_toml

FORMAT: Final = 1
# What decisions and reasons call something else already.
_RESERVED_HOLES: Final = frozenset(
    {"adapter", "command", "env", "isolation", "program", "runner", "timeout_seconds", "working_dir"}
)
_ROOT: Final = "/workspace"  # in a policy: the instance's root, whatever the config calls it
_SET_FOR_YOU: Final = (MESSAGE_VARIABLE, "AIWG_A2A_TASK_ID", "AIWG_A2A_INSTANCE_ID", "AIWG_MISSION_ID")
_TRIAL_ROOT: Final = "/workspace"


def load_policy(source: str, text: str, digest: str) -> Policy:
    """The policy in `text`; `LoadError` with every problem. `source` names the file, and its stem the policy."""
    problems: list[Problem] = []
    top = Table(parse_toml(source, text), problems)
    if not top.has("format") or repr(top.values["format"]) != repr(FORMAT):
        top.problem("format", f"must be `format = {FORMAT}`, the only format that there is")
    adapter = top.text("adapter")
    command = top.table("command", required=True)
    program = command.text("program")
    holes = _read_holes(top.table("hole", required=True))
    argv = _read_argv(command, holes)
    cwd, working_dirs = _read_folders(command)
    env = _read_env(command, holes, argv, adapter)
    runner = _read_runner(command, argv)
    terminal = command.word("terminal", ("text-line", "always"), "text-line")
    command.close()
    limits, timeout_max_s = _read_limits(top.table("limits"))
    prompts = _read_prompts(top.table("prompts"))
    isolation = _read_isolation(top.table("isolation"))
    pins = _read_pins(top.table("pin"), runner, holes)
    examples = tuple(_read_example(table, holes) for table in top.tables("example"))
    top.close()
    if problems:
        raise LoadError(source, problems)
    return Policy(
        name=PurePosixPath(source).stem,
        source=source,
        digest=digest,
        adapter=adapter,
        program=program,
        argv=argv,
        runner=runner,
        cwd=cwd,
        working_dirs=working_dirs,
        env=env,
        terminal="always" if terminal == "always" else "text-line",
        holes=holes,
        limits=limits,
        timeout_max_s=timeout_max_s,
        prompts=prompts,
        isolation=isolation,
        examples=examples,
        pins=pins,
    )


def check_together(policies: Sequence[Policy]) -> tuple[Problem, ...]:
    """What keeps these policies from being active on one instance: an adapter has one policy, or none."""
    first: dict[str, Policy] = {}
    problems = []
    for policy in policies:
        other = first.setdefault(policy.adapter, policy)
        if other is not policy:
            why = f"is for the adapter {shown(policy.adapter)}, and so is `{other.source}`: an instance takes one of them"
            problems.append(Problem(policy.source, why))
    return tuple(problems)


def check_examples(policy: Policy) -> tuple[Problem, ...]:
    """Every example that does not hold: text only, no file is looked at."""
    if not policy.examples:
        return (Problem("example", "none: show at least one request that is allowed and one that is denied"),)
    return tuple(
        Problem(f"example.{number}", why)
        for number, example in enumerate(policy.examples, 1)
        for why in [_check_example(policy, example)]
        if why
    )


def _check_example(policy: Policy, example: Example) -> str | None:
    command = AdapterCommand(
        adapter=policy.adapter,
        mode=cast("Mode", example.values["mode"]),  # a denied example may say `apply`, which is the point of it
        command=tuple(template.render(example.values) for template in policy.argv),
        working_dir=example.working_dir,
        timeout_s=example.timeout_s,
    )
    programs = {policy.program: "/usr/bin/true"}  # whether the host has it is the config's business, not the example's
    subject = Subject("example", "example", "example", "", _TRIAL_ROOT, _TRIAL_ROOT, programs, LEVELS[0])
    decision = decide([policy], command, subject)
    reasons = decision.reasons if isinstance(decision, Denied) else ()
    told = "; ".join(f"{reason} ({reason.field}: {reason.keyword})" for reason in reasons)
    if example.because is None:
        return f"should be allowed, and is denied: {told}" if reasons else None
    if not reasons:
        return f"should be denied because of `{example.because}`, and is allowed"
    if any(f"{reason.field}: {reason.keyword}" == example.because for reason in reasons):
        return None
    return f"should be denied because of `{example.because}`, and is denied for another reason: {told}"


def _read_template(table: Table, key: str, text: str) -> Template:
    """`{name}` is a hole, at most one in a text; `{{` and `}}` are plain braces."""
    pieces = re.split(r"(\{\{|\}\}|\{[^{}]*\}|[{}])", text)
    before, after = "", ""
    hole: str | None = None
    for piece in pieces:
        plain = {"{{": "{", "}}": "}"}.get(piece, piece)
        if re.fullmatch(r"\{[^{}]*\}", piece):
            if hole is not None:
                table.problem(key, f"{shown(text)} has more than one hole in one text")
            hole = piece[1:-1]
        elif piece in ("{", "}"):
            table.problem(key, f"{shown(text)} has a single brace; write `{{{{` or `}}}}` for a plain one")
        elif hole is None:
            before += plain
        else:
            after += plain
    return Template(before, hole, after)


def _read_holes(table: Table) -> dict[str, Hole]:
    holes: dict[str, Hole] = {}
    for name in table.values:
        inner = table.table(name)
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name) or name in _RESERVED_HOLES:
            rule = f"small letters, digits and `_`, and none of {listed(sorted(_RESERVED_HOLES))}"
            table.problem(name, f"is no name for a hole: {rule}")
        if inner.has("one-of") == inner.has("path-under"):
            table.problem(name, "must have exactly one of `one-of` and `path-under`")
        if inner.has("one-of"):
            holes[name] = OneOf(inner.texts("one-of", required=True))
        else:
            folders = tuple(folder.removesuffix("/") for folder in inner.texts("path-under", required=inner.has("path-under")))
            for folder in folders:
                if folder != "." and (why := not_plain(folder)):
                    inner.problem("path-under", f"the folder {shown(folder)} {why}")
            hands_bytes = inner.word("hand-over", ("path", "bytes"), "path") == "bytes"
            holes[name] = PathUnder(folders, inner.text("suffix", ""), hands_bytes)
        inner.close()
    _check_mode_hole(table, holes)
    if sum(isinstance(hole, PathUnder) and hole.hands_bytes for hole in holes.values()) > HANDED_MAX:
        table.problems.append(Problem(table.at, f'more than {HANDED_MAX} holes have `hand-over = "bytes"`'))
    return holes


def _check_mode_hole(table: Table, holes: Mapping[str, Hole]) -> None:
    mode = holes.get("mode")
    if mode is None:
        table.problem("mode", f'is missing: say which modes are allowed, such as `one-of = ["{MODES[0]}"]`')
    elif not isinstance(mode, OneOf):
        table.problem("mode", f"must be `one-of`, with some of {listed(MODES)}")
    else:
        inner = Table({}, table.problems, table.path("mode"))
        for word in mode.words:
            if word not in MODES:
                inner.problem("one-of", f"{shown(word)} is no mode of adapter-command/v1, only {listed(MODES)} are")


def _read_argv(command: Table, holes: Mapping[str, Hole]) -> tuple[Template, ...]:
    texts = command.texts("argv", required=True)
    argv = tuple(_read_template(command, "argv", text) for text in texts)
    for template in argv:
        _check_hole_is_described(command, "argv", template, holes)
        if why := unfit(template.before + template.after):
            command.problem("argv", f"{shown(str(template))} {why}")
    if argv and argv[0].hole is not None:
        command.problem("argv", "must begin with a literal: the name that the program sees as its own")
    used = {template.hole for template in argv} | {"mode"}  # the mode is in every envelope
    for name in holes:
        if argv and name not in used:
            command.problem("argv", f"has no `{{{name}}}`, so the hole `{name}` could never be filled")
    return argv


def _check_hole_is_described(table: Table, key: str, template: Template, holes: Mapping[str, Hole]) -> None:
    if template.hole is not None and template.hole not in holes:
        hint = closest(template.hole, holes)
        table.problem(key, f"{shown(str(template))} has a hole that `[hole.{template.hole}]` does not describe{hint}")


def _read_runner(command: Table, argv: Sequence[Template]) -> str | None:
    """The argument that must be a regular file: named, or else the first that is no option, where it is a relative path."""
    literals = [template.before for template in argv[1:] if template.hole is None]
    if command.has("runner"):
        runner = command.text("runner", "")
        if runner and runner not in literals:
            command.problem("runner", f"{shown(runner)} is no literal element of `argv`{closest(runner, literals)}")
    else:
        first = next((text for text in literals if not text.startswith("-")), "")
        runner = first if "/" in first and not first.startswith("/") else ""
    if runner and (why := not_plain(runner)):
        command.problem("runner", f"the path {shown(runner)} {why}")
    return runner or None


def _read_folders(command: Table) -> tuple[str, tuple[str, ...]]:
    folders = []
    for key, texts in (("cwd", (command.text("cwd", _ROOT),)), ("working-dirs", command.texts("working-dirs"))):
        for text in texts:
            folder = text.rstrip("/")
            folder = "." if folder == _ROOT else folder.removeprefix(f"{_ROOT}/")
            if folder != "." and (why := not_plain(folder)):
                how = f"write `{_ROOT}` for the instance's root, `{_ROOT}/sub` or `sub` for a folder below it"
                command.problem(key, f"the folder {shown(text)} {why}; {how}")
            folders.append(folder)
    return folders[0], tuple(folders[1:])


def _read_env(command: Table, holes: Mapping[str, Hole], argv: Sequence[Template], adapter: str) -> dict[str, Template]:
    texts = command.mapping("env")
    table = command.table("env") if texts else Table({}, command.problems)
    filled = {template.hole for template in argv} | {"mode"}
    env = {}
    for name, text in texts.items():
        template = _read_template(table, name, text)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            table.problem(name, "is no name for an environment variable")
        if name in _SET_FOR_YOU:
            table.problem(name, "is set for every run, and not by a policy")
        if name == "AIWG_A2A_ADAPTER" and text != adapter:
            table.problem(name, f"is set to the adapter's name: leave it out, or write {shown(adapter)}")
        if name == "AIWG_A2A_ADAPTER_MODE" and text != "{mode}":
            table.problem(name, "is set to the mode: leave it out, or write `{mode}`")
        if template.hole in holes and template.hole not in filled:
            table.problem(name, f"the hole `{template.hole}` is not in `argv`, so nothing fills it")
        if why := unfit(template.before + template.after, overhead_bytes=len(name) + 1):
            table.problem(name, why)
        _check_hole_is_described(table, name, template, holes)
        env[name] = template
    return env


def _read_limits(table: Table) -> tuple[Limits, int]:
    standard = Limits()
    timeout = table.table("timeout")
    most_s = _whole_seconds(timeout, "max", TIMEOUT_MAX_S)
    default_s = _whole_seconds(timeout, "default", min(TIMEOUT_DEFAULT_S, most_s))
    if default_s > most_s:
        timeout.problem("default", f"{default_s} s is more than `max`, {most_s} s")
    timeout.close()
    limits = Limits(
        timeout_s=default_s,
        output_bytes=table.size("output", standard.output_bytes),
        file_bytes=table.size("file-size", 1) if table.has("file-size") else standard.file_bytes,
        open_files=table.number("open-files", standard.open_files, least=16, most=1_048_576),
        memory_bytes=table.size("memory", 1, least_bytes=1024**2) if table.has("memory") else standard.memory_bytes,
        processes=table.number("processes", 1, most=4_194_304) if table.has("processes") else standard.processes,
        cpu_percent=table.number("cpu-percent", 1, most=100_000) if table.has("cpu-percent") else standard.cpu_percent,
    )
    table.close()
    return limits, most_s


def _whole_seconds(table: Table, key: str, default_s: int) -> int:
    seconds = table.duration(key, default_s, least_s=1, most_s=TIMEOUT_MAX_S)
    if seconds != int(seconds):
        table.problem(key, "must be whole seconds, as in adapter-command/v1")
    return int(seconds)


def _read_prompts(table: Table) -> PromptRules:
    standard = PromptRules()
    for key in table.values:
        if "responder" in key:
            table.has(key)
            why = "cannot be kept: text-line prompts go to any responder (adapter-command/v1), so leave this key out"
            table.problem(key, why)
    rules = PromptRules(
        detectors=table.texts("detectors"),
        timeout_s=_whole_seconds(table, "timeout", 1) if table.has("timeout") else standard.timeout_s,
        on_expiry=cast("OnExpiry", table.word("on-expiry", ("wait", "fail"), standard.on_expiry)),
        max_prompts=table.number("max", standard.max_prompts, most=10_000),
        secrets=cast("Secrets", table.word("secrets", ("wait", "fail", "relay"), standard.secrets)),
        max_invalid=table.number("max-invalid", standard.max_invalid, most=10_000),
        schema=_read_schema(table) if table.has("schema") else None,
    )
    table.close()
    return rules


def _read_schema(table: Table) -> Mapping[str, Any] | None:
    """Within bounds; whether it is a schema at all is asked where jsonschema is at hand: the spawner reads this too."""
    schema = table.table("schema").values
    # As it will stand in a prompt's envelope, which is bounded too.
    whole = {"properties": {"text": {"allOf": [{key: value for key, value in schema.items() if key != "$id"}]}}}
    for problem in (*refuse_schema(schema), *refuse_schema(whole)):
        table.problem("schema", f"cannot be used: {problem}")
        return None
    return schema


def _read_isolation(table: Table) -> IsolationRules:
    level = cast("Isolation", table.word("level", LEVELS, LEVELS[0])) if table.has("level") else None
    network = table.flag("network")
    writable = table.texts("writable") if table.has("writable") else None
    for folder in writable or ():
        if folder != "." and (why := not_plain(folder)):
            table.problem("writable", f"the folder {shown(folder)} {why}")
    tmp_bytes = table.size("tmp", TMP_BYTES, least_bytes=4096)
    table.close()
    return IsolationRules(level, network, writable, tmp_bytes)


def _read_pins(table: Table, runner: str | None, holes: Mapping[str, Hole]) -> dict[str, tuple[str, ...]]:
    """Digests for the runner, and for holes that take a file."""
    files = [name for name, hole in holes.items() if isinstance(hole, PathUnder)]
    pins = {name: table.texts(name, required=True) for name in ("runner", *files) if table.has(name)}
    for name, digests in pins.items():
        for digest in digests:
            if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
                table.problem(name, f"{shown(digest)} is no digest: `sha256:` and 64 digits, as `sha256sum` prints them")
    if "runner" in pins and runner is None:
        table.problem("runner", "pins nothing: the command has no runner, which `[command] runner` would name")
    table.close()
    return pins


def _read_example(table: Table, holes: Mapping[str, Hole]) -> Example:
    key = "deny" if table.has("deny") else "allow"
    if table.has("allow") and key == "deny":
        table.problem("allow", "stands beside `deny`: an example is one of them")
    because = table.text("because") if key == "deny" else None
    inner = table.table(key, required=True)
    values = {name: inner.text(name) for name in holes}
    working_dir = inner.text("working_dir", "") if inner.has("working_dir") else None
    # Beyond adapter-command's 900 s no request is well-formed, so no example needs to prove it.
    timeout_s = inner.number("timeout_seconds", 1, most=TIMEOUT_MAX_S) if inner.has("timeout_seconds") else None
    inner.close()
    table.close()
    return Example(values, because, working_dir, timeout_s)
