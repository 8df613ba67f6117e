"""Asks for ever; each question says when it was printed and when the answer before it was read, in monotonic ns."""

import os
import time

read = 0
while True:
    os.write(1, b"read %d, asked %d? [y/N] " % (read, time.monotonic_ns()))
    if not os.read(0, 4096):
        break
    read = time.monotonic_ns()
