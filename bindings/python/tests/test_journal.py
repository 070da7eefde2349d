"""The journal: whole batches, numbered, followed, compacted."""

import pickle
import threading
from pathlib import Path

import pytest
import tenure
from conftest import PATIENCE

APPEND = """
import sys, tenure
journal = tenure.Journal(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    journal.append([f"{sys.argv[2]} {number} {part}" for part in range(3)], no_sync=True, wait=None)
print("done", flush=True)
"""


@pytest.fixture
def journal(tmp_path):
    return tenure.Journal(tmp_path / "log.jsonl")


def test_batches_have_numbers_and_are_read_from_any(journal):
    assert list(journal.read()) == []
    appended = journal.append(["one", b"two \xff"])
    assert (appended.first, appended.last) == (1, 2)
    journal.append_json([{"a": [1, None]}, "x"])
    entries = list(journal.read(2, 2))
    assert [entry.seq for entry in entries] == [2, 3]
    assert entries[0].line == b"two \xff" and entries[0].text == "two \ufffd"
    assert entries[1].json() == {"a": [1, None]}
    assert journal.verify().sound and journal.verify().entries == 4
    assert pickle.loads(pickle.dumps(entries)) == entries
    assert pickle.loads(pickle.dumps(journal.verify())) == journal.verify()


def test_batches_of_processes_are_whole(journal, child):
    children = [child(APPEND, journal.path, name, 50) for name in "abcd"]
    victim = child(APPEND, journal.path, "v", 100000)
    for one in [*children, victim]:
        one.line()
    for one in [*children, victim]:
        one.tell()
    follow = journal.follow()
    assert follow.next(wait=PATIENCE)
    victim.kill()
    for one in children:
        assert one.line() == "done"
    journal.append(["end 0 0", "end 0 1", "end 0 2"])
    lines = [entry.text.split() for entry in journal.read()]
    for at in range(0, len(lines), 3):
        name, number, _ = lines[at]
        assert lines[at : at + 3] == [[name, number, part] for part in "012"]
    for name in "abcd":
        assert sum(line[0] == name for line in lines) == 150
    assert journal.verify().sound


def test_follow_resumes_by_number_across_a_rotation(journal, child):
    journal.append(["1", "2"])
    with journal.follow(2) as follow:
        assert follow.next(wait=PATIENCE).text == "2"
        assert follow.position == 3 and follow.next(wait=0) is None
        rotated = journal.rotate()
        assert rotated.next == 3 and rotated.archive
        writer = child(APPEND, journal.path, "w", 1)
        writer.line()
        writer.tell()
        assert next(follow).seq == 3
    with pytest.raises(tenure.InvalidError):
        follow.next(wait=0)


@pytest.mark.parametrize("kind", ["follow", "watch"])
def test_what_is_closed_while_a_thread_waits_stays_closed(journal, kind):
    news = journal.follow() if kind == "follow" else tenure.Document(journal.path).watch()
    cancel, ended = tenure.Cancel(), []

    def wait():
        while not ended:
            try:
                news.next(cancel=cancel)
            except tenure.CancelledError:
                ended.append("cancelled")
            except tenure.InvalidError:
                pass  # The look below has it just now.

    thread = threading.Thread(target=wait)
    thread.start()
    taken = False
    while not taken:  # Another thread has it: then a second one is refused.
        try:
            news.next(wait=0)
        except tenure.InvalidError:
            taken = True
    news.close()
    cancel.cancel()
    thread.join(PATIENCE)
    assert ended == ["cancelled"]
    with pytest.raises(tenure.InvalidError):
        news.next(wait=0)


def test_compact_keeps_what_is_wanted_and_a_raise_changes_nothing(journal):
    journal.append([str(number) for number in range(10)])
    before = Path(journal.path).read_bytes()

    def fail(entry):
        if entry.seq > 5:
            raise KeyError("stop")
        return False

    with pytest.raises(KeyError):
        journal.compact(fail)
    assert Path(journal.path).read_bytes() == before and journal.verify().sound
    done = journal.compact(lambda entry: entry.seq % 2)
    assert (done.kept, done.dropped) == (5, 5)
    assert [entry.seq for entry in journal.read()] == [1, 3, 5, 7, 9]
    assert journal.append(["next"]).first == 11 and journal.verify().sound


def test_headers_operations_and_json_lines(journal):
    journal.append(["a"], header="# v1", op_id="x")
    assert journal.append(["a"], op_id="x").replayed
    assert Path(journal.path).read_text() == "# v1\na\n"
    with pytest.raises(tenure.InvalidError):
        journal.append(["no json"], json=True)
    for wrong in (["a\nb"], [""], []):
        with pytest.raises(tenure.InvalidError):
            journal.append(wrong)
    for wrong in (5, None, [5], [None], {"a": 1}.items()):
        with pytest.raises(tenure.ArgumentError, match="a str or bytes"):
            journal.append(wrong)
    for wrong in (object(), [object()]):
        with pytest.raises(tenure.InvalidError):
            journal.append_json(wrong)


