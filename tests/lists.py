"""Lists that are kept in a folder, one module for each subject."""

import importlib
import pkgutil


def modules_of(package):
    """Every module of the package, in the order of their names, without its tests."""
    names = [found.name for found in pkgutil.iter_modules(package.__path__)]
    chosen = [name for name in names if not name.startswith("test_")]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in chosen]
