"""100 MB of lines, as fast as the terminal takes them."""

import os

LINES = b"".join(b"%06d %s\n" % (number, b"the quick brown fox jumps over the lazy dog " * 2) for number in range(640))
left = 100_000_000
while left > 0:
    data = LINES[:left]
    left -= os.write(1, data)
