#!/bin/sh
# How does a shell run an adapter command and answer its questions? With curl, and python3 for JSON.
#
#   curl_client.sh URL TOKEN_FILE [ANSWER ...]      URL of the daemon, such as http://127.0.0.1:8765: its default
#                                                   instance; another one is at URL/agents/ID
#
# POST URL/messages:send (202 and a Location), GET the Location until the task asks or ends, POST the answer,
# print the artifacts. Without an ANSWER left, the terminal is asked. REQUEST and MODE name another request than the
# example's plan. Exit code 0: the task completed.
set -eu

url=${1:?"URL of the daemon"}
token_file=${2:?"file with the token"}
shift 2
hitl=https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1
folder=.aiwg/ops/adapters/sandbox-agent-runner

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A file, since everybody on the machine can read a command line.
(umask 077 && printf 'Authorization: Bearer %s\nA2A-Extensions: %s\n' "$(cat "$token_file")" "$hitl" >"$work/headers")

# The answer's body goes to $work/body, its headers to $work/answered; prints the status code.
ask() { curl -sS --noproxy '*' -H @"$work/headers" -D "$work/answered" -o "$work/body" -w '%{http_code}' "$@"; }

# field EXPRESSION: a value of $work/body, where `task` is the body; nothing that a terminal could obey.
field() {
    HITL=$hitl python3 -c "
import json, os, sys
task = json.load(open(sys.argv[1])); hitl = os.environ['HITL']
found = eval(sys.argv[2])
print(''.join(c if c.isprintable() or c == chr(10) else '·' for c in str(found)))" "$work/body" "$1"
}

send() {
    code=$(ask -X POST -H 'Content-Type: application/json' --data-binary @- "$url/messages:send")
    case $code in
    200 | 202) ;;
    *)
        echo "refused: $code $(field "task.get('detail', task)")" >&2
        exit 1
        ;;
    esac
}

REQUEST=${REQUEST:-$folder/examples/cycle-005-request.json} MODE=${MODE:-plan} FOLDER=$folder python3 -c '
import json, os, uuid
mode = os.environ["MODE"]
envelope = {
    "adapter": "sandbox-agent-runner",
    "mode": mode,
    "command": ["node", os.environ["FOLDER"] + "/runner.mjs", "--request", os.environ["REQUEST"]],
    "working_dir": "/workspace",
    "timeout_seconds": 300,
    "input_mode": "text-line",
}
parts = [{"kind": "text", "text": f"Run the bounded {mode} adapter."}]
metadata = {"https://agentic-sandbox.aiwg.io/extensions/adapter-command/v1": envelope}
print(json.dumps({"message": {"messageId": str(uuid.uuid4()), "role": "user", "parts": parts, "metadata": metadata}}))
' | send || exit 1

location=$(sed -n 's/^[Ll]ocation: *\([^ ]*\)\r*$/\1/p' "$work/answered" | tr -d '\r')
case $location in /*) location=${url%%/agents/*}$location ;; esac
echo "task      $location"

before='' answered=''
while :; do
    [ "$(ask "$location")" = 200 ] || { echo "cannot read the task: $(cat "$work/body")" >&2; exit 1; }
    state=$(field "task['status']['state']")
    [ "$state" = "$before" ] || echo "state     $state"
    before=$state
    case $state in
    completed) break ;;
    failed | canceled | rejected)
        echo "          $(field "' '.join(p.get('text', '') for p in task['status'].get('message', {}).get('parts', []))")"
        break
        ;;
    input-required)
        prompt=$(field "task['status']['message']['metadata'][hitl]['prompt_id']")
        if [ "$prompt" != "$answered" ]; then
            echo "prompt    $(field "task['status']['message']['metadata'][hitl]['prompt']")"
            if [ $# -gt 0 ]; then
                text=$1
                shift
            elif [ -t 0 ]; then
                printf 'your answer: '
                read -r text
            else
                echo 'cannot answer: there is no ANSWER left and no terminal' >&2
                exit 1
            fi
            echo "answer    $text"
            python3 -c '
import json, sys, uuid
task, (prompt, text) = json.load(open(sys.argv[1])), sys.argv[2:]
payload = {"text": text}
answer = {"messageId": str(uuid.uuid4()), "role": "user", "taskId": task["id"], "contextId": task["contextId"]}
answer["parts"] = [{"kind": "data", "data": payload}]
answer["metadata"] = {"hitl_response_for": {"prompt_id": prompt, "payload": payload}}
print(json.dumps({"message": answer}))
' "$work/body" "$prompt" "$text" >"$work/answer"
            send <"$work/answer"
            answered=$prompt before=''
        fi
        ;;
    esac
    sleep 0.2
done

for artifact in $(field "' '.join(a['artifactId'] for a in task.get('artifacts') or [])"); do
    echo "artifact  $artifact"
    curl -sS --noproxy '*' -H @"$work/headers" "$location/artifacts/$artifact" |
        python3 -c '
import sys
for line in sys.stdin.buffer.read().decode(errors="replace").splitlines():
    print("  |       ", "".join(c if c.isprintable() else "·" for c in line))'
done
[ "$state" = completed ]
