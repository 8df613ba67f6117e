"""No file can grow any more, the log's neither: nothing is told that is not on disk, and every end still comes."""

import resource
from concurrent.futures import ThreadPoolExecutor

from tests.support.daemon import Daemon, outcome_of, output_of, processes_with, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]


def fill_disk(daemon: Daemon, *, full: bool) -> None:
    assert daemon.process is not None
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1 if full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_a_full_disk_holds_back_the_news_and_nothing_else(daemon: Daemon):
    asking = daemon.run([ASK, ["hang"]])
    canceled = daemon.run([["print", "up\n"], ["hang"]], wait=False)
    late = daemon.run([["print", "up\n"], ["hang"]], wait=False, timeout_seconds=1)
    wait_until(lambda: processes_with(canceled["id"]))
    fill_disk(daemon, full=True)

    with daemon.client() as client, ThreadPoolExecutor(3) as pool:
        first = pool.submit(daemon.answer, asking, "y")
        cancel = pool.submit(client.post, f"/tasks/{canceled['id']}:cancel")
        wait_until(lambda: not processes_with(canceled["id"]), what="the end of the canceled task's processes")
        second = pool.submit(daemon.answer, asking, "n")
        wait_until(lambda: not processes_with(late["id"]), what="the end by the deadline")
        with daemon.client() as other:
            refused = other.post("/message:send", json=daemon.message(text="echo"))
        seen = [state_of(daemon.get(task["id"])) for task in (asking, canceled, late)]
        told_too_early = [future for future in (first, second, cancel) if future.done()]
        fill_disk(daemon, full=False)

    assert refused.status_code == 503
    assert seen == ["INPUT_REQUIRED", "WORKING", "WORKING"]
    assert not told_too_early
    assert sorted([first.result().status_code, second.result().status_code]) == [200, 409]  # whichever came first
    (refusal,) = [future.result() for future in (first, second) if future.result().status_code == 409]
    assert "acceptedMessageId" in refusal.text
    assert state_of(cancel.result().json()) == "CANCELED"
    assert outcome_of(daemon.until(late["id"], "FAILED"))["reason"] == "timeout"
    seen_answer = wait_until(lambda: found if "answer: " in (found := output_of(daemon.get(asking["id"]))) else None)
    assert seen_answer.count("answer: ") == 1
