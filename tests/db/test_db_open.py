"""Is the file ours alone, in the shape we know, and whole?"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sandboxd.db.connection import DatabaseUnavailable
from sandboxd.db.database import begin_opening, open_database
from sandboxd.db.schema import Schema
from tests.support.programs import begun

FIRST = "CREATE TABLE notes (text TEXT) STRICT; INSERT INTO notes VALUES ('first');"
SECOND = "ALTER TABLE notes ADD COLUMN stars INTEGER; UPDATE notes SET stars = 5;"
SCHEMA = Schema(4711, (FIRST,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "facts.sqlite"


async def notes(path: Path, schema: Schema = SCHEMA) -> list[tuple[object, ...]]:
    database = await open_database(path, schema)
    try:
        return await database.read(lambda connection: connection.execute("SELECT * FROM notes").fetchall())
    finally:
        await database.close()


async def refusal(path: Path, schema: Schema = SCHEMA) -> str:
    with pytest.raises(DatabaseUnavailable) as refused:
        await open_database(path, schema)
    return str(refused.value)


async def test_folder_and_files_are_for_the_owner_alone(path):
    old = os.umask(0)
    try:
        database = await open_database(path, SCHEMA)
    finally:
        os.umask(old)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()}
    await database.close()

    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"
    assert modes == dict.fromkeys(
        ("facts.sqlite", "facts.sqlite-shm", "facts.sqlite-wal", "facts.sqlite.lock"),
        "0o600",
    )


async def test_a_copy_that_others_could_read_is_closed_to_them(path):
    await notes(path)
    path.chmod(0o644)
    await notes(path)

    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_folder_that_others_can_write_is_refused(path):
    path.parent.mkdir()
    path.parent.chmod(0o777)

    assert "others can write its folder" in await refusal(path)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    assert str(tmp_path / "file") in await refusal(tmp_path / "file" / "facts.sqlite")


async def test_a_second_open_is_refused_and_names_the_owner(path):
    database = await open_database(path, SCHEMA)
    said = await refusal(path)
    await database.close()

    assert f"another sandboxd (process {os.getpid()}) has it open" in said
    assert await notes(path) == [("first",)]


def test_the_lock_goes_with_its_process_however_that_died(path):
    program = (
        "import sys, trio, pathlib, sandboxd.db.database as d, sandboxd.db.schema as s\n"
        "async def main():\n"
        "    await d.open_database(pathlib.Path(sys.argv[1]), s.Schema(4711, (sys.argv[2],)))\n"
        "    print('open', flush=True)\n"
        "    await trio.sleep_forever()\n"
        "trio.run(main)"
    )
    command = [sys.executable, "-c", program, str(path), FIRST]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with begun(command, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        said = trio.run(refusal, path)
        owner.kill()

    assert f"(process {owner.pid})" in said
    assert trio.run(notes, path) == [("first",)]


async def test_migrations_run_once_each_and_in_order(path):
    assert await notes(path) == [("first",)]
    assert await notes(path, Schema(4711, (FIRST, SECOND))) == [("first", 5)]
    assert await notes(path, Schema(4711, (FIRST, SECOND))) == [("first", 5)]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(path):
    await notes(path)
    broken = Schema(4711, (FIRST, "ALTER TABLE notes ADD COLUMN stars INTEGER; INSERT INTO nowhere VALUES (1);"))

    assert "its schema cannot be brought to version 2: no such table: nowhere" in await refusal(path, broken)
    assert await notes(path) == [("first",)]


async def test_a_file_of_a_newer_version_is_refused_and_not_touched(path):
    await notes(path, Schema(4711, (FIRST, SECOND)))
    before = path.read_bytes()

    assert "its schema has version 2, and this version of sandboxd knows 1 at most" in await refusal(path)
    assert path.read_bytes() == before


async def test_the_database_of_another_program_is_refused(path):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()

    assert "a database of another program" in await refusal(path)


async def test_a_file_that_is_no_database_is_refused(path):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"no database at all, by any measure " * 100)

    assert "file is not a database" in await refusal(path)


async def test_a_damaged_file_is_refused(path):
    database = await open_database(path, SCHEMA)
    await database.write(lambda c: c.executemany("INSERT INTO notes VALUES (?)", [("x" * 500,)] * 500).rowcount)
    await database.close()
    whole = bytearray(path.read_bytes())
    whole[8192:12288] = os.urandom(4096)
    path.write_bytes(whole)

    assert "damaged" in await refusal(path)


async def test_a_file_too_large_to_look_through_in_time_is_taken_as_it_is(path, monkeypatch):
    database = await open_database(path, SCHEMA)
    await database.write(lambda c: c.executemany("INSERT INTO notes VALUES (?)", [("x" * 50,)] * 200_000).rowcount)
    await database.close()
    monkeypatch.setattr("sandboxd.db.database.CHECK_LIMIT_S", -1.0)

    database = await open_database(path, SCHEMA)
    await database.close()

    assert database.found.is_whole is None


async def test_a_file_is_opened_while_this_thread_does_something_else(path):
    async with begin_opening(path, SCHEMA) as opening:
        while not path.with_name("facts.sqlite-shm").exists():
            os.sched_yield()  # and never back to the loop, as a thread that loads code

        database = await opening.database()
        found = await database.read(lambda connection: connection.execute("SELECT * FROM notes").fetchall())
        await database.close()

    assert found == [("first",)]


async def test_a_file_that_was_opened_for_nobody_is_closed_again(path):
    with pytest.raises(ZeroDivisionError):
        async with begin_opening(path, SCHEMA):
            raise ZeroDivisionError

    assert not path.with_name("facts.sqlite-wal").exists()
    assert await notes(path) == [("first",)]


async def test_who_took_the_file_closes_it(path):
    async with begin_opening(path, SCHEMA) as opening:
        database = await opening.database()

    assert await database.read(lambda connection: connection.execute("SELECT * FROM notes").fetchall()) == [("first",)]
    await database.close()


async def test_an_open_that_is_cut_short_leaves_nothing_open(path):
    with trio.CancelScope() as scope:
        scope.cancel()
        await open_database(path, SCHEMA)

    assert scope.cancelled_caught
    assert await notes(path) == [("first",)]


async def test_what_ended_the_wait_is_told_and_not_that_the_file_would_have_been_refused(path):
    await notes(path, Schema(1, (FIRST,)))

    with pytest.raises(ZeroDivisionError):
        async with begin_opening(path, SCHEMA):
            raise ZeroDivisionError


async def test_a_refused_file_is_refused_to_whoever_asks_for_it(path):
    await notes(path, Schema(1, (FIRST,)))

    async with begin_opening(path, SCHEMA) as opening:
        with pytest.raises(DatabaseUnavailable):
            await opening.database()


async def test_a_refused_open_lets_go_of_the_lock(path):
    await notes(path, Schema(4711, (FIRST, SECOND)))
    await refusal(path)

    assert await notes(path, Schema(4711, (FIRST, SECOND))) == [("first", 5)]
