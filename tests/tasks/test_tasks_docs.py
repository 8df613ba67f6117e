"""Does the page about tasks name every reason for an end?"""

import re
from pathlib import Path
from typing import get_args

from sandboxd.tasks.events import Reason


def test_every_reason_stands_in_the_table_and_no_other(repository: Path):
    page = (repository / "docs" / "tasks.md").read_text()
    table = page.split("\n\n| `reason`")[1].split("\n\n")[0]

    assert tuple(sorted(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))) == tuple(sorted(get_args(Reason)))
