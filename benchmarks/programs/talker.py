"""A line of 80 bytes every 100 ms, for ever."""

import os
import time

while True:
    os.write(1, b"x" * 79 + b"\n")
    time.sleep(0.1)
