"""Can a task reach anybody over a socket, of whatever family?"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
import time
from functools import partial

from tests.hostile.attacks.craft import SYS, Targets, attack, first, syscall

SIOCGIFNAME, SIOCGIFHWADDR = 0x8910, 0x8927
MPTCP, UDPLITE = 262, 136
MSG_FASTOPEN = 0x20000000


def tell(sock: socket.socket, name: str) -> str:
    sock.settimeout(2)
    sock.sendall(name.encode() + b"\n")
    return "sent"


@attack
def every_family(t: Targets) -> str | None:
    """No socket of any family, kind or number, not even one that leads nowhere."""
    got = []
    for family in range(64):
        for kind in (1, 2, 3, 4, 5, 10):
            try:
                os.close(syscall("socket", family, kind, 0))
            except OSError:
                continue
            got.append(f"{family}/{kind}")
    return ", ".join(got) or None


@attack
def family_with_high_bits(t: Targets) -> str | None:
    """The kernel looks at 32 bits, a careless filter at 64."""
    return f"has {syscall('socket', socket.AF_INET | 1 << 32, socket.SOCK_STREAM, 0)}"


@attack
def unix_abstract(t: Targets) -> str | None:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("\0" + t.abstract)
    return tell(sock, "unix_abstract")


@attack
def unix_path(t: Targets) -> str | None:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(t.unix)
    return tell(sock, "unix_path")


@attack
def unix_path_of_the_daemon(t: Targets) -> str | None:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(t.api)
    return "connected"


@attack
def unix_datagram_to_a_path(t: Targets) -> str | None:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"unix_datagram_to_a_path\n", t.datagram)
    return "sent"


@attack
def pair_of_datagrams_connected_elsewhere(t: Targets) -> str | None:
    """A filter that lets socketpair through for everybody lets this through."""
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.connect(t.datagram)
    return tell(ours, "pair_of_datagrams_connected_elsewhere")


@attack
def pair_of_datagrams_sent_elsewhere(t: Targets) -> str | None:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"pair_of_datagrams_sent_elsewhere\n", t.datagram)
    return "sent"


@attack
def pair_of_packets(t: Targets) -> str | None:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return f"has {ours.fileno()}"


@attack
def pair_with_high_bits(t: Targets) -> str | None:
    found = array.array("i", [0, 0])
    address, _ = found.buffer_info()
    syscall("socketpair", 1, 2 | 1 << 32, 0, address)
    return f"has {found[0]}"


@attack
def pair_with_flags(t: Targets) -> str | None:
    """SOCK_DGRAM with SOCK_NONBLOCK: the kind is in the low bits alone."""
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    ours.sendto(b"pair_with_flags\n", t.datagram)
    return "sent"


@attack
def pair_of_streams_reconnected(t: Targets) -> str | None:
    """The one pair that programs need, turned against a path."""
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.connect(t.unix)
    return tell(ours, "pair_of_streams_reconnected")


@attack
def pair_of_streams_bound(t: Targets) -> None:
    """It cannot be connected again, but a name can be taken from somebody. Judged outside, by who tries to have it."""
    ours, _ = socket.socketpair()
    ours.bind("\0" + t.tag + "pair_of_streams_bound")
    time.sleep(0.3)  # the harness looks while it is taken


@attack
def pair_of_streams_listens(t: Targets) -> str | None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.listen(1)
    return "listens"


@attack
def program_for_the_kernel_on_a_pair(t: Targets) -> str | None:
    """SO_ATTACH_FILTER: a program of one's own, compiled into the kernel's memory (JIT spraying)."""
    import ctypes

    ours, _ = socket.socketpair()
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0xFFFF))  # take it all
    ours.setsockopt(socket.SOL_SOCKET, 26, struct.pack("@HP", 1, ctypes.addressof(code)))
    return "it runs there"


@attack
def interfaces_by_a_pair(t: Targets) -> str | None:
    """Whatever socket one has, a pair of Unix sockets too, asks about the host's network interfaces (netdevice(7))."""
    ours, _ = socket.socketpair()
    return first([partial(address_of, ours, number) for number in (2, 3, 4, 1)])


def address_of(sock: socket.socket, number: int) -> str:
    name = fcntl.ioctl(sock, SIOCGIFNAME, struct.pack("=16si20x", b"", number))[:16]
    address = fcntl.ioctl(sock, SIOCGIFHWADDR, name + bytes(24))[18:24]
    return f"{name.rstrip(bytes(1)).decode()} {address.hex(':')}"


@attack
def notify_the_manager(t: Targets) -> str | None:
    """sd_notify(3) as the daemon's child: READY, WATCHDOG, STOPPING."""
    path = os.environ.get("NOTIFY_SOCKET") or t.notify
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"notify_the_manager\n", path)
    return "sent"


@attack
def system_log(t: Targets) -> str | None:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect("/dev/log")
    return "connected"


@attack
def system_bus(t: Targets) -> str | None:
    socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket")
    return "connected"


