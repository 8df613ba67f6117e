"""A task that tries to answer its own question through the daemon's socket, in every way that hides whose child it is."""

import json
import sys

import pytest

from tests.support.daemon import Daemon, output_of, state_of, wait_until

ASK = ["ask", "Proceed? [y/N] "]
ATTACK = """
import http.client, json, os, socket, sys, time

how, place, result = sys.argv[1:]
task = os.environ["AIWG_A2A_TASK_ID"]
hitl = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"


def connect():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(place)
    return sock


def call(client, method, path, body=None):
    headers = {"A2A-Version": "1.0", "A2A-Extensions": hitl, "Content-Type": "application/json"}
    client.request(method, path, json.dumps(body) if body else None, headers)
    answer = client.getresponse()
    return answer.status, json.loads(answer.read())


def attack(sock):
    client = http.client.HTTPConnection("localhost", timeout=10)
    client.sock = sock
    status, found = call(client, "GET", f"/tasks/{task}")
    while status == 200 and "message" not in found["status"]:
        status, found = call(client, "GET", f"/tasks/{task}")
    if status == 200:
        payload = {"text": "myself"}
        response = {"prompt_id": found["status"]["message"]["metadata"][hitl]["prompt_id"], "payload": payload}
        message = {"messageId": "m", "role": "ROLE_USER", "taskId": task, "parts": [{"data": payload}]}
        message["metadata"] = {"hitl_response_for": response}
        status, _ = call(client, "POST", "/message:send", {"message": message})
    with open(result + ".part", "w") as file:
        json.dump(status, file)
    os.rename(result + ".part", result)


if how == "child":
    attack(connect())
elif how == "reparented":
    first = os.fork()
    if first:
        os.waitpid(first, 0)
    else:
        os.setsid()
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            time.sleep(0.01)
        attack(connect())
elif how == "helper that exited":
    ours, theirs = socket.socketpair()
    helper = os.fork()
    if not helper:
        sock = connect()
        socket.send_fds(theirs, [b"x"], [sock.fileno()])
        os._exit(0)
    os.waitpid(helper, 0)
    attack(socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0]))
"""


@pytest.mark.parametrize("how", ["child", "reparented", "helper that exited"])
def test_a_task_cannot_answer_its_own_question_through_the_socket(shared: Daemon, how):
    script, result = shared.folder / "attack.py", shared.folder / f"result-{how.split()[0]}"
    script.write_text(ATTACK)

    task = shared.run([["shell", f"exec {sys.executable} {script} '{how}' {shared.folder}/api.sock {result}"], ASK])
    wait_until(result.exists, what="the end of the attempt")

    assert json.loads(result.read_text()) == 403
    assert state_of(shared.get(task["id"])) == "INPUT_REQUIRED"
    done = shared.answer(task, "y", wait=True).json()["task"]
    assert state_of(done) == "COMPLETED"
    assert "myself" not in output_of(done)
