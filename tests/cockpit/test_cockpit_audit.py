"""Does the chain show every change, and do the command line's verbs read it?"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import trio

from sandboxd.a2a.links import Links
from sandboxd.approvals.events import CancelAsked, Fenced
from sandboxd.chain import Broken, Kept, link, read, verify
from sandboxd.cli.main import main
from sandboxd.cockpit.audit import SCHEMA
from sandboxd.cockpit.ledger import STORE_NAME, open_ledger
from sandboxd.cockpit.records import open_records
from sandboxd.db.connection import DatabaseUnavailable
from tests.cockpit.story import ALICE, BOB, PLACE, Clock, ask, prompt_id, vote


@pytest.fixture
def cockpit(tmp_path: Path) -> Path:
    """A state folder with a short history."""
    folder = tmp_path / "cockpit"
    trio.run(live, folder)
    return folder


async def live(folder: Path) -> None:
    clock = Clock()
    async with open_records(folder / STORE_NAME, clock) as records:
        asked = await ask(records, narrowed=None)
        clock.forward(seconds=3)
        await vote(records, asked, text="\x1b[31my\n")
        await vote(records, asked, BOB)
        await records.hear(asked.record, CancelAsked(BOB, "web", "not today"))
        await records.hear(asked.record, Fenced(holds=False, why="no route"))
        said = {"kind": "observed", "digest": "d", "text": "And now?", "why": "it has no envelope"}
        await records.sight(PLACE, **said, links=Links(sandbox="lab"), most=20)


def entries(folder: Path) -> list[Kept]:
    with open_ledger(folder) as ledger:
        return list(ledger.after(0))


def test_every_attempt_has_its_entry_with_who_when_how_and_what_came_of_it(cockpit):
    shown = [entry.as_json() for entry in entries(cockpit)]

    assert [entry["outcome"] for entry in shown] == ["asked", "decided", "closed", "cancelling", "reconciling", "observed"]
    second = shown[1]
    assert (second["principal"], second["channel"], second["took_ms"]) == ("token:alice", "cli", 3000)
    assert (second["host"], second["task_id"], second["context_id"]) == ("lab", "task-1", "context-1")
    assert second["links"]["trace"] == "trace-1"
    assert second["at"] == "2026-01-01T12:00:03.000Z"


def test_the_chain_holds_and_says_where_it_ends(cockpit):
    found = verify(entries(cockpit))

    assert (found.begins.number, found.end.number, found.count) == (0, 6, 6)


@pytest.mark.parametrize("number", range(1, 7))
def test_an_entry_that_was_changed_breaks_the_chain_at_its_place(cockpit, number):
    kept = entries(cockpit)
    one = kept[number - 1]
    kept[number - 1] = Kept(one.number, one.body.replace("lab", "lob"), one.previous, one.hash)

    with pytest.raises(Broken, match=f"entry {number} was changed"):
        verify(kept)


def test_an_entry_that_was_changed_with_its_hash_breaks_the_chain_behind_it(cockpit):
    kept = entries(cockpit)
    body = kept[1].body.replace("lab", "lob")
    kept[1] = Kept(2, body, kept[1].previous, link(2, body, kept[1].previous))

    with pytest.raises(Broken, match="entry 3 does not follow"):
        verify(kept)


def test_an_entry_that_was_taken_out_is_missed(cockpit):
    kept = entries(cockpit)

    with pytest.raises(Broken, match="entry 3 is missing"):
        verify([*kept[:2], *kept[3:]])


def test_an_end_that_was_cut_off_is_missed_by_who_noted_it(cockpit):
    kept = entries(cockpit)

    assert verify(kept[:4]).end == kept[3].spot
    with pytest.raises(Broken, match="the record ends at 4"):
        verify(kept[:4], {6: kept[5].hash})


def test_sqlite_itself_refuses_to_change_or_shorten_the_audit(cockpit):
    with sqlite3.connect(cockpit / STORE_NAME) as raw:
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            raw.execute("UPDATE audit SET body = '{}' WHERE number = 1")
        with pytest.raises(sqlite3.IntegrityError, match="never shortened"):
            raw.execute("DELETE FROM audit WHERE number = 6")


async def test_the_audit_is_read_while_the_cockpit_runs(cockpit):
    async with open_records(cockpit / STORE_NAME, Clock()) as records:
        assert len(entries(cockpit)) == 6
        await ask(records, 2)
        assert len(entries(cockpit)) == 7


def test_a_folder_without_a_cockpit_says_so(tmp_path):
    with pytest.raises(DatabaseUnavailable, match="there is no"), open_ledger(tmp_path):
        pass


def test_an_export_is_what_verify_takes(cockpit, capsys, tmp_path):
    assert main(["audit", "export", "--cockpit", str(cockpit), "--json"]) == 0
    file = tmp_path / "export.jsonl"
    file.write_text(capsys.readouterr().out)

    found = verify(read(file.read_text().splitlines(), {SCHEMA: "an audit"}))
    assert found.end == entries(cockpit)[-1].spot
    assert main(["audit", "verify", str(file)]) == 0
    assert capsys.readouterr().out.startswith("6:")


def test_verify_fails_on_an_export_that_somebody_has_edited(cockpit, capsys, tmp_path):
    main(["audit", "export", "--cockpit", str(cockpit), "--json"])
    file = tmp_path / "export.jsonl"
    file.write_text(capsys.readouterr().out.replace("not today", "go on"))

    assert main(["audit", "verify", str(file)]) == 1
    assert "entry 4 was changed" in capsys.readouterr().err


def test_verify_checks_what_was_noted_elsewhere(cockpit, capsys):
    main(["audit", "verify", "--cockpit", str(cockpit)])
    noted = capsys.readouterr().out.strip()

    assert main(["audit", "verify", "--cockpit", str(cockpit), "--anchor", noted]) == 0
    assert main(["audit", "verify", "--cockpit", str(cockpit), "--anchor", f"7:{'0' * 64}"]) == 1
    assert main(["audit", "verify", "--cockpit", str(cockpit), "--anchor", "seven"]) == 2
    assert main(["audit", "verify", "--cockpit", str(cockpit), str(cockpit / STORE_NAME)]) == 2


def test_show_tells_the_story_of_a_prompt(cockpit, capsys):
    assert main(["audit", "show", prompt_id()[:8], "--cockpit", str(cockpit), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [entry["outcome"] for entry in told] == ["asked", "decided", "closed", "cancelling", "reconciling"]
    assert main(["audit", "show", "4", "--cockpit", str(cockpit)]) == 0
    assert "token:bob" in capsys.readouterr().out
    assert main(["audit", "show", "99", "--cockpit", str(cockpit)]) == 3


def test_tail_shows_the_end_and_nothing_that_steers_the_terminal(cockpit, capsys):
    assert main(["audit", "tail", "-n", "2", "--cockpit", str(cockpit)]) == 0

    out = capsys.readouterr().out
    assert "observed" in out
    assert "asked" not in out.splitlines()[0]
    assert "\x1b" not in out
    assert ALICE.name not in out
