"""Which options do all commands share?"""

from __future__ import annotations

import re
from typing import Final

import click

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON; streams print one object a line.")


class Span(click.ParamType[float]):
    """A length of time: `30`, `30s`, `5m`, `2h`; in seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds that the text means."""
        if isinstance(value, int | float):
            return float(value)
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)?", str(value))
        if not found:
            self.fail(f"`{value}` is no length of time, such as 30s or 5m", param, ctx)
        return float(found[1]) * {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600}[found[2]]


class HoleValue(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`: what stands in one hole of a policy's command."""

    name = "NAME=VALUE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first `=`."""
        name, equals, text = str(value).partition("=")
        if not equals or not name:
            self.fail(f"`{value}` is not of the form NAME=VALUE", param, ctx)
        return name, text