@attack
def docker(t: Targets) -> str | None:
    socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock")
    return "connected"


@attack
def tcp(t: Targets) -> str | None:
    return tell(socket.create_connection(("127.0.0.1", t.tcp), timeout=2), "tcp")


@attack
def tcp_of_the_daemon(t: Targets) -> str | None:
    socket.create_connection(("127.0.0.1", t.api_port), timeout=2)
    return "connected"


@attack
def tcp6(t: Targets) -> str | None:
    return tell(socket.create_connection(("::1", t.tcp6), timeout=2), "tcp6")


@attack
def tcp_bind(t: Targets) -> str | None:
    socket.socket().bind(("127.0.0.1", 0))
    return "bound"


@attack
def tcp_listen_without_bind(t: Targets) -> str | None:
    sock = socket.socket()
    sock.listen(1)
    return f"listens on {sock.getsockname()}"


@attack
def tcp_fast_open(t: Targets) -> str | None:
    """Connects without connect(2)."""
    socket.socket().sendto(b"tcp_fast_open\n", MSG_FASTOPEN, ("127.0.0.1", t.tcp))
    return "sent"


@attack
def mptcp(t: Targets) -> str | None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    sock.settimeout(2)
    sock.connect(("127.0.0.1", t.tcp))
    return tell(sock, "mptcp")


@attack
def smc(t: Targets) -> str | None:
    sock = socket.socket(43, socket.SOCK_STREAM, 0)  # AF_SMC falls back to TCP inside the kernel
    sock.settimeout(2)
    sock.connect(("127.0.0.1", t.tcp))
    return tell(sock, "smc")


@attack
def sctp(t: Targets) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).connect(("127.0.0.1", t.tcp))
    return "connected"


@attack
def udp(t: Targets) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"udp\n", ("127.0.0.1", t.udp))
    return "sent"


@attack
def udp6(t: Targets) -> str | None:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"udp6\n", ("::ffff:127.0.0.1", t.udp))
    return "sent"


@attack
def udp_lite(t: Targets) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, UDPLITE).sendto(b"udp_lite\n", ("127.0.0.1", t.udp))
    return "sent"


@attack
def ping(t: Targets) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).connect(("127.0.0.1", 1))
    return "has it"


@attack
def raw(t: Targets) -> str | None:
    return f"has {socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).fileno()}"


@attack
def packets(t: Targets) -> str | None:
    return f"has {socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300).fileno()}"


@attack
def netlink(t: Targets) -> str | None:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.bind((0, 0))
    sock.settimeout(2)
    sock.send(struct.pack("=IHHIIB3x", 20, 18, 0x301, 1, 0, 0))  # RTM_GETLINK, dump
    return f"{len(sock.recv(65_536))} bytes about the interfaces"


@attack
def audit_netlink(t: Targets) -> str | None:
    return f"has {socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9).fileno()}"


@attack
def vsock(t: Targets) -> str | None:
    return f"has {socket.socket(40, socket.SOCK_STREAM, 0).fileno()}"


@attack
def vsock_to_the_host(t: Targets) -> str | None:
    sock = socket.socket(40, socket.SOCK_STREAM, 0)
    sock.settimeout(1)
    try:
        sock.connect((2, 1))
    except ConnectionResetError:
        return "reached it"
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, "nobody answers") from None
    return "connected"


@attack
def crypto(t: Targets) -> str | None:
    return f"has {socket.socket(38, 5, 0).fileno()}"


@attack
def io_uring(t: Targets) -> str | None:
    """Opens and connects past every filter of system calls."""
    return f"has {syscall('io_uring_setup', 8, bytearray_buffer(120))}"


def bytearray_buffer(size: int) -> object:
    import ctypes

    return ctypes.create_string_buffer(size)


@attack
def x32_calls(t: Targets) -> str | None:
    return f"has {syscall(0x40000000 | SYS['socket'], socket.AF_INET, socket.SOCK_STREAM, 0)}"


@attack
def calls_of_32_bit(t: Targets) -> str | None:
    """int 0x80 from a 64-bit program: other numbers for the same calls, here socketcall(SYS_SOCKET)."""
    import ctypes
    import mmap

    # The 32-bit ABI takes 32-bit addresses: the arguments stand on a page below 4 GiB (MAP_32BIT).
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size, protection, flags = 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40
    page = libc.mmap(None, ctypes.c_size_t(size), protection, flags, -1, ctypes.c_long(0))
    if page in (None, ctypes.c_void_p(-1).value):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    arguments = page + 512
    ctypes.memmove(arguments, struct.pack("=III", socket.AF_INET, socket.SOCK_STREAM, 0), 12)
    # push rbx; mov eax,102; mov ebx,1; mov ecx,arguments; int 0x80; pop rbx; ret
    code_bytes = b"\x53\xb8\x66\0\0\0\xbb\x01\0\0\0\xb9" + struct.pack("=I", arguments) + b"\xcd\x80\x5b\xc3"
    ctypes.memmove(page, code_bytes, len(code_bytes))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(page)()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return f"has {result}"
