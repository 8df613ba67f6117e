"""pexpect and the asking program: for each line that is read, so many questions; prints how late it saw each, in ns."""

import json
import sys
import time

import pexpect

child = pexpect.spawn("/usr/bin/python3", [sys.argv[1]], timeout=30)
child.delaybeforesend = None
for line in sys.stdin:
    late = []
    for _ in range(int(line)):
        child.expect(rb"asked (\d+)\? \[y/N\] ")
        late.append(time.monotonic_ns() - int(child.match.group(1)))
        child.sendline(b"y")
    print(json.dumps(late), flush=True)
