"""Is this text a plain relative path, and does it stand below one of these folders?

Text only: whether the file exists, and whether a symlink stands in the way, is asked of the kernel by `runner/`, which opens
the path without following any. Both checks must pass; neither replaces the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

PATH_MAX_BYTES: Final = 4095  # PATH_MAX of linux/limits.h, its NUL taken off
NAME_MAX_BYTES: Final = 255


def not_plain(path: str) -> str | None:
    """Why the text is no plain relative path: every segment a name, nothing that climbs, repeats or escapes."""
    if not path:
        return "is empty"
    if "\0" in path:
        return "contains a NUL character"
    if path.startswith("/"):
        return "is absolute, must be relative to the working directory"
    if path.startswith("-"):
        return "begins with `-`, which a program reads as an option"
    if "\\" in path:
        return "contains a backslash"
    try:
        sizes = [len(segment.encode()) for segment in path.split("/")]
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is no text"
    segments = path.split("/")
    if ".." in segments:
        return "climbs with `..`"
    if "." in segments:
        return "contains the segment `.`"
    if path.endswith("/"):
        return "ends with a slash, so it names no file"
    if "" in segments:
        return "contains an empty segment (`//`)"
    if sum(sizes) + len(sizes) - 1 > PATH_MAX_BYTES or max(sizes) > NAME_MAX_BYTES:
        return f"is longer than the kernel takes ({PATH_MAX_BYTES} bytes, {NAME_MAX_BYTES} a name)"
    return None


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a plain relative path stands strictly below one of the folders (`.`: below the working directory)."""
    return any(folder == "." or path.startswith(f"{folder}/") for folder in folders)


def join(folder: str, path: str) -> str:
    """Both as one plain relative path; `.` is the root itself."""
    return path if folder == "." else f"{folder}/{path}"
