"""How much has this cockpit to do, and which bound was reached? (`GET /metrics`, Prometheus)"""

from __future__ import annotations

import os

import quart

from sandboxd import metrics
from sandboxd.cockpit import listing
from sandboxd.cockpit.web.desk import Desk
from sandboxd.cockpit.web.gate import Guest


async def measure(desk: Desk, guest: Guest) -> quart.Response:
    """What stands now is read from the record, so it is true after a restart too. For everybody who may come in."""
    standing = await desk.controller.records.read(listing.standing)
    metrics.COCKPIT_OPEN.clear()
    metrics.COCKPIT_WAITING.clear()
    for host in desk.controller.hosts:
        metrics.COCKPIT_OPEN.labels(host=host).set(standing.open.get(host, 0))
        for kind in listing.KINDS:
            metrics.COCKPIT_WAITING.labels(host=host, kind=kind).set(standing.unasked.get((host, kind), 0))
    metrics.DESCRIPTORS.set(len(os.listdir("/proc/self/fd")))
    metrics.BUILD.labels(version=desk.version).set(1)
    return quart.Response(metrics.cockpit_exposition(), content_type=metrics.CONTENT_TYPE)
