"""Numbers and values between JSON and Python: exact, or refused."""

import decimal
import enum
import math

import pytest
import tenure


@pytest.fixture
def file(tmp_path):
    class File:
        path = tmp_path / "n.json"

        def write(self, text):
            self.path.write_text(text)
            return tenure.Document(self.path)

        def text(self):
            return self.path.read_text().strip()

    return File()


HUGE = 10**5000 + 7


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, -(2**64), 10**40, HUGE, -HUGE], ids=lambda number: f"{number.bit_length()}-bits")
def test_integers_of_any_size_are_exact(file, number):
    document = tenure.Document(file.path)
    document.set([number])
    assert document.read().value == [number]
    assert document.update(lambda value: [value[0] + 1]).changed
    assert document.read().value == [number + 1]


@pytest.mark.parametrize("number", [0.1, -0.0, 1e300, 5e-324, 1.7976931348623157e308, math.pi])
def test_floats_are_exact(file, number):
    document = tenure.Document(file.path)
    document.set([number])
    (found,) = document.read().value
    assert found == number and math.copysign(1, found) == math.copysign(1, number)


DAMAGED = ["0.1234567890123456789", "1e400", "1E-400", "9007199254740993.0", "-123456789.123456789012"]


@pytest.mark.parametrize("text", DAMAGED)
def test_numbers_that_a_float_cannot_hold_are_refused_unless_asked(file, text):
    document = file.write(f'{{"x": {text}, "n": 1}}')
    for use in (document.read, lambda: document.update(lambda value: value)):
        with pytest.raises(tenure.InvalidError, match="decimal"):
            use()
    assert file.text() == f'{{"x": {text}, "n": 1}}'
    exact = tenure.Document(file.path, numbers="decimal")
    assert exact.read().value["x"] == decimal.Decimal(text)
    exact.update(lambda value: value.update(n=2))
    assert text in file.text()


@pytest.mark.parametrize("text", ["0.1234567890123456789", "9007199254740993.0"])
def test_asked_for_floats_round_only_what_python_sees(file, text):
    file.write(f'{{"x": {text}, "n": 1}}')
    document = tenure.Document(file.path, numbers="float")
    assert document.read().value["x"] == float(text)
    document.update(lambda value: value.update(n=2))
    assert file.text() == f'{{"x": {text}, "n": 2}}'
    document.update(lambda value: value.update(x=value["x"] * 2))
    assert repr(float(text) * 2) in file.text()


@pytest.mark.parametrize("text", ["1.50", "1E5", "1e-7", "100.0", "0.10", "-0.0", "2e+3"])
def test_who_changes_one_number_keeps_the_digits_of_the_others(file, text):
    document = file.write(f'{{"x": [{text}], "n": 1}}')
    document.update(lambda value: value.update(n=2))
    assert file.text() == f'{{"x": [{text}], "n": 2}}'


def test_a_changed_decimal_is_a_change_even_where_a_float_sees_none(file):
    file.write("[0.10]")
    document = tenure.Document(file.path, numbers="decimal")
    document.update(lambda value: [value[0] + decimal.Decimal("1e-20")])
    assert document.read().value == [decimal.Decimal("0.10000000000000000001")]


def test_an_integer_is_no_float(file):
    document = file.write("[1.0, 1]")
    one, other = document.read().value
    assert isinstance(one, float) and isinstance(other, int)
    document.update(lambda value: [1, 1.0])
    assert [type(number) for number in document.read().value] == [int, float]


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


def test_relatives_of_plain_types_are_written_as_those(file):
    document = tenure.Document(file.path)
    document.set((Colour.RED, Text("x"), True, {Text("k"): (1, 2)}))
    assert document.read().value == [1, "x", True, {"k": [1, 2]}]


CYCLE: list = []
CYCLE.append(CYCLE)
DEEP: list = []
for _ in range(500):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value, where",
    [
        (math.nan, "NaN"),
        ([1, {"a/b": math.inf}], "/1/a~1b"),
        (decimal.Decimal("NaN"), "NaN"),
        ({1: 2}, "key"),
        ({None: 2}, "key"),
        ({"a": {3: 4}}, "`/a`"),
        ([{1, 2}], "set"),
        (object(), "object"),
        (b"bytes", "bytes"),
        ("\ud800", "surrogates"),
        ({"\udfff": 1}, "surrogates"),
        (CYCLE, "contains itself"),
        (DEEP, "127"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(file, value, where):
    document = tenure.Document(file.path)
    document.set([0])
    for use in (document.set, lambda value: document.update(lambda _: value), document.merge):
        with pytest.raises(tenure.InvalidError) as caught:
            use(value)
        assert where in str(caught.value) and isinstance(caught.value, ValueError)
    assert document.read().value == [0]
