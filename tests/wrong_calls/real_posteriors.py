"""Wrong calls of the data sets of the real posteriors, Pima among them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import ewsg_jax as ewsg
from tests.wrong_calls.table import T, V, of, row

CAPITALS = "different capital letters from A to Z"


def loaded(folder, name, load):
    """Load a data set from a file of something else; EWSG_JAX_DATA points to the folder."""
    (folder / name).write_bytes(b"none")
    return load()


def broken(name, holds, load):
    """A row for a file that cannot be read."""
    return row(
        V,
        f"{name} | cannot be read | must hold {holds}",
        lambda folder: loaded(folder, name, load),
    )


of(
    "datasets.heart",
    broken("heart.npz", "Statlog heart", ewsg.datasets.heart),
    broken("heart.dat", "Statlog heart", ewsg.datasets.heart),
)
of(
    "datasets.letter",
    broken("letter.npz", "letter recognition", ewsg.datasets.letter),
    broken("letter-recognition.data", "letter recognition", ewsg.datasets.letter),
    row(T, f"letters | 3 (int) | {CAPITALS}", lambda: ewsg.datasets.letter(letters=3)),
    row(V, f"letters | got '' | {CAPITALS}", lambda: ewsg.datasets.letter(letters="")),
    row(V, f"letters | 'ABA' | {CAPITALS}", lambda: ewsg.datasets.letter(letters="ABA")),
    row(V, f"letters | 'ab' | {CAPITALS}", lambda: ewsg.datasets.letter(letters="ab")),
)


def pima(folder):
    """Load Pima from a file of something else; EWSG_JAX_DATA points to the folder."""
    (folder / "pima.npz").write_bytes(b"none")
    return ewsg.datasets.pima()


of(
    "datasets.pima",
    row(V, "pima.npz | cannot be read | must hold Pima", lambda folder: pima(folder)),
)
