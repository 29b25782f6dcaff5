"""A short run of random command lines; what once failed is below."""

import pytest

from fuzz import commands


def test_random_command_lines_answer_or_fail_with_a_message(monkeypatch):
    monkeypatch.setattr(commands, "AS_PROCESSES", 0)
    tally = commands.run(60, random_state=4)
    assert not tally.failures, tally.examples
    assert tally.answered
    assert tally.refused


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "é" * 300, "model"],
        ["reproduce", "--datasets", "é" * 300, "--output", "out"],
        ["recommend", "log.csv", "--all", "--output", "a\nb"],
    ],
)
def test_earlier_failures_are_one_line_errors(cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{user},{item},{item}\n" for user in range(9) for item in range(9))
    (tmp_path / "log.csv").write_text("user,item,time\n" + rows)
    done = cli(*words)
    done.assert_refused()
    assert done.err.count("\n") == 1, done.err
