"""Can a task type into a terminal, its own or another's, or take one?"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import tty

from tests.hostile.attacks.craft import Targets, attack, syscall, write

TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSCTTY, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x540E, 0x5423
TIOCEXCL, TIOCNXCL, TIOCPKT, TIOCVHANGUP, TIOCSLCKTRMIOS = 0x540C, 0x540D, 0x5420, 0x5437, 0x5457
TIOCGPTPEER = 0x5441


@attack
def type_into_stdin(t: Targets) -> str | None:
    """CVE-2017-5226: the character comes as if a person had typed it."""
    fcntl.ioctl(0, TIOCSTI, b"x")
    return "typed"


@attack
def type_into_own_terminal(t: Targets) -> str | None:
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), TIOCSTI, b"x")
    return "typed"


@attack
def type_with_high_bits(t: Targets) -> str | None:
    """CVE-2019-10063: the kernel looks at 32 bits, a careless filter at 64."""
    import ctypes

    syscall("ioctl", 0, 1 << 32 | TIOCSTI, ctypes.create_string_buffer(b"x"))
    return "typed"


@attack
def type_by_selection(t: Targets) -> str | None:
    """TIOCLINUX pastes on a console."""
    fcntl.ioctl(0, TIOCLINUX, bytes([3]))
    return "pasted"


@attack
def type_by_selection_with_high_bits(t: Targets) -> str | None:
    import ctypes

    syscall("ioctl", 0, 1 << 32 | TIOCLINUX, ctypes.create_string_buffer(b"\3"))
    return "pasted"


@attack
def type_into_another_terminal(t: Targets) -> str | None:
    fcntl.ioctl(os.open(t.tty, os.O_RDWR | os.O_NOCTTY), TIOCSTI, b"x")
    return "typed"


@attack
def write_to_another_terminal(t: Targets) -> str | None:
    return write(t.tty, "write_to_another_terminal\n", os.O_WRONLY | os.O_NOCTTY)


@attack
def write_to_terminal_of_other_task(t: Targets) -> str | None:
    return write(t.other_tty, "write_to_terminal_of_other_task\n", os.O_WRONLY | os.O_NOCTTY)


@attack
def steal_a_terminal(t: Targets) -> str | None:
    os.setsid()
    fd = os.open(t.tty, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(fd, TIOCSCTTY, 0)
    return "has it"


@attack
def console(t: Targets) -> str | None:
    fcntl.ioctl(0, TIOCCONS)
    return "has what the kernel prints"


@attack
def line_discipline(t: Targets) -> str | None:
    """TIOCSETD loads a module of the kernel for whoever asks (N_SLIP and its kin)."""
    fcntl.ioctl(0, TIOCSETD, struct.pack("=i", 1))
    return "loaded it"


@attack
def nobody_else_opens_it(t: Targets) -> str | None:
    """TIOCEXCL: the daemon could not look any more whether what it typed was read."""
    fcntl.ioctl(0, TIOCEXCL)
    fcntl.ioctl(0, TIOCNXCL)
    return "had it alone"


@attack
def foreground_of_another_session(t: Targets) -> str | None:
    """A group of somebody else's in the foreground of this terminal gets its Ctrl-C."""
    os.tcsetpgrp(0, t.victim_group)
    return "has it there"


@attack
def packet_mode_from_below(t: Targets) -> str | None:
    """TIOCPKT is the master's: from here it must not change how the daemon reads."""
    fcntl.ioctl(0, TIOCPKT, struct.pack("=i", 0))
    return "turned it off"


@attack
def locked_settings(t: Targets) -> str | None:
    """TIOCSLCKTRMIOS: settings that nobody can change back."""
    fcntl.ioctl(0, TIOCSLCKTRMIOS, bytes(60))
    return "locked them"


@attack
def terminal_answers_back(t: Targets) -> str | None:
    """What it asks of a terminal is typed by whoever shows it, as if by a person: its kind, place, title, colours."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)
    try:
        os.write(1, b"\x05\x1b[c\x1b[>c\x1b[6n\x1b[21t\x1b[?u\x1bP$qm\x1b\\\x1b]11;?\x07\r\x1b[K")
        typed = os.read(0, 100) if select.select([0], [], [], 0.5)[0] else b""
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
    return f"{typed!r} came" if typed else None


@attack
def other_end_of_its_terminal(t: Targets) -> str | None:
    """TIOCGPTPEER is the master's."""
    return f"has {fcntl.ioctl(0, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)}"


@attack
def hang_up(t: Targets) -> str | None:
    """TIOCVHANGUP: as if the line were gone, for everybody who holds it."""
    fcntl.ioctl(0, TIOCVHANGUP)
    return "hung up"


@attack
def new_terminal(t: Targets) -> str | None:
    return f"has {os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)}"


@attack
def new_terminal_by_its_folder(t: Targets) -> str | None:
    return f"has {os.open('/dev/pts/ptmx', os.O_RDWR | os.O_NOCTTY)}"


@attack
def list_terminals(t: Targets) -> str | None:
    """Its own alone is no news."""
    others = [name for name in os.listdir("/dev/pts") if name.isdigit() and f"/dev/pts/{name}" == t.tty]
    return f"saw {others}" if others else None
