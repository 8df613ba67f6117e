"""What exactly did the program print?"""

from __future__ import annotations

import attrs

from sandboxd.errors import ArtifactNotFound
from sandboxd.operations.host import Caller, Host
from sandboxd.values import frozen


@frozen
class ArtifactFile:
    """The kept bytes of an artifact: `size` of them, the first `head` from before a cut of `cut` dropped bytes."""

    task_id: str
    artifact_id: str
    size: int
    is_complete: bool
    cut: int
    head: int
    host: Host = attrs.field(repr=False)

    async def read(self, start: int, stop: int) -> bytes:
        """The bytes `[start, stop)` of those kept."""
        return await self.host.store.read(self.task_id, self.artifact_id, start, min(stop, self.size))


async def open_artifact(host: Host, caller: Caller, instance: str, task_id: str, artifact_id: str) -> ArtifactFile:
    """The artifact's bytes as they stand; `TaskNotFound`, `ArtifactNotFound`."""
    view = await host.view(caller, instance, task_id, history_length=0)
    for artifact in view.artifacts:
        if artifact.artifact_id == artifact_id:
            return ArtifactFile(task_id, artifact_id, artifact.size, artifact.is_complete, artifact.cut, artifact.head, host)
    known = ", ".join(f"`{artifact.artifact_id}`" for artifact in view.artifacts) or "none so far"
    raise ArtifactNotFound(
        f"cannot find artifact `{artifact_id}`: the task has {known}", facts={"taskId": task_id, "artifactId": artifact_id}
    )
