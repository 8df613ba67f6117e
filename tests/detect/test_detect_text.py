"""Which lines look like questions, where the kernel does not say who reads?"""

from __future__ import annotations

import pytest

from tests.detect.bench import UNKNOWN, Bench


@pytest.mark.parametrize(
    ("line", "is_asked"),
    [
        ("Enter a value: ", True),
        ("Which branch? ", True),
        ("? Project name ", True),
        ("(gdb) ", True),
        ("sqlite> ", True),
        ("mot de passe : ", True),
        ("パスワード：", True),
        ("Country Name (2 letter code) [AU]:", True),
        ("First sector (34-99, default = 34) or {+-}size{KMGTP}: ", True),
        ("Enter amount in EUR ", True),
        ("What is your quest? 😃 ", True),
        ("[?] Target = ", True),
        ("  DB<1> ", True),
        ("Verifying - Enter pass phrase:", True),
        ("Name\t: ", True),
        ("add 'a'? ", True),
        ("echo a?...", True),
        ("[1/3] Which region? ", True),
        (" Selection [1] ▸ ", True),
        ("Folytatja? (i/n) ", True),
        ("Appuyez sur Entrée ", True),
        ("続行するには Enter キーを押してください", True),
        ('Overwrite Gemfile? (enter "h" for help) [y,n,h] ', True),
        ("Continue with commit? [y(es)/n(no)/e(dit)] ", True),
        ("Version tag prefix? [] ", True),
        ("http: password for joe@example.org::", True),
        ("buku (? for help) ", True),
        ("[2] pry(main)> ", True),
        ("• Signing secret [input is masked]", True),
        ("    Building [==>      ] 10/100: serde, is-it? ", False),
        ("done?\r\nReceiving objects:  45% (9/20)", False),
        ("cp: overwrite 'a'? cp: overwrite 'b'? ", False),
        ("Загрузка: ", False),
        ("Téléchargement : ", False),
        ("Starting in 3... (press any key to cancel) ", False),
        ("Users         : 3\r\nUptime        : ", False),
        ("[12:30:01] are you there? ", False),
        ("Total: ", False),
        ("Step 3/7 : ", False),
        ("Elapsed time: ", False),
        ("db-1  | ready? ", False),
        ("test auth::login (y/n) ", False),
        ("> ", False),
        ("Resuming: ", False),
        ("Building wheels (3/9) ", False),
        ("copied 31 MB/s ", False),
        ("user@host:~$ ", False),
        ("2026-11-29 12:00:01 waiting for: ", False),
        ('x = input("Name: ")', False),
        ("ordinary words ", False),
    ],
)
def test_without_the_kernel_a_line_must_look_like_a_question(line: str, is_asked: bool) -> None:
    assert bool(Bench(UNKNOWN).out(f"text\r\n{line}").wait(2).said) is is_asked


@pytest.mark.parametrize(
    "above", ['Type ".help" for more information.', "OCaml version 4.13.1\r\n", "Welcome to the shell", "What is your name?"]
)
def test_a_bare_sign_is_a_question_where_it_is_introduced(above: str) -> None:
    assert Bench(UNKNOWN).out(f"{above}\r\n> ").wait(2).said == ["Prompt >"]


@pytest.mark.parametrize("above", ["Name of the entity [Product]:", "1) red\r\n2) green", " [0] mysql\r\n [1] sqlite"])
def test_a_bare_sign_below_a_field_s_name_or_a_list_is_a_question(above: str) -> None:
    assert Bench(UNKNOWN).out(f"text\r\n{above}\r\n > ").wait(2).said == ["Prompt  >"]
    assert Bench(UNKNOWN).out(f"text\r\n{above}\r\n$ ").wait(2).said == []


def test_a_drawn_cursor_is_looked_for_above_a_line_that_has_ended() -> None:
    screen = "\x1b[?25l◆  Project name\r\n│  \x1b[7mm\x1b[27my-app\r\n└\r\n"

    assert Bench(UNKNOWN).out(screen).wait(2).said == ["Prompt ◆  Project name"]


def test_a_form_s_next_field_is_asked_though_the_answered_one_above_looks_like_a_table() -> None:
    bench = Bench(UNKNOWN).out("Name    : ").wait(2).typed().out("Ada\r\nCity    : ").wait(2)

    assert bench.said == ["Prompt Name    :", "Prompt City    :"]


def test_a_prompt_that_counts_is_known_again() -> None:
    bench = Bench(UNKNOWN).out("box [1]$ ").typed().out("ls\r\na b\r\nbox [2]$ ")

    assert bench.wait(2).said == ["Prompt box [2]$"]


def test_a_shell_s_sign_needs_a_line_editor_where_the_kernel_does_not_say() -> None:
    assert Bench(UNKNOWN).out("\x1b[?2004huser@host:~$ ").wait(2).said == ["Prompt user@host:~$"]


def test_a_sign_that_is_the_first_thing_said_is_a_question() -> None:
    assert Bench(UNKNOWN).out("$ ").wait(2).said == ["Prompt $"]
