"""Changes with a result, the mapping view, and what is said of a call that means something else."""

import ast
import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tenure
from conftest import PATIENCE, ROOT
from tenure import _tenure, aio, types
from tenure.compat import update_json

QUEUE = {"queue": [1, 2, 3], "done": 0}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.json"
    tenure.Document(path).set(QUEUE)
    return path


def now(path):
    return json.loads(path.read_text())


def test_a_function_that_changes_its_argument_and_returns_something_else_is_an_error(path, tmp_path):
    document = tenure.Document(path)
    with pytest.raises(tenure.InvalidError, match="transaction"):
        document.update(lambda value: value["queue"].pop(0))
    with pytest.raises(tenure.InvalidError):
        tenure.update_and_append(document, lambda value: value["queue"].pop(0), tenure.Journal(tmp_path / "j"), "x")
    with pytest.raises(tenure.InvalidError):
        tenure.Document(tmp_path / "new").update(lambda value: value.append(1) or 5, init=[])
    with pytest.raises(tenure.InvalidError):
        asyncio.run(aio.Document(path).update(lambda value: value["queue"].pop(0)))
    with pytest.raises(tenure.InvalidError):
        update_json(path, lambda value: value["queue"].pop(0))
    assert now(path) == QUEUE and not (tmp_path / "j").exists() and not (tmp_path / "new").exists()


def test_a_new_value_or_the_changed_one_is_no_error(path):
    document = tenure.Document(path)

    def same(value):
        value["done"] += 1
        return value

    def copy(value):
        value["done"] += 1
        return dict(value)

    for function in (same, copy, lambda value: {**value, "done": value["done"] + 1}):
        document.update(function)
        update_json(path, function)
    assert now(path)["done"] == 6
    document.update(lambda value: 5)
    assert now(path) == 5


def test_a_transaction_has_a_result_and_is_saved_at_its_end(path):
    document = tenure.Document(path)
    with document.transaction(label="take") as value:
        job = value["queue"].pop(0)
        assert now(path) == QUEUE
        with pytest.raises(tenure.DeadlockError):
            document.set({})
    assert job == 1 and now(path)["queue"] == [2, 3]
    with pytest.raises(KeyError):
        with document.transaction() as value:
            value["queue"].clear()
            raise KeyError
    assert now(path)["queue"] == [2, 3]
    with pytest.raises(tenure.NotFoundError):
        with tenure.Document(path.with_name("none")).transaction():
            pass
    with tenure.Document(path.with_name("new")).transaction(init=[]) as value:
        value.append(1)
    assert now(path.with_name("new")) == [1]
    tenure.Document(path.with_name("number")).set(5)
    with pytest.raises(tenure.InvalidError, match="update"):
        with tenure.Document(path.with_name("number")).transaction():
            pass


def test_a_transaction_keeps_what_it_does_not_touch(path):
    path.write_text('{"big": 0.1234567890123456789,  "n": 1}\n')
    with tenure.Document(path, numbers="float").transaction() as value:
        value["n"] = 2
    assert path.read_text() == '{"big": 0.1234567890123456789,  "n": 2}\n'


def test_a_file_that_others_replace_during_a_transaction_is_a_conflict(path):
    with pytest.raises(tenure.ConflictError):
        with tenure.Document(path).transaction() as value:
            path.write_text('{"of": "others"}')
            value["done"] = 1
    assert now(path) == {"of": "others"}
    with tenure.lock(path):
        pass


def test_transactions_of_threads_and_tasks_lose_nothing(path):
    def work():
        for _ in range(20):
            with tenure.Document(path).transaction() as value:
                value["done"] += 1

    async def main():
        async def task():
            for _ in range(20):
                async with aio.Document(path).transaction() as value:
                    value["done"] += 1
                    await asyncio.sleep(0)

        await asyncio.gather(task(), task())
        with pytest.raises(KeyError):
            async with aio.Document(path).transaction() as value:
                value.clear()
                raise KeyError
        async with aio.Document(path.with_name("new")).transaction(init={}, wait=5) as value:
            value["n"] = 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join(PATIENCE)
    assert now(path)["done"] == 80 and now(path.with_name("new")) == {"n": 1}


def test_a_mapping_view(tmp_path):
    path = tmp_path / "cache.json"
    cache = tenure.Document(path).mapping(no_sync=True)
    assert len(cache) == 0 and "a" not in cache and cache.get("a", 5) == 5 and not path.exists()
    with pytest.raises(KeyError):
        cache["a"]
    cache["a"] = [1]
    cache.update({"b": 2}, c=3)
    assert dict(cache) == {"a": [1], "b": 2, "c": 3} == now(path) and list(cache) == ["a", "b", "c"]
    assert cache.pop("b") == 2 and cache.pop("b", None) is None and cache.setdefault("a", 7) == [1]
    assert cache.setdefault("d", 4) == 4
    del cache["d"]
    for call in (lambda: cache.pop("x"), lambda: cache.__delitem__("x")):
        with pytest.raises(KeyError):
            call()
    assert cache.popitem() == ("c", 3)
    with cache.transaction() as value:
        value["a"].append(2)
    assert cache == {"a": [1, 2]} and "cache.json" in repr(cache)
    cache.clear()
    assert now(path) == {}
    tenure.Document(path).set([1])
    with pytest.raises(tenure.InvalidError):
        len(cache)
    with pytest.raises(tenure.InvalidError):
        cache["a"] = 1


