"""Paging through what happened."""

from sandboxd.operations import list as listing
from tests.support.daemon import Daemon


def test_paging_reaches_every_task_once_newest_first(shared: Daemon):
    made = [shared.run([["exit", 0]], input_mode=...)["id"] for _ in range(7)]
    seen: list[str] = []
    token = ""
    with shared.client() as client:
        while True:
            page = client.get("/tasks", params={"pageSize": 3, "pageToken": token}).json()
            assert page["totalSize"] == 7
            assert len(page["tasks"]) <= 3
            assert all("artifacts" not in task for task in page["tasks"])
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
            if not token:
                break

    assert seen == made[::-1]


def test_a_page_with_artifacts_has_a_bound_and_loses_nothing(shared: Daemon):
    large = listing.PAGE_MAX_BYTES // 3
    made = [shared.run([["flood", large]], input_mode=...)["id"] for _ in range(4)]
    seen: list[str] = []
    pages, token = 0, ""
    with shared.client() as client:
        while not set(made) <= set(seen):
            page = client.get("/tasks", params={"pageSize": "4", "pageToken": token, "includeArtifacts": "true"}).json()
            artifacts = [artifact for task in page["tasks"] for artifact in task["artifacts"]]
            sizes = [len(part["text"]) for artifact in artifacts for part in artifact["parts"]]
            assert sum(sizes) <= listing.PAGE_MAX_BYTES
            seen += [task["id"] for task in page["tasks"]]
            pages, token = pages + 1, page["nextPageToken"]

    assert seen[:4] == made[::-1]
    assert pages >= 2
