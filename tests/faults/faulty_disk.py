"""How does a disk come to fail for one daemon alone, with the very error that a test names?

    python -m tests.faults.faulty_disk SOCKET COMMAND …

It puts a system call filter on itself that asks somebody outside about every call by which a file is written or flushed
(seccomp_unotify(2)), sends where that is asked to the Unix socket `SOCKET`, and becomes the command. `Disk` answers: the
call goes on, or fails with the errno that is set. It needs no rights, and what fails is the kernel's own call.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Final

from sandboxd.runner import linux
from sandboxd.runner.isolation import bpf

# x86_64: pwrite64, fsync, fdatasync, ftruncate, fallocate, pwritev. SQLite and the files of output are written by these alone.
_CALLS: Final = (18, 74, 75, 77, 285, 296)
_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 1 << 3
_ASK: Final = 0x7FC00000  # SECCOMP_RET_USER_NOTIF
_GO_ON: Final = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE (Linux 5.5)
_RECV, _SEND = 0xC0502100, 0xC0182101
_ASKED: Final = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif
_ANSWER: Final = struct.Struct("=QqiI")


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Disk:
    """Answers for as long as the command lives. `error` 0: nothing fails."""

    def __init__(self, place: Path) -> None:
        self.error = 0
        self.place = place
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(place))
        self._door.listen()
        self._door.settimeout(60)

    def answer(self, pid: int) -> None:
        """From now on, for the process of that id; what it starts is left alone."""
        peer, _ = self._door.accept()
        with peer:
            _, fds, _, _ = socket.recv_fds(peer, 1, 1)
        threading.Thread(target=self._run, args=(fds[0], pid), daemon=True).start()

    def close(self) -> None:
        """Nobody else is answered; who is being answered still is."""
        self._door.close()

    def _run(self, listener: int, pid: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            ((_, events),) = poll.poll()
            if not events & select.POLLIN:  # nobody is left who could ask
                os.close(listener)
                return
            asked = bytearray(_ASKED.size)
            try:
                fcntl.ioctl(listener, _RECV, asked)
                number, thread, *_ = _ASKED.unpack(asked)
                failing = self.error if Path(f"/proc/{pid}/task/{thread}").exists() else 0
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -failing, 0 if failing else _GO_ON))
            except OSError as error:
                if error.errno != errno.ENOENT:  # who asked has been killed meanwhile
                    raise


def main() -> None:
    filter_ = bpf.assemble([bpf.load_number(), bpf.if_one_of(_CALLS, _ASK), bpf.give(bpf.ALLOW)])
    program = _Program(len(filter_) // 8, filter_)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    pointer = ctypes.cast(ctypes.pointer(program), ctypes.c_void_p)
    listener = linux.syscall(_SECCOMP, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_NEW_LISTENER), pointer)
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(sys.argv[1])
        socket.send_fds(door, [b"."], [listener])
    os.close(listener)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
