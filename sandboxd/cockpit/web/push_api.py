"""How does a host's push notification come in? (`POST /push/{host}`)"""

from __future__ import annotations

import quart

from sandboxd.cockpit.web.desk import Desk
from sandboxd.errors import Unauthenticated


async def pushed(desk: Desk, host: str) -> quart.Response:
    """204, and the cockpit looks at that host; 401 for whoever is not that host. What it says is not read."""
    desk.pace.take("push")  # all hosts together, and whoever else tries: a lost one is sent again
    body = await quart.request.get_data(as_text=False)
    assert isinstance(body, bytes)
    headers = {name.lower(): value for name, value in quart.request.headers}
    source = desk.controller.pushes
    if source is None or not source.is_from(host, headers, body, desk.clock().timestamp()):
        raise Unauthenticated("cannot take the notification: it is not from a host that is to push")
    source.tell(host)
    return quart.Response(b"", 204)
