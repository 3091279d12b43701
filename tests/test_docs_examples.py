"""The pages inside the program: `ees-mpi docs` prints them, and their examples work as they are written, in small."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click
import pytest
from support.program import CHECKOUT, done, ees, needs_results, sets

from ees_mpi.cli import files, looking, running
from ees_mpi.cli.files import pages
from ees_mpi.cli.main import EXAMPLES, GROUPS, cli

DOCS = CHECKOUT / "ees_mpi" / "docs"
SHORT = sets("run.generations=4", "run.fsync=false")  # keys that are in no default file name
SMALL = sets("population.size=20")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each `ees-mpi` command in a text, without mpirun, comments and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        found = re.match(r"\s*(?:mpirun -n \d+ )?ees-mpi (.*)", line)
        if found:
            yield shlex.split(re.split(r" [>|&]", found[1])[0], comments=True)


def parse(words: list[str]) -> None:
    """Read a command line as the program does, and do nothing."""
    with mock.patch.dict(os.environ), click.Context(cli) as context:
        command = cli.get_command(context, words[0])
        assert command, words
        command.make_context(words[0], words[1:])


def short(words: list[str]) -> list[str]:
    """Make a command of the docs quick: few individuals, few generations."""
    numbers = {"--generations": "6", "--count": "20", "--starts": "2"} | (
        {"--generation": "3"} if "59" in words else {}
    )
    words = [numbers.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    if words[0] != "train":
        return words
    return [*words, *SHORT, *(SMALL if "-o" in words else [])]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_figures", "quick_noise")
@pytest.mark.parametrize(
    ("topic", "made"),
    [("first_steps", {".h5", ".png", ".html"}), ("tutorial", {".h5", ".png", ".html"}), ("own_environment", {".png"})],
)
def test_the_examples_of_a_page_work_in_order(
    topic: str, made: set[str], inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(inside)  # as for a program in this folder
    monkeypatch.delenv("EES_MPI_TRUST")
    found = re.findall(r"^```(\w+)\n(.*?)^```", (DOCS / f"{topic}.md").read_text(), re.M | re.S)
    assert len(found) >= 5
    for language, text in found:
        named = re.match(r"# (\w+\.(?:py|toml))\n", text)
        if named:
            Path(named[1]).write_text(text)
        elif language == "python":
            exec(compile(text, topic, "exec"), {})
            assert len(capsys.readouterr().out.split()) >= 2
        else:
            assert language == "sh" and "ees-mpi" in text
            for words in commands(text):
                done(*short(words))
    assert {path.suffix for path in inside.iterdir()} >= made


TEXTS = {
    "README.md": (CHECKOUT / "README.md").read_text(),
    "jobs/README.md": (CHECKOUT / "jobs" / "README.md").read_text(),
    **pages(),
    **{f"help of {name}": "\n".join(lines) for name, lines in EXAMPLES.items()},
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_in_a_text_has_options_that_exist(name: str) -> None:
    for words in commands(TEXTS[name]):
        parse(words)


def test_a_command_with_a_wrong_option_would_be_found() -> None:
    assert list(commands("    mpirun -n 2 ees-mpi train x --seed 3 >log &  # why")) == [["train", "x", "--seed", "3"]]
    with pytest.raises(click.UsageError, match="--sede"):
        parse(["train", "x", "--sede", "3"])


def test_every_command_is_in_a_group_of_the_help_has_examples_of_itself_and_names_pages_that_exist() -> None:
    made = [
        each.name
        for part in (running, looking, files)
        for each in vars(part).values()
        if isinstance(each, click.Command)
    ]
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(map(str, made))
    lines = ees("--help").stdout.splitlines()
    assert len(lines) <= 50 and max(map(len, lines)) <= 80
    for name in EXAMPLES:
        text = ees(name, "--help").stdout
        assert set(re.findall(r"`ees-mpi docs (\w+)`", " ".join(text.split()))) <= set(pages())
        assert [words[0] for words in commands("\n".join(EXAMPLES[name]))] == [name] * 2


def test_docs_lists_all_pages_and_prints_each() -> None:
    lines = done("docs").stdout.splitlines()[:-2]
    topics = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(topics) == sorted(path.stem for path in DOCS.glob("*.md"))
    assert done("docs", "first-steps").stdout == (DOCS / "first_steps.md").read_text()


@needs_results
@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "jobs/README.md"),
        *(f"ees_mpi/docs/{path.name}" for path in sorted(DOCS.glob("*.md"))),
    ],
)
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    text = (CHECKOUT / page).read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (CHECKOUT / page).parent.joinpath(target).exists(), target
    for topic in re.findall(r"`(?:ees-mpi )?docs ([a-z_]+)`", text):
        assert topic in {path.stem for path in DOCS.glob("*.md")}, topic
