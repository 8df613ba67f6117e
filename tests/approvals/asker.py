"""A model of an asker and of the network to it: it drops, delays and doubles, and somebody else answers it too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from sandboxd.approvals.events import (
    Contested,
    Deliver,
    Event,
    Fence,
    Fenced,
    Inquire,
    Learnt,
    Misfit,
    Moved,
    Taken,
    Undelivered,
)
from sandboxd.approvals.record import Approval

ROGUE = "a-message-of-somebody-else"
BAD = '{"text":"bad"}'  # what the asker's validator may or may not take, as it pleases


@attrs.frozen
class Traits:
    """What this asker can do beyond the spec, and how patient the network is with us."""

    names_accepted: bool = True
    can_retire: bool = True
    delays: int = 2


@attrs.frozen
class Asker:
    """`taken`: the message that was accepted. `late`: packets that are still on their way. `news`: not yet told."""

    prompt: Literal["open", "taken", "retired"] = "open"
    taken: str | None = None
    has_ended: bool = False
    late: tuple[Deliver, ...] = ()
    news: bool = False

    def receive(self, packet: Deliver, traits: Traits) -> Iterator[tuple[str, Asker, Event]]:
        """Every way in which this asker may take a packet, with what it answers."""
        if self.prompt != "open":
            accepted = self.taken if traits.names_accepted else None
            yield "409", self, Contested(packet.message_id, accepted, "not open")
            return
        if packet.payload.body == BAD:
            yield "422", self, Misfit(packet.message_id, "it does not fit")
        taken = attrs.evolve(self, prompt="taken", taken=packet.message_id, news=True)
        yield "200", taken, Taken(packet.message_id)

    def rogue(self) -> Asker:
        """Somebody else answers."""
        return attrs.evolve(self, prompt="taken", taken=ROGUE, news=True)

    def stop(self) -> Asker:
        """Its task ends: cancelled, or by itself."""
        prompt = "retired" if self.prompt == "open" else self.prompt
        return attrs.evolve(self, prompt=prompt, has_ended=True, news=True)

    def told(self) -> tuple[Asker, Event]:
        """What an observer of its stream hears."""
        return attrs.evolve(self, news=False), Moved("it went on", has_failed=self.has_ended)


def deliver(asker: Asker, packet: Deliver, traits: Traits) -> Iterator[tuple[str, Asker, Event]]:
    """One attempt: what may become of it, and what the sender hears."""
    silence = Undelivered(packet.message_id, "no reply")
    yield "the request is lost", asker, silence
    for name, after, reply in asker.receive(packet, traits):
        yield f"{name}", after, reply
        yield f"{name}, the reply is lost", after, silence
        if len(after.late) < traits.delays:
            doubled = attrs.evolve(after, late=(*after.late, packet))
            yield f"{name}, and the request is doubled", doubled, reply
    if len(asker.late) < traits.delays:
        delayed = attrs.evolve(asker, late=(*asker.late, packet))
        yield "the request is delayed", delayed, silence


def arrive_late(asker: Asker, traits: Traits) -> Iterator[tuple[str, Asker]]:
    """Packets that the sender has given up on arrive after all, in any order; nobody hears the reply."""
    for index, packet in enumerate(asker.late):
        rest = attrs.evolve(asker, late=asker.late[:index] + asker.late[index + 1 :])
        for name, after, _ in rest.receive(packet, traits):
            yield f"a late request arrives: {name}", after


def fence(asker: Asker, effect: Fence, traits: Traits) -> Iterator[tuple[str, Asker, Event]]:
    """CancelTask, or the retiring of a question, where there is such a thing."""
    yield "the fence is lost", asker, Fenced(holds=False, why="no reply")
    if effect.may_cancel:
        after = asker.stop()
    elif traits.can_retire:
        after = attrs.evolve(asker, prompt="retired") if asker.prompt == "open" else asker
    else:
        return
    yield "the fence holds", after, Fenced(holds=True)
    yield "the fence holds, the reply is lost", after, Fenced(holds=False, why="no reply")


def inquire(asker: Asker, approval: Approval) -> Iterator[tuple[str, Event]]:
    """What an honest look at the task says, or nothing."""
    yield "the inquiry is lost", Learnt("unknown", None, "no reply")
    if asker.prompt == "open":
        yield "it asks still", Learnt("open")
    elif approval.is_ours(asker.taken):
        yield "it took ours", Learnt("accepted", asker.taken)
    else:
        yield "it took none of ours", Learnt("lost", None, "it went on")


Wire = Deliver | Inquire | Fence
