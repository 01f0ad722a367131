"""The command line: `python -m ewsg_jax run configs/quickstart.toml`, `python -m ewsg_jax reproduce --list`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ewsg_jax.experiments.config import MOST_SEED, ConfigError
from ewsg_jax.experiments.run import make_ready, run
from ewsg_jax.reproduction import command as papers

USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 2 for what cannot be run, 130 after an interrupt.

    Args:
        arguments: the words after the program's name. Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="ewsg_jax", description="Stochastic-gradient MCMC experiments.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    command = commands.add_parser("run", help="run the experiment that a TOML file describes")
    command.add_argument("config", type=Path, metavar="CONFIG", help="a TOML file, such as configs/quickstart.toml")
    command.add_argument("--output", type=Path, metavar="FOLDER", help="where results go (default: results/NAME)")
    command.add_argument("--seed", type=_seed, metavar="N", help="instead of the file's run.seed")
    papers.add_command(commands)
    chosen = parser.parse_args(arguments)
    if chosen.command == "reproduce":
        try:
            return papers.main(chosen)
        except (ImportError, OSError, ConfigError) as error:
            return _refuse(chosen.experiment, error)
        except KeyboardInterrupt:
            return INTERRUPTED
    try:
        ready = make_ready(chosen.config, chosen.output, chosen.seed)
    except (ImportError, OSError, TypeError, ValueError) as error:
        return _refuse(chosen.config, error)
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        return INTERRUPTED if run(ready, lambda text: print(text, flush=True)) else 0
    except (OSError, ConfigError) as error:
        return _refuse(chosen.config, error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _refuse(config: object, error: Exception) -> int:
    """Say in one line what is wrong."""
    print(f"ewsg_jax: error: {config}: {' '.join(str(error).split())}", file=sys.stderr)
    return USAGE_ERROR


def _seed(text: str) -> int:
    takes = f"must be a whole number from 0 to {MOST_SEED}"
    try:
        seed = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{takes}; got {text!r}") from None
    if not 0 <= seed <= MOST_SEED:
        raise argparse.ArgumentTypeError(f"{takes}; got {text}")
    return seed


if __name__ == "__main__":
    sys.exit(main())
