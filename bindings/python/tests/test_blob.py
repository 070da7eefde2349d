"""Files that are not JSON."""

import asyncio

import pytest
import tenure
from tenure import aio


def test_a_file_is_replaced_as_a_whole_to_the_byte(tmp_path):
    path = tmp_path / "main.rs"
    file = tenure.Blob(path)
    assert file.path == str(path) and file.get() is None and file.version() is None
    content = bytes([0, 255, 10, 13, 128])
    written = file.put(content)
    assert written.changed and path.read_bytes() == content
    found = file.get()
    assert (found.bytes, found.version) == (content, written.version) and file.version() == written.version
    assert not file.put(content).changed
    file.put("text\n")
    assert path.read_text() == "text\n"


def test_a_replacement_is_guarded_by_a_version_and_by_fences(tmp_path):
    file = tenure.Blob(tmp_path / "a.txt")
    version = file.put("1").version
    file.put("2", if_version=version)
    with pytest.raises(tenure.ConflictError):
        file.put("3", if_version=version)
    with tenure.lock(tmp_path / "session") as guard:
        proof = {guard.path: guard.fence}
        file.put("4", guard=proof)
    with pytest.raises(tenure.FencedError):
        file.put("5", guard=proof)
    assert file.get().bytes == b"4"


def test_an_undo_publishes_the_content_from_before_and_a_second_one_redoes(tmp_path):
    file = tenure.Blob(tmp_path / "a.txt")
    with pytest.raises(tenure.NotFoundError):
        file.undo()
    file.put("1")
    file.put("2")
    file.undo()
    assert file.get().bytes == b"1"
    file.undo()
    assert file.get().bytes == b"2"


def test_a_file_for_asyncio(tmp_path):
    async def main():
        file = aio.Blob(tmp_path / "a.txt")
        await file.put("1")
        written = await file.put(b"2")
        assert await file.version() == written.version
        await file.undo()
        assert (await file.get()).bytes == b"1"

    asyncio.run(main())


def test_wrong_arguments_are_refused(tmp_path):
    file = tenure.Blob(tmp_path / "a.txt")
    for content in (None, 5, ["x"], "\ud800"):
        with pytest.raises(tenure.ArgumentError):
            file.put(content)
    with pytest.raises(tenure.ArgumentError):
        file.put("x", no_sync=True)
    assert file.get() is None