def test_one_line_alone_is_a_batch_of_one(journal):
    """Never its letters. The Node package does the same."""
    for line in ("text", b"bytes", bytearray(b"more")):
        assert journal.append(line).first == journal.append([line]).last - 1
    for value in ({"a": 1}, "text", 5, 1.5, True, None):
        assert journal.append_json(value).first == journal.append_json([value]).last - 1
    lines = [entry.text for entry in journal.read()]
    assert lines[::2] == lines[1::2]
    assert lines[::2] == ["text", "bytes", "more", '{"a":1}', '"text"', "5", "1.5", "true", "null"]
    assert journal.append(str(number) for number in range(3)).last == 21


def test_lines_of_others_are_adopted_and_a_torn_tail_is_closed(journal):
    journal.append(["ours"])
    with open(journal.path, "a") as file:
        file.write("theirs\ntorn")
    appended = journal.append(["again"])
    assert appended.adopted == 1 and appended.closed_tail
    # The open line is complete only with the newline of the batch, so its number comes behind.
    assert [entry.text for entry in journal.read()] == ["ours", "theirs", "again", "torn"]
    assert journal.repair().sound


def texts(entries):
    return [entry.text for entry in entries]


def test_lines_of_other_tools_are_pending_until_they_have_a_number(journal):
    assert journal.pending() == []
    journal.append("ours")
    with open(journal.path, "ab") as file:
        file.write(b"theirs\n\xff")
    assert journal.pending() == [b"theirs", b"\xff"]
    assert journal.verify().unadopted == 1 and texts(journal.read()) == ["ours"]
    # A follower that may write numbers them.
    follow = journal.follow(2)
    assert follow.next(wait=0).text == "theirs"
    assert journal.pending() == [b"\xff"]


@pytest.fixture
def gapped(journal):
    """Two entries in an archive, two that were cut off, and one behind."""
    journal.append(["1", "2"])
    journal.rotate()
    journal.append(["3", "4"])
    Path(journal.path).write_bytes(b"")
    journal.append("5")
    return journal


def test_a_gap_is_raised_and_the_iterator_goes_on(gapped):
    entries, seen = gapped.read(), []
    with pytest.raises(tenure.JournalGapError) as raised:
        for entry in entries:
            seen.append(entry.text)
    gap = raised.value
    assert (gap.first, gap.last, gap.code) == (3, 4, "damaged")
    assert isinstance(gap, tenure.DamagedError)
    again = pickle.loads(pickle.dumps(gap))
    assert (again.first, again.last, str(again)) == (3, 4, str(gap))
    assert seen + texts(entries) == ["1", "2", "5"]
    follow = gapped.follow(2)
    assert follow.next(wait=0).text == "2"
    with pytest.raises(tenure.JournalGapError):
        follow.next(wait=0)
    assert follow.next(wait=0).text == "5" and follow.position == 6
    assert gapped.verify().lost == [(3, 4)] and gapped.verify().archives == 1


def test_on_gap_is_called_and_reading_goes_on(gapped):
    gaps = []
    note = lambda gap: gaps.append((gap.first, gap.last))  # noqa: E731
    assert texts(gapped.read(on_gap=note)) == ["1", "2", "5"]
    with gapped.follow(on_gap=note) as follow:
        assert [follow.next(wait=0).text for _ in range(3)] == ["1", "2", "5"]
    assert gaps == [(3, 4)] * 2

    def fail(gap):
        raise KeyError(gap.first)

    with pytest.raises(KeyError):
        list(gapped.read(on_gap=fail))
    with pytest.raises(tenure.ArgumentError, match="on_gap"):
        gapped.read(on_gap=5)


def test_without_a_number_the_first_entry_is_the_oldest_that_is_there(journal):
    journal.append(["1", "2"])
    Path(journal.rotate().archive).unlink()
    journal.append("3")
    assert texts(journal.read()) == ["3"] and journal.follow().next(wait=0).text == "3"
    with pytest.raises(tenure.JournalGapError, match="entries 1 to 2 are gone"):
        list(journal.read(1))


def test_damage_is_an_error_for_readers_too_and_names_the_archive(journal):
    journal.append(["aaaa", "bbbb"])
    archive = journal.rotate().archive
    journal.append("cccc")
    Path(archive).write_bytes(b"aaaa\nbxbb\n")
    for read in (lambda: list(journal.read()), lambda: journal.follow().next(wait=0)):
        with pytest.raises(tenure.DamagedError) as raised:
            read()
        assert raised.value.path == archive
        assert not isinstance(raised.value, tenure.JournalGapError)
    report = journal.verify()
    assert not report.sound and [damage.file for damage in report.damaged] == [archive]


def test_an_edited_line_is_accepted_when_asked(journal):
    journal.append(["aaaa", "bbbb"])
    done = journal.compact(lambda entry: True)
    assert Path(done.replaced).read_text() == "aaaa\nbbbb\n"
    Path(journal.path).write_bytes(b"aaaa\nbxbb\n")
    assert not journal.repair().sound
    report = journal.repair(accept=True)
    assert report.sound and len(report.set_aside) == 1
    assert Path(report.quarantine).read_text() == "aaaa\nbxbb\n"
    assert texts(journal.read()) == ["aaaa", "bxbb"] and journal.append("c").first == 3