def test_an_unknown_option_is_answered_with_the_one_meant(path):
    document = tenure.Document(path)
    calls = [
        (lambda: tenure.lock(path, timeout=5), "'timeout'", "'wait'"),
        (lambda: tenure.lock(path, lable="x"), "'lable'", "'label'"),
        (lambda: document.set({}, sync=False), "'sync'", "'no_sync'"),
        (lambda: document.update(lambda value: None, default={}), "'default'", "'init'"),
        (lambda: document.set({}, version="x"), "'version'", "'if_version'"),
        (lambda: document.set({}, idempotency_key="x"), "'idempotency_key'", "'op_id'"),
        (lambda: document.transaction(timeout=5).__enter__(), "'timeout'", "'wait'"),
        (lambda: asyncio.run(aio.Document(path).set({}, timeout=5)), "'timeout'", "'wait'"),
    ]
    for call, given, meant in calls:
        with pytest.raises(tenure.ArgumentError) as caught:
            call()
        assert given in str(caught.value) and f"did you mean {meant}" in str(caught.value)
    with pytest.raises(tenure.ArgumentError) as caught:
        tenure.lock(path, quux=1)
    assert "did you mean" not in str(caught.value) and "wait" in str(caught.value)


def test_a_mapping_and_a_transaction_take_no_op_id(path):
    document = tenure.Document(path)
    # The second save would be taken for a repetition of the first, and dropped.
    calls = [
        lambda: document.mapping(op_id="x"),
        lambda: document.transaction(op_id="x"),
        lambda: aio.Document(path).transaction(op_id="x"),
    ]
    for call in calls:
        with pytest.raises(tenure.ArgumentError, match="no 'op_id'.*use update"):
            call()
    cache = document.mapping(op_id=None, label="l")
    cache["a"], cache["b"] = 1, 2
    transaction = document.transaction()
    for _ in range(2):
        with transaction as value:
            value["done"] += 1
    assert now(path) == {**QUEUE, "done": 2, "a": 1, "b": 2}


def stub():
    """The public functions and methods as an editor sees them, with what they are in the module."""
    tree = ast.parse((Path(tenure.__file__).parent / "_tenure.pyi").read_text())
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        thing = getattr(_tenure, node.name)
        yield node.name, node, thing
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                yield f"{node.name}.{part.name}", part, getattr(thing, part.name)


def test_an_editor_shows_what_help_shows():
    seen = 0
    for name, node, thing in stub():
        assert thing.__doc__, name
        assert ast.get_docstring(node) == inspect.cleandoc(thing.__doc__), name
        seen += 1
    assert seen > 150


def test_help_lists_the_options():
    seen = set()
    for name, node, thing in stub():
        given = isinstance(node, ast.FunctionDef) and node.args.kwarg
        if not given:
            continue
        kind = getattr(types, re.fullmatch(r"Unpack\[(\w+)\]", ast.unparse(given.annotation))[1])
        wanted = {option for base in (*kind.__mro__, kind) for option in getattr(base, "__annotations__", {})}
        if name == "Document.compare_and_set":
            wanted.remove("if_version")  # It is the first argument.
        missing = [option for option in sorted(wanted) if f"`{option}`" not in thing.__doc__]
        assert not missing, (name, missing)
        seen.add(name)
    assert {"lock", "Document.patch", "Document.mapping", "Journal.rotate", "Queue.next", "update_and_append"} < seen


def examples(text):
    """The programs in the text of a document."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


def test_the_examples_of_the_main_readme_run_and_pass_mypy(tmp_path):
    blocks = examples((ROOT / "README.md").read_text())
    assert blocks
    for number, block in enumerate(blocks):
        program = tmp_path / f"example{number}.py"
        program.write_text(block)
        subprocess.run([sys.executable, program], cwd=tmp_path, check=True, timeout=PATIENCE)
    passes_mypy(tmp_path)


def test_the_examples_of_the_readme_pass_mypy(tmp_path):
    blocks = examples((Path(__file__).parents[1] / "README.md").read_text())
    assert len(blocks) > 8
    for number, block in enumerate(blocks):
        body = "\n".join("    " + line for line in block.splitlines())
        head = "import tenure\nfrom tenure import aio\nfrom tenure.compat import *\nlog = tenure.Journal('x')\nstate = tenure.Document('x')\n"
        if "async " in block or "await " in block:
            imports = [line for line in block.splitlines() if line.startswith(("import", "from"))]
            rest = "\n".join("    " + line for line in block.splitlines() if line not in imports)
            text = head + "\n".join(imports) + "\nasync def main() -> None:\n" + rest + "\n"
        else:
            text = head + block
        (tmp_path / f"example{number}.py").write_text(text)
    passes_mypy(tmp_path)


def passes_mypy(dir):
    command = [sys.executable, "-m", "mypy", "--strict", "--disable-error-code=no-redef", "."]
    package = Path(tenure.__file__).parent.parent
    environment = {**os.environ, "MYPYPATH": str(package)}
    done = subprocess.run(command, cwd=dir, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
