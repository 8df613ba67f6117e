"""Real programs that ask: as they come with Debian, PyPI and Node, or with what `scripts/setup` brings."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import attrs

NODE = os.environ.get("SANDBOXD_NODE") or "node"
# Only what a bug of the program would change is left open: its version, a path, a colour.
REPO = """
git init -q . && git config user.email a@example.org && git config user.name Ada
printf '1\\n2\\n3\\n' > f && git add f && git commit -qm one && printf '1\\ntwo\\n3\\n' > f
"""


@attrs.frozen
class Program:
    """A shell script, the questions it asks with what is answered, and what it then prints."""

    name: str
    script: str
    asks: tuple[tuple[str, str, str], ...]  # what the question holds, its kind, the answer
    prints: str
    needs: str = ""  # a command, or a module of this Python: `python:questionary`

    @property
    def lacks(self) -> str:
        """What of it this machine does not have."""
        module = self.needs.removeprefix("python:")
        is_here = importlib.util.find_spec(module) if module != self.needs else shutil.which(self.needs)
        return self.needs if self.needs and not is_here else ""


PROGRAMS = [
    Program("bash-read", "read -r -p 'Deploy? [y/N] ' x; echo got $x", (("Deploy?", "yes_no", "y"),), "got y"),
    Program("bash-select", "select x in dev prod; do echo got $x; break; done", (("#?", "free_text", "2"),), "got prod"),
    Program("bash-ps2", "bash --norc --noprofile -i", (("bash-", "shell", "echo $((6*7)); exit"),), "42"),
    Program(
        "dash-read", "dash -c 'printf \"Name? \"; read x; echo got $x'", (("Name?", "free_text", "Ada"),), "got Ada", "dash"
    ),
    Program("rm", "touch a; rm -i a; ls", (("rm: remove", "yes_no", "y"),), ""),
    Program("cp", "touch a b; cp -i a b; echo rc $?", (("overwrite", "yes_no", "y"),), "rc 0"),
    Program("mv", "touch a b; mv -i a b; ls", (("overwrite", "yes_no", "y"),), "b"),
    Program("ln", "touch a b; ln -si a b; readlink b", (("replace", "yes_no", "y"),), "a"),
    Program("find-ok", "touch a; find a -ok echo found {} ';'", (("echo", "free_text", "y"),), "found a"),
    Program("xargs-p", "echo one | xargs -p echo got", (("?...", "free_text", "y"),), "got one"),
    Program("python-input", 'python3 -c \'print("got", input("Age: "))\'', (("Age:", "free_text", "36"),), "got 36"),
    Program(
        "python-getpass", "python3 -c 'import getpass; print(len(getpass.getpass()))'", (("Password:", "secret", "abcde"),), "5"
    ),
    Program("python-repl", "python3 -q -i", ((">>>", "repl", "print(6 * 7); exit()"),), "42"),
    Program(
        "python-pdb",
        "printf 'x = 42\\nprint(x)\\n' > m.py; python3 -m pdb m.py",
        (("(Pdb)", "repl", "c"), ("(Pdb)", "repl", "q")),
        "42",
    ),
    Program(
        "python-cmd",
        "python3 -c 'import cmd; cmd.Cmd().cmdloop()'",
        (("(Cmd)", "repl", "help"), ("(Cmd)", "repl", "nothing")),
        "Unknown",
    ),
    Program(
        "click",
        f"{sys.executable} -c 'import click; print(click.confirm(\"Drop it?\"))'",
        (("Drop it? [y/N]:", "yes_no", "y"),),
        "True",
    ),
    Program(
        "rich",
        f'{sys.executable} -c \'from rich.prompt import Prompt; print(Prompt.ask("Env", choices=["dev", "prod"]))\'',
        (("Env [dev/prod]:", "choice", "prod"),),
        "prod",
    ),
    Program(
        "perl", 'perl -e \'$|=1; print "Name: "; print "got " . <STDIN>\'', (("Name:", "free_text", "Ada"),), "got Ada", "perl"
    ),
    Program("tclsh", "tclsh", (("%", "shell", "puts [expr 6*7]; exit"),), "42", "tclsh"),
    Program("ed", "ed -p '* '", (("*", "repl", "q"),), "", "ed"),
    Program(
        "git-add-p", f"{REPO} git add -p; git diff --cached --name-only", (("Stage this hunk", "choice", "y"),), "f", "git"
    ),
    Program("git-clean-i", f"{REPO} touch x.o; git clean -i", (("What now>", "repl", "1"),), "Removing x.o", "git"),
    Program(
        "git-credential",
        "printf 'protocol=https\\nhost=example.org\\n\\n' | GIT_CONFIG_NOSYSTEM=1 git credential fill",
        (("Username for", "free_text", "ada"), ("Password for", "secret", "hunter2hunter2")),
        "username=ada",
        "git",
    ),
    Program(
        "ssh-keygen",
        "ssh-keygen -q -t ed25519; ls",
        (("Enter file", "free_text", "./key"), ("Enter passphrase", "secret", ""), ("Enter same passphrase", "secret", "")),
        "key.pub",
        "ssh-keygen",
    ),
    Program(
        "openssl",
        "openssl genrsa -aes128 -out k.pem 2048 2>&1; ls",
        (("pass phrase", "secret", "abcdefgh"), ("Verifying", "secret", "abcdefgh")),
        "k.pem",
        "openssl",
    ),
    Program(
        "openssl-req",
        "openssl req -new -newkey rsa:2048 -nodes -keyout k.pem",
        (("Country Name", "free_text", "DE"),),
        "",
        "openssl",
    ),
    Program(
        "keytool",
        "keytool -genkeypair -alias a -keyalg EC -keystore ks -dname CN=Ada; ls",
        (("keystore password:", "secret", "hunter22"), ("Re-enter", "secret", "hunter22")),
        "ks",
        "keytool",
    ),
    Program(
        "questionary",
        f"""{sys.executable} -c 'import questionary as q
