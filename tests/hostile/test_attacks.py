"""A hostile runner, in a real task of a real daemon: what gets through at which level?

`expected` is the table. Each attack is judged by what it got hold of itself, and by what its victims saw.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hostile.attacks import files, sockets
from tests.hostile.attacks.craft import ATTACKS, BOMBS
from tests.hostile.attacks.runner import ROOMS
from tests.hostile.expected import ALLOWED, ASKED, BY_NETWORK, IN_THE_UNIT, LEVELS, STANDARD, STRICT
from tests.hostile.hostile_daemon import TMP_BYTES
from tests.hostile.range import NotKept, Range, Verdicts, open_range, read_lines
from tests.support.daemon import outcome_of, output_of, processes_with, state_of, wait_until

pytestmark = [
    pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED HERE: root's tasks are no ordinary user's (scripts/as-tester)"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="NOT TESTED HERE: the attacks know the calls of x86_64 alone"),
]


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def ground(level: str, tmp_path_factory: pytest.TempPathFactory, node: Path) -> Iterator[Range]:
    folder, has_mounts = tmp_path_factory.mktemp("range"), level == IN_THE_UNIT
    try:
        with open_range(folder, ASKED[level], node=str(node), mounts=has_mounts) as ground:
            yield ground
    except NotKept as error:
        pytest.skip(f"NOT TESTED HERE: attacks at `{level}`: {error}")


@pytest.fixture(scope="module")
def verdicts(ground: Range) -> Verdicts:
    return ground.attack(list(ATTACKS), leave="the-tree")


@pytest.fixture(scope="module")
def node_verdicts(ground: Range) -> Verdicts:
    return ground.attack(adapter="hostile-node", leave="the-nodes-tree")


def test_every_attack_is_stopped_or_allowed_for_a_reason(level: str, verdicts: Verdicts, record_property):
    allowed = ALLOWED[level]

    through = {name: how for name in verdicts.own if (how := verdicts.got_through(name))}

    told = f"{len(verdicts.own) - len(through)} of {len(verdicts.own)} attacks stopped"
    record_property("hostile", f"{level}: {told}; through: {', '.join(through) or 'none'}")
    assert {name: how for name, how in through.items() if name not in allowed} == {}
    assert verdicts.touched <= set(allowed), "a victim was reached by a way that has no name"


def test_every_attack_was_really_tried(verdicts: Verdicts):
    assert set(verdicts.own) == set(ATTACKS)
    assert {name: told for name, told in verdicts.own.items() if {"bug", "hung"} & set(told)} == {}


def test_nothing_outside_has_changed(level: str, verdicts: Verdicts):
    assert verdicts.files == ()
    assert verdicts.changed == {}
    if "chmod_by_an_open_descriptor" not in ALLOWED[level]:
        assert verdicts.metadata == ()


def test_a_node_program_has_no_other_ways(level: str, node_verdicts: Verdicts):
    through = {name: how for name in node_verdicts.own if (how := node_verdicts.got_through(name))}

    assert {name: how for name, how in through.items() if name not in ALLOWED[level]} == {}
    assert node_verdicts.files == ()
    wait_until(lambda: not processes_with("HOSTILE_TREE=the-nodes-tree"), timeout_s=30, what="the end of its child")


def test_an_honest_program_notices_nothing(node_verdicts: Verdicts):
    assert {name: told for name, told in node_verdicts.honest.items() if not told["ok"]} == {}
    assert len(node_verdicts.honest) > 5


def test_a_tree_that_was_left_behind_is_gone(verdicts: Verdicts):
    wait_until(lambda: not processes_with("HOSTILE_TREE=the-tree"), timeout_s=30, what="the end of the tree")


def test_bombs_hurt_nobody_else(level: str, ground: Range, verdicts: Verdicts):
    """Only where signals have been seen to stop at the task: what follows kills whatever it reaches."""
    assert not any(verdicts.got_through(name) for name in ("kill_victim", "kill_daemon", "everybody", "kill_other_task"))

    after = ground.attack(list(BOMBS))

    through = {name: how for name in after.own if (how := after.got_through(name))}
    assert {name: how for name, how in through.items() if name not in ALLOWED[level]} == {}
    assert after.files == ()
    assert ground.daemon.process is not None
    assert ground.daemon.process.poll() is None
    assert state_of(ground.daemon.send({"targets": {}, "only": ["environment_of_the_daemon"]})) == "COMPLETED"


def test_a_fork_bomb_does_not_keep_the_next_task_from_starting(level: str, ground: Range):
    runs = ground.daemon.workspace / ".aiwg/ops/runs"
    bomb = ground.daemon.send({"targets": {}, "stay": str(runs / "bombed"), "forks": 500}, wait=False)
    wait_until(lambda: '"children"' in output_of(ground.daemon.get(bomb["id"])), timeout_s=60, what="the bomb")

    next_task = ground.daemon.send({"targets": {}, "only": []})

    assert state_of(next_task) == "COMPLETED", next_task["status"]
    (runs / "bombed").touch()
    ground.daemon.until(bomb["id"], "COMPLETED", timeout_s=60)


def test_hoarded_descriptors_do_not_keep_the_next_task_from_starting(ground: Range):
    """They are counted by the user, and the spawner hands each run's terminal over in the same way."""
    runs = ground.daemon.workspace / ".aiwg/ops/runs"
    hoards = [ground.daemon.send({"targets": {}, "stay": str(runs / "hoarded"), "hoard": True}, wait=False) for _ in range(3)]
    for hoard in hoards:
        wait_until(partial(_is_up, ground, hoard["id"]), timeout_s=60, what="the hoard")

    next_task = ground.daemon.send({"targets": {}, "only": []})

    assert state_of(next_task) == "COMPLETED", next_task["status"]
    (runs / "hoarded").touch()
    for hoard in hoards:
        ground.daemon.until(hoard["id"], "COMPLETED", timeout_s=60)


