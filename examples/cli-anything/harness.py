"""A command-line harness: one short process per command, a project in a JSON file.

python harness.py --project demo.json add circle
python harness.py --project demo.json list
"""

import argparse
import json
import sys

try:
    import tenure
    from tenure.compat import Session, update_json
except ImportError as error:
    sys.exit(f"harness: {error}; pip install tenure, or ../../bindings/python of a checkout")


def add(arguments):
    """Adds a shape; any number of processes may do so at the same time."""

    def change(project):
        project["shapes"].append(arguments.shape)

    # Loaded, changed and saved under one lock.
    update_json(arguments.project, change, initial={"shapes": []}, indent=2, sort_keys=True)


def show(arguments):
    """Prints the shapes. Readers need no lock: the file is always whole."""
    with open(arguments.project, encoding="utf-8") as file:
        print("\n".join(json.load(file)["shapes"]))


def clear(arguments):
    """Empties the project in a session, and changes its mind if asked to."""
    with open(arguments.project, encoding="utf-8") as file:
        session = Session(json.load(file), arguments.project)
    session.snapshot("clear")
    session.project["shapes"] = []
    if arguments.undo:
        session.undo()
    session.save_session()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", required=True)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("add")
    command.add_argument("shape")
    command.set_defaults(act=add)
    commands.add_parser("list").set_defaults(act=show)
    command = commands.add_parser("clear")
    command.add_argument("--undo", action="store_true")
    command.set_defaults(act=clear)
    arguments = parser.parse_args()
    try:
        arguments.act(arguments)
    except (tenure.TenureError, OSError, KeyError, ValueError) as error:
        # No project yet, no right to read it, or a file that is no project.
        sys.exit(f"harness: {arguments.project}: {error}")


if __name__ == "__main__":
    main()
