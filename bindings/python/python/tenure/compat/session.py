"""The ``Session`` of command-line harnesses: a project with undo and redo in memory, saved under the lock.

It stands in for the class of that name in CLI-Anything's audacity, gimp, kdenlive and obs-studio harnesses, which
have the same one. Blender's, inkscape's and libreoffice's differ in a word:

    class Session(tenure.compat.Session):
        noun = "scene"

1. Undo and redo are memory only. What is saved is the project.
2. The file is written by ``locked_save_json``: whole or not at all.
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any, ClassVar, Optional

from .json_files import locked_save_json

__all__ = ["Session"]


class Session:
    """A project, its undo history, and where it is saved."""

    #: The oldest snapshot goes when there are more.
    MAX_UNDO: ClassVar[int] = 50
    #: What messages, and the key ``..._name`` of ``status``, call the project.
    noun: ClassVar[str] = "project"

    def __init__(self, project: Optional[dict[str, Any]] = None, path: Optional[str] = None) -> None:
        self.project: Optional[dict[str, Any]] = project
        self.project_path: Optional[str] = path
        self._undo_stack: list[dict[str, Any]] = []
        self._redo_stack: list[dict[str, Any]] = []
        self._modified = False

    def has_project(self) -> bool:
        """Whether a project is loaded."""
        return self.project is not None

    def get_project(self) -> dict[str, Any]:
        """The project; ``RuntimeError`` if none is loaded."""
        if self.project is None:
            noun = self.noun
            message = f"No {noun} loaded. Use '{noun} new' or '{noun} open' first."
            raise RuntimeError(message)
        return self.project

    def set_project(self, project: dict[str, Any], path: Optional[str] = None) -> None:
        """Loads another project. The history ends."""
        self.project = project
        self.project_path = path
        self._undo_stack.clear()
        self._redo_stack.clear()
        self._modified = False

    def snapshot(self, description: str = "") -> None:
        """Remembers the project as it is now, before a change."""
        if self.project is None:
            return
        self._undo_stack.append(self._state(description))
        del self._undo_stack[: -self.MAX_UNDO]
        self._redo_stack.clear()
        self._modified = True

    def _state(self, description: str) -> dict[str, Any]:
        return {
            "project": copy.deepcopy(self.project),
            "description": description,
            "timestamp": datetime.now().isoformat(),
        }

    def undo(self) -> Optional[str]:
        """Goes back one snapshot and returns its description; ``RuntimeError`` if there is none."""
        if not self._undo_stack:
            raise RuntimeError("Nothing to undo.")
        return self._step(self._undo_stack, self._redo_stack, "redo point")

    def redo(self) -> Optional[str]:
        """Takes an undo back; ``RuntimeError`` if there was none."""
        if not self._redo_stack:
            raise RuntimeError("Nothing to redo.")
        return self._step(self._redo_stack, self._undo_stack, "undo point")

    def _step(self, source: list[dict[str, Any]], other: list[dict[str, Any]], mark: str) -> str:
        if self.project is None:
            raise RuntimeError(f"No {self.noun} loaded.")
        other.append(self._state(mark))
        state = source.pop()
        self.project = state["project"]
        self._modified = True
        description: str = state["description"]
        return description

    def status(self) -> dict[str, Any]:
        """What is loaded, whether it is saved, and how many steps there are either way."""
        return {
            "has_project": self.project is not None,
            "project_path": self.project_path,
            "modified": self._modified,
            "undo_count": len(self._undo_stack),
            "redo_count": len(self._redo_stack),
            f"{self.noun}_name": self.project.get("name", "untitled") if self.project else None,
        }

    def save_session(self, path: Optional[str] = None) -> str:
        """Saves the project, with the time in ``metadata.modified``, and returns the path."""
        if self.project is None:
            raise RuntimeError(f"No {self.noun} to save.")
        target = path or self.project_path
        if not target:
            raise ValueError("No save path specified.")
        self.project.setdefault("metadata", {})["modified"] = datetime.now().isoformat()
        locked_save_json(target, self.project, indent=2, sort_keys=True, default=str)
        self.project_path = target
        self._modified = False
        return target

    def list_history(self) -> list[dict[str, Any]]:
        """What can be undone, the newest first."""
        return [
            {"index": index, "description": state["description"], "timestamp": state["timestamp"]}
            for index, state in enumerate(reversed(self._undo_stack))
        ]
