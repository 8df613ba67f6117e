"""Are the same questions raised from a recording, wherever its bytes are cut?

Over every `.cast` of the corpus (`tests.support.shared`); what the kernel said is read from the `.json` beside it.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from sandboxd.detect.detector import Detector, News
from sandboxd.detect.evidence import NOTHING_KNOWN
from sandboxd.detect.explain import Recording, Truth, read_recording, read_truth
from sandboxd.detect.load import combine, load_pack
from sandboxd.packs import shipped
from tests.support.shared import CORPUS

CASTS = sorted(CORPUS.rglob("*.cast")) if CORPUS else []
RULES = combine([load_pack(path.name, path.read_text("utf-8")) for path in sorted(shipped("detectors").glob("*.toml"))])


def raised(recording: Recording, truth: Truth | None, rng: random.Random | None) -> list[tuple[float, News]]:
    """What a detector says, and when; with `rng` each read is cut at random places."""
    detector = Detector(RULES, cols=recording.cols, height=recording.height, witnessed=truth is not None)
    said: list[tuple[float, News]] = []

    def listen(until_s: float) -> None:
        while (deadline := detector.next_deadline()) is not None and deadline <= until_s:
            news = detector.poll(deadline, truth.at(deadline) if truth else NOTHING_KNOWN)
            if news is not None:
                said.append((deadline, news))

    for piece in recording.pieces:
        listen(piece.at_s)
        if piece.is_typed:
            detector.typed(piece.at_s)
            continue
        places = {0, len(piece.data)} | ({rng.randrange(len(piece.data) + 1) for _ in range(4)} if rng else set())
        cuts = sorted(places)
        for start, stop in pairwise(cuts):
            detector.feed(piece.data[start:stop], piece.at_s)
    listen((recording.pieces[-1].at_s if recording.pieces else 0.0) + 5)
    return said


@pytest.mark.skipif(not CASTS, reason="NOT TESTED HERE: the recordings (SANDBOXD_CORPUS names no folder with any)")
@pytest.mark.parametrize("is_witnessed", [True, False], ids=["kernel", "text"])
def test_every_recording_raises_the_same_wherever_its_bytes_are_cut(is_witnessed: bool) -> None:
    differ = []
    for path in CASTS:
        recording = read_recording(path.read_bytes())
        truth = read_truth(json.loads(path.with_suffix(".json").read_text())) if is_witnessed else None
        whole = raised(recording, truth, None)
        if any(raised(recording, truth, random.Random(seed)) != whole for seed in range(3)):
            differ.append(path.name)

    assert differ == []
