"""The entry point of `ees-mpi`: the help pages, and the exit codes of errors.

Commands are listed in groups with whole sentences, and two examples stand under each. Only the module of the command
that is called is imported.
"""

import importlib
import sys
from typing import NoReturn

import click

from ees_mpi import __version__, machine, ranks
from ees_mpi.commands.requests import KEYS
from ees_mpi.errors import EesError, RunFileError, words_of
from ees_mpi.ranks.process import leave
from ees_mpi.registry.search import searching
from ees_mpi.registry.toml import ELSEWHERE
from ees_mpi.terminal import show_any_character

PRINTING = {"", "info", "config", "sweep", "presets", "docs", "metrics", "compare"}  # commands that only print
MODULES = ("running", "looking", "files")  # of commands
# The commands in the groups of `ees-mpi --help`, each with the examples at the end of its own help.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "Run": {
        "train": (
            "ees-mpi train interference-maxent --seed 1",
            "mpirun -n 4 ees-mpi train cheetah-maxent-authors-laptop --set population.std=0.05 -o run.h5 --resume",
        ),
        "resume": ("ees-mpi resume run.h5", "mpirun -n 4 ees-mpi resume run.h5 --generations 200 --max-hours 8"),
        "sample": (
            "ees-mpi sample run.h5 --count 1000",
            "mpirun -n 4 ees-mpi sample run.h5 --count 1000 --std 0.005 -o quarter.h5",
        ),
        "adapt": (
            "ees-mpi adapt run.h5 --direction left --policy left.npz",
            "mpirun -n 4 ees-mpi adapt run.h5 --direction 45deg --mutations 100 -o adapted.h5",
        ),
        "measure": (
            "ees-mpi measure policy.npz --std 0.01,0.02,0.05 --cell 0.1",
            "mpirun -n 4 ees-mpi measure ppo.pt --task gymnasium-cheetah-es --count 1000 -o ppo.h5",
        ),
    },
    "Look at a run": {
        "info": ("ees-mpi info run.h5", "ees-mpi info runs/*.h5 --sort -generations"),
        "report": ("ees-mpi report run.h5", "ees-mpi report a.h5 b.h5 c.h5 -o page.html"),
        "figure": (
            "ees-mpi figure --list",
            "ees-mpi figure plane a.h5 b.h5 -o ant.pdf",
        ),
        "replay": (
            "ees-mpi replay run.h5 --extremes 8 --video run.mp4",
            "ees-mpi replay run.h5 --mutations 16 --video run.gif",
        ),
    },
    "Numbers": {
        "metrics": ("ees-mpi metrics run.h5", "ees-mpi metrics run.h5 --all --json"),
        "compare": (
            "ees-mpi compare --metric distance_mean a*.h5 --against b*.h5",
            "ees-mpi compare --metric distance_mean --by population.std runs/*.h5",
        ),
        "signal": ("ees-mpi signal run.h5", "mpirun -n 4 ees-mpi signal run.h5 --every 10 --splits 4"),
        "export": ("ees-mpi export run.h5 --policy -o policy.npz", "ees-mpi export run.h5 --csv"),
    },
    "Check": {
        "verify": ("ees-mpi verify run.h5", "mpirun -n 4 ees-mpi verify run.h5 --updates"),
        "repair": ("ees-mpi repair run.h5", "ees-mpi repair runs/killed.h5"),
        "doctor": ("ees-mpi doctor", "mpirun -n 2 ees-mpi doctor"),
    },
    "Before a run": {
        "presets": ("ees-mpi presets", "ees-mpi presets interference-maxent >my.toml"),
        "config": ("ees-mpi config --keys", "ees-mpi config my.toml --set population.size=100"),
        "sweep": (
            "ees-mpi sweep cheetah-maxent --seeds 0-11 >list; xargs -P 4 -L 1 mpirun -n 2 <list",
            "ees-mpi sweep interference-maxent --set population.std=0.1,0.2 --seeds 0-5 | bash",
        ),
        "plan": ("ees-mpi plan my.toml", "ees-mpi plan ant-maxent --ranks 275 --ranks-per-node 40"),
        "jobs": ("ees-mpi jobs", "ees-mpi jobs --copy jobs"),
        "docs": ("ees-mpi docs", "ees-mpi docs tutorial"),
    },
}
EXAMPLES = {name: lines for group in GROUPS.values() for name, lines in group.items()}
MAX_HELP = 1000  # characters: no sentence is cut