@pytest.mark.parametrize(
    ("what", "wanted", "room"),
    [
        ("fill", TMP_BYTES + 16 * 1024 * 1024, TMP_BYTES),
        ("names", TMP_BYTES // 512 + 5000, TMP_BYTES // 1024),  # files without content take something, too
    ],
)
def test_temporary_files_stay_within_their_size_or_end_their_task(level: str, ground: Range, what: str, wanted: int, room: int):
    runs = ground.daemon.workspace / ".aiwg/ops/runs"
    filler = ground.daemon.send({"targets": {}, "stay": str(runs / what), what: wanted}, wait=False)

    if level == STRICT:
        wait_until(lambda: '"filled"' in output_of(ground.daemon.get(filler["id"])), timeout_s=60, what="all that fits")
        (runs / what).touch()
        ended = ground.daemon.until(filler["id"], "COMPLETED", "FAILED", timeout_s=60)
        assert state_of(ended) == "COMPLETED"
        (told,) = [line for line in read_lines(output_of(ended)) if "filled" in line]
        assert 0 < told["filled"] + told["named"] <= room
    else:
        ended = ground.daemon.until(filler["id"], "COMPLETED", "FAILED", timeout_s=60)
        assert outcome_of(ended)["reason"] == "tmp-limit", ended["status"]
    assert state_of(ground.daemon.send({"targets": {}, "only": []})) == "COMPLETED"


def _is_up(ground: Range, task_id: str) -> bool:
    return '"hoarded"' in output_of(ground.daemon.get(task_id))


@pytest.mark.parametrize("of", [STANDARD, STRICT])
def test_a_network_allows_tcp_and_udp_and_nothing_else(tmp_path: Path, of: str, node: Path):
    tried = [name for name, attack in ATTACKS.items() if attack.__module__ in (sockets.__name__, files.__name__)]
    try:
        with open_range(tmp_path, ASKED[of], node=str(node), network=True) as ground:
            verdicts = ground.attack(tried)
    except NotKept as error:
        pytest.skip(f"NOT TESTED HERE: attacks at `{of}` with a network: {error}")

    through = {name: how for name in tried if (how := verdicts.got_through(name))}
    assert {name: how for name, how in through.items() if name not in {**ALLOWED[of], **BY_NETWORK}} == {}
    assert "tcp" in through
    assert set(through["every_family"].split(", ")) <= {"2/1", "2/2", "10/1", "10/2"}


def test_without_isolation_the_attacks_do_get_through(tmp_path: Path, node: Path, record_property):
    """The control: an attack that fails anyway proves nothing, so most of them have to work here."""
    with open_range(tmp_path, "none", node=str(node)) as ground:
        of_node = ground.attack(adapter="hostile-node", leave="none")
        verdicts = ground.attack(list(ATTACKS))  # the last word: it overwrites its own runner

    through = [name for name in verdicts.own if verdicts.got_through(name)]
    record_property("hostile", f"none: {len(through)} of {len(ATTACKS)} attacks get through, which is the control")
    assert {name: told for name, told in verdicts.own.items() if {"bug", "hung"} & set(told)} == {}
    assert len(through) > len(ATTACKS) // 2
    assert {name: told for name, told in of_node.honest.items() if not told["ok"]} == {}
    assert sum(bool(of_node.got_through(name)) for name in of_node.own) > len(of_node.own) // 2


def test_every_room_of_attacks_is_tried():
    folder = Path(__file__).parent / "attacks"
    files = {path.stem for path in folder.glob("*.py")}

    assert files - {"craft", "runner"} == {room.__name__.rpartition(".")[2] for room in ROOMS}
    known = {*ATTACKS, *BOMBS, *re.findall(r"^  (node_\w+):", (folder / "runner.mjs").read_text(), re.MULTILINE)}
    assert {name for allowed in ALLOWED.values() for name in allowed} <= known
