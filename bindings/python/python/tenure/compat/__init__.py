"""Drop-ins for other packages: change an import, keep the code.

``tenure.compat.filelock`` stands in for the filelock package, ``tenure.compat.locked_save_json`` for the
function of that name in command-line harnesses.
"""

from .json_files import Session, locked_save_json, update_json

__all__ = ["Session", "locked_save_json", "update_json"]
