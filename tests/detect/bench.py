"""A detector with the shipped packs, and a clock and a kernel that the test moves."""

from __future__ import annotations

from sandboxd.detect.detector import Detector, News, Prompt
from sandboxd.detect.evidence import Evidence
from sandboxd.detect.load import combine, load_pack
from sandboxd.packs import shipped

RULES = combine([load_pack(path.name, path.read_text("utf-8")) for path in sorted(shipped("detectors").glob("*.toml"))])

LINE = Evidence(canonical=True, echo=True, reading=True)
BLIND = Evidence(canonical=True, echo=False, reading=True)
RAW = Evidence(canonical=False, echo=False, reading=True)
NOBODY = Evidence(canonical=True, echo=True, reading=False)
UNKNOWN = Evidence()


class Bench:
    """A detector with a clock and a kernel that the test moves."""

    def __init__(self, evidence: Evidence) -> None:
        self.detector = Detector(RULES, witnessed=evidence.reading is not None)
        self.evidence = evidence
        self.now = 0.0
        self.news: list[News] = []

    def out(self, data: str) -> Bench:
        self.detector.feed(data.encode(), self.now)
        return self

    def wait(self, seconds: float) -> Bench:
        until = self.now + seconds
        while (deadline := self.detector.next_deadline()) is not None and deadline <= until:
            if found := self.detector.poll(deadline, self.evidence):
                self.news.append(found)
        self.now = until
        return self

    def kernel(self, evidence: Evidence) -> Bench:
        self.evidence = evidence
        return self

    def typed(self) -> Bench:
        self.detector.typed(self.now)
        return self

    @property
    def said(self) -> list[str]:
        return [f"{type(found).__name__} {found.text}" for found in self.news]

    def prompt(self) -> Prompt:
        (found,) = self.news
        assert isinstance(found, Prompt)
        return found
