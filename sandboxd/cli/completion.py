"""How does a shell learn the commands?"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash   eval "$(sandboxd completion bash)"            in ~/.bashrc
    zsh    eval "$(sandboxd completion zsh)"             in ~/.zshrc
    fish   sandboxd completion fish > ~/.config/fish/completions/sandboxd.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # the three that click brings along
    root = context.find_root().command
    # `source_vars` and the template, not `source()`: that one starts a bash to ask for its version.
    script = kind(root, {}, "sandboxd", "_SANDBOXD_COMPLETE")
    click.echo(script.source_template % script.source_vars())