class Commands(click.Group):
    """The group of all commands, listed by purpose."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, with examples at the end of its help; import modules until one has it."""
        for module in MODULES:
            if cmd_name in self.commands:
                break
            found = vars(importlib.import_module(f"ees_mpi.cli.{module}")).values()
            for command in (each for each in found if isinstance(each, click.Command)):
                command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[str(command.name)])])
                self.add_command(command)
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*EXAMPLES]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, group in GROUPS.items():
            found = {name: self.get_command(ctx, name) for name in group}
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(MAX_HELP)) for name, each in found.items() if each])


def keys_named(error: click.NoSuchOption) -> list[str]:
    """Return the keys of the config that an unknown option may mean, as options; only of a command that takes all."""
    name, context = error.option_name.strip("-").replace("-", "_"), error.ctx
    if not context or not any(getattr(option, "help", "") == KEYS for option in context.command.params):
        return []
    from ees_mpi.config.keys import sections

    keys = (key.key for section in sections() for key in section.keys)
    found = dict.fromkeys(key for key in keys if key.endswith(f".{name}") or key == ELSEWHERE.get(name))
    return [f"--set {key}=VALUE" for key in found]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ees-mpi")
@click.pass_context
def cli(context: click.Context) -> None:
    """Train networks whose random mutations do many different things (Evolvability ES), alone or under mpirun.

    Begin with `ees-mpi docs first_steps`, or with `ees-mpi presets`, which lists what can be trained.
    `ees-mpi COMMAND --help` has examples.

    The commands of Run, and `signal`, `verify` and `doctor`, work under mpirun, too.
    Exit codes: 0 done; 2 wrong command line or config; 3 the run file cannot be used; 75 a training was
    interrupted, `resume` continues it; any other code is a failure.
    """
    if context.invoked_subcommand not in ("train", "resume"):  # these two save their state first
        ranks.act_on_stops()


def main() -> NoReturn:
    """Run the command line; an error is printed once, by one rank."""
    if ranks.launched()[1] != 0 and _only_prints(sys.argv[1:]):
        sys.exit(0)
    machine.pin_threads()
    show_any_character()
    try:
        with searching():
            cli(prog_name="ees-mpi", standalone_mode=False)
    except click.ClickException as error:
        message = error.format_message()
        if isinstance(error, click.NoSuchOption) and (near := keys_named(error)):
            message = f"there is no option {error.option_name}; did you mean {' or '.join(near)}?"
        if not sys.argv[1:]:  # it is the help
            leave(message, error.exit_code, "")
        if context := getattr(error, "ctx", None):
            pause = "" if message.endswith((".", "?")) else ";"
            message = f"{message}{pause} `{context.command_path} --help` lists the options"
        leave(message, error.exit_code)
    except click.Abort:
        raise KeyboardInterrupt from None
    except EesError as error:
        leave(str(error), error.exit_code)
    except OSError as error:
        leave(words_of(error), RunFileError.exit_code)
    except MemoryError as error:
        leave(f"not enough memory: {error}", 1)
    finally:
        ranks.disarm()
    sys.exit(0)


def _only_prints(words: list[str]) -> bool:
    """Return whether a command only prints, which is for rank 0: each rank would print the same.

    Others run on all ranks: `srun bash -c 'ees-mpi report run$SLURM_PROCID.h5'` writes a file on each.
    """
    name = next((word for word in words if not word.startswith("-")), "")
    return name in PRINTING or bool({"-h", "--help", "--version"}.intersection(words))
