"""What of a run's output is kept."""

import codecs

from hypothesis import given
from hypothesis import strategies as st

from sandboxd.live.capture import Capture
from sandboxd.tasks.output import split_text


def kept(capture: Capture, reads: list[bytes]) -> tuple[bytes, int, bytes]:
    """Head, cut, tail, as they would be appended."""
    pieces = []
    for data in reads:
        capture.add(data)
        if piece := capture.take():
            pieces.append(piece)
    pieces += capture.finish()
    cut = sum(piece.cut for piece in pieces)
    before = True
    head, tail = b"", b""
    for piece in pieces:
        before = before and not piece.cut
        head, tail = (head + piece.data, tail) if before else (head, tail + piece.data)
    return head, cut, tail


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(min_value=16, max_value=2000))
def test_head_cut_and_tail_add_up_to_what_was_read(reads: list[bytes], cap: int):
    whole = b"".join(reads)

    head, cut, tail = kept(Capture("stdout", cap), reads)

    assert len(head) + cut + len(tail) == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) <= cap
    assert cut == 0 or len(whole) > cap


@given(st.text(max_size=100), st.integers(min_value=1, max_value=5))
def test_no_character_is_torn_by_a_read(text: str, step: int):
    data = text.encode()
    capture = Capture("terminal", 10_000)
    pieces = []
    for start in range(0, len(data), step):
        capture.add(data[start : start + step])
        if piece := capture.take():
            pieces.append(piece.data)
    pieces += [piece.data for piece in capture.finish()]

    assert "".join(piece.decode() for piece in pieces) == text


@given(st.text(alphabet="aé€😀", min_size=10, max_size=100), st.integers(min_value=16, max_value=120), st.integers(1, 9))
def test_no_character_is_torn_where_the_head_ends_and_the_tail_begins(text: str, cap: int, step: int):
    data = text.encode()
    capture = Capture("terminal", cap)
    pieces = []
    for start in range(0, len(data), step):
        capture.add(data[start : start + step])
        if piece := capture.take():
            pieces.append(piece)
    pieces += capture.finish()

    seen = [piece.data.decode() for piece in pieces]  # raises where one is torn
    cut = sum(piece.cut for piece in pieces)
    assert len("".join(seen).encode()) + cut == len(data)
    assert "".join(seen) == text or cut


def test_bytes_that_are_no_text_are_kept_exactly_around_the_cut():
    capture = Capture("stdout", 16)
    capture.add(bytes([0x80, 0xFF] * 50))

    head, tail = capture.finish()

    assert head.data == bytes([0x80, 0xFF] * 6)
    assert len(head.data) + tail.cut + len(tail.data) == 100


def test_a_flood_holds_no_more_than_the_cap_in_memory():
    capture = Capture("stdout", 1_000)
    for _ in range(100):
        capture.add(b"x" * 10_000)
        capture.take()

    assert sum(len(piece.data) for piece in capture.finish()) <= 1_000
    assert capture.dropped >= 1_000_000 - 1_000


@given(
    st.text(alphabet="aé€😀").map(str.encode)
    | st.lists(st.sampled_from(b"a\xc3\xa9\xe2\x82\xf0\x9f\x98\xff\xe0\xed")).map(bytes)
)
def test_what_is_held_back_is_what_a_decoder_of_it_all_would_hold_back(data):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)

    assert split_text(data)[1] == decoder.getstate()[0]
    assert b"".join(split_text(data)) == data
