"""What happens when a command is mistyped, or only its group is named?

A name that does not exist is answered with the nearest ones; a group that has a usual verb runs it when none is given
(`sandboxd prompts` lists). The commands of the top group are imported when they are used: an answer need not wait for the
engine's imports, nor a Tab for all of them.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click

from sandboxd import garbage


class Group(click.Group):
    """A group of commands; `default` is the verb that is meant when none is named.

    `rooms`: what each command does that lives in the module of this package that has its name.
    """

    def __init__(self, *args: Any, default: str = "", rooms: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.default = default
        self.rooms = dict(rooms or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they are told."""
        return [*self.rooms, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported by now."""
        if cmd_name in self.rooms and cmd_name not in self.commands:
            module = cmd_name.replace("-", "_")
            with garbage.none_in_code():
                command = getattr(importlib.import_module(f"sandboxd.cli.{module}"), module)
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        if not self.rooms:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self.rooms.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the usual verb in front of options that stand alone, or of nothing."""
        if self.default and not set(args[:1]) & set(self.get_help_option_names(ctx)) and (not args or args[0].startswith("-")):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones are near."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names, n=3, cutoff=0.5)
            told = f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
            raise click.UsageError(f"no command `{args[0]}`{told}", ctx)
        return super().resolve_command(ctx, args)
