"""What can be typed after `sandboxd`?

The commands hang together here and nowhere else. Errors of every command end here: `error: cannot …` on stderr, a hint on a
line of its own, and the code of `exits`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from sandboxd import __version__
from sandboxd.cli.console import Console, paint
from sandboxd.cli.exits import Exit, Failure, as_json
from sandboxd.cli.groups import Group
from sandboxd.cli.text import shown

COMMANDS: Final = {
    "serve": "Run the daemon.",
    "run": "Make a plan or assess dry run in this terminal.",
    "tasks": "List tasks, show one, read its output, cancel it.",
    "prompts": "Show the questions that wait, and what became of them: of a host, or of a cockpit.",
    "answer": "Answer a question, at a host or at a cockpit.",
    "attach": "Look at a task's terminal, live; Ctrl-C leaves.",
    "watch": "Watch what happens: at a host, with a task, or at a cockpit.",
    "check": "Check config, policies, packs, or one request.",
    "doctor": "Say what this host can promise about tasks, and what it cannot.",
    "conformance": "Drive any executor through the specs' scenarios.",
    "explain": "Say why a transcript's lines are questions, or not.",
    "record": "Record a program's terminal for a bug report.",
    "card": "Show and verify an agent card, rotate the keys that sign it.",
    "tokens": "Make, list and revoke the tokens of clients.",
    "push": "List push notifications that were given up.",
    "courier": "Send push notifications for a daemon that may not connect itself.",
    "backup": "Copy the store, while the daemon runs.",
    "audit": "Read the record of who did what: a host's, or a cockpit's.",
    "install-units": "Write the systemd units that the config needs, or check them.",
    "cockpit": "Gather the questions of several hosts.",
    "missions": "Start commands on the hosts of a cockpit, and follow them.",
    "policies": "Try the rules of a cockpit.",
    "config": "Write a first config, or show what one comes to.",
    "completion": "Print the completion script of a shell.",
}


EXIT_CODES: Final = """\b
Exit codes:
  0 done · 1 other error · 2 wrong usage · 3 not found · 4 not allowed
  5 conflict: answered already, unknown, ended · 6 answer does not fit
  7 question expired · 8 still pending · 9 daemon unreachable · 130 interrupted

\b
Of `serve`, `cockpit`: 0 told to stop · 1 could not start or go on · 78 config, policy or pack is wrong
Of `doctor`: 0 every level that is asked for is kept · 1 one is not
Of `conformance`: 0 passed · 1 something failed · 2 could not run
Of `run`: the program's own code · 128+n a signal ended it · 123 nobody answered
  124 its time was over · 125 refused, wrong usage or could not start
"""


@click.group(
    cls=Group,
    rooms=COMMANDS,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="sandboxd")
def cli() -> None:
    """Run one allowed command for an orchestrator; carry its questions to a person and the answers back.

    \b
    sandboxd run --mode plan --request PATH   a dry run in this terminal, without a daemon
    sandboxd serve                            the daemon
    sandboxd prompts                          what waits for an answer
    sandboxd answer 3f2c --choice y           answer it
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; the exit code of the process."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        code = cli.main(given, prog_name="sandboxd", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.DONE
    except Failure as failure:
        return _report(failure, wants_json=_wants_json(given))
    except click.exceptions.NoArgsIsHelpError as error:  # a group alone: its message is the help
        print(error.format_message(), file=sys.stderr)
        return Exit.USAGE
    except click.UsageError as error:
        return _report(_usage(error), wants_json=_wants_json(given))
    except click.ClickException as error:
        return _report(Failure(error.format_message()), wants_json=_wants_json(given))
    except (click.Abort, KeyboardInterrupt):
        Console.of_process().talk()
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: 1, as click ends on it. Python flushes stdout once more at exit: let that not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.OTHER


def _report(failure: Failure, *, wants_json: bool) -> int:
    console = Console.of_process()
    if wants_json:
        print(json.dumps(as_json(failure), separators=(",", ":")), file=console.err)
        return failure.exit_code
    print(paint("error:", "red" if console.colour_err else ""), shown(failure.message), file=console.err)
    for problem in failure.problems:
        console.talk(f"  {problem}")
    if failure.hint:
        print(paint("hint:", "cyan" if console.colour_err else ""), shown(failure.hint), file=console.err)
    return failure.exit_code


def _usage(error: click.UsageError) -> Failure:
    context = error.ctx
    path = context.command_path if context else "sandboxd"
    is_run = path.split()[1:2] == ["run"]
    message = " ".join(error.format_message().split()).rstrip(".")  # choices come on lines of their own
    what = f"cannot run `{path}`: {message[:1].lower()}{message[1:]}"
    hint = f"see `{path} --help`"
    if is_run and isinstance(error, click.NoSuchOption) and error.option_name in ("--yes", "--assume-yes"):
        hint = "questions are answered one by one: --answer 'PATTERN=TEXT'"
    return Failure(what, Exit.RUN_REFUSED if is_run else Exit.USAGE, hint=hint)


def _wants_json(given: Sequence[str]) -> bool:
    """Whether errors are to be JSON as well. To `answer`, `--json` is the payload."""
    return "--json" in given and given[:1] != ["answer"]
