"""Drop-ins for other packages: change an import, keep the code.

``tenure.compat.filelock`` stands in for the filelock package, ``tenure.compat.locked_save_json`` and ``Session`` for
the function and the class of that name in command-line harnesses.
"""

from .json_files import locked_save_json, update_json
from .session import Session

__all__ = ["Session", "locked_save_json", "update_json"]