print("got", q.text("Name?").ask(), len(q.password("Token:").ask()), q.confirm("Sure?").ask(), q.text("Why?").ask())'""",
        (
            ("? Name?", "free_text", "Ada"),
            ("? Token:", "secret", "abc"),
            ("? Sure?", "yes_no", "y"),  # one key: an Enter would have answered the next question
            ("? Why?", "free_text", "so"),
        ),
        "got Ada 3 True so",
        "python:questionary",
    ),
    Program(
        "prompt_toolkit",
        f"""{sys.executable} -c 'from prompt_toolkit import prompt; print("got", prompt("> ", bottom_toolbar=" F1 help "))'""",
        ((">", "repl", "x"),),
        "got x",
        "python:prompt_toolkit",
    ),
    Program(
        "flask-shell",
        f"printf 'import flask\\napp = flask.Flask(\"a\")\\n' > app.py; {sys.executable} -m flask shell",
        ((">>>", "repl", "print(6 * 7); exit()"),),
        "42",
        "python:flask",
    ),
    Program(
        "zip",
        "echo a > a; zip -q -e a.zip a; ls",
        (("Enter password:", "secret", "abc"), ("Verify password:", "secret", "abc")),
        "a.zip",
        "zip",
    ),
    Program(
        "unzip",
        f"echo a > a; {sys.executable} -m zipfile -c a.zip a; unzip a.zip; ls",
        (("replace a?", "choice", "r"), ("new name:", "free_text", "b")),
        "b",
        "unzip",
    ),
    Program("sqlite3", "sqlite3 a.db", (("sqlite>", "repl", "select 6 * 7;"), ("sqlite>", "repl", ".quit")), "42", "sqlite3"),
    Program("gdb", "gdb -q -nx", (("(gdb)", "repl", "print 6 * 7"), ("(gdb)", "repl", "quit")), "= 42", "gdb"),
    Program("node-repl", f"{NODE}", ((">", "repl", "6 * 7"), (">", "repl", ".exit")), "42", NODE),
    Program(
        "node-readline",
        f'{NODE} -e \'const r = require("readline").createInterface({{input: process.stdin, output: process.stdout}});'
        ' r.question("Name? ", (x) => {{ console.log("got", x); r.close(); }})\'',
        (("Name?", "free_text", "Ada"),),
        "got Ada",
        NODE,
    ),
    Program(
        "npm-init", "mkdir demo; cd demo; npm init --no-update-notifier", (("package name:", "free_text", "demo"),), "", "npm"
    ),
    Program(
        "script",
        "script -qc 'bash -c \"read -p Inner? x; echo got \\$x\"' /dev/null",
        (("Inner?", "free_text", "y"),),
        "got y",
        "script",
    ),
]
