"""Import every module of one installed library, warnings as errors.

python -W error ci/import_all.py NAME

Run where only the library's declared dependencies are installed, it finds an undeclared one in whatever corner it is
imported. Files named `_X_triton.py` are the one exception: they need the optional triton by design.
"""

import importlib
import pkgutil
import sys


def main(name: str) -> None:
    """Import the library, then each module below it."""
    library = importlib.import_module(name)
    names = [
        m.name for m in pkgutil.walk_packages(library.__path__, f"{name}.") if not m.name.endswith("_triton")
    ]
    for module in names:
        importlib.import_module(module)
    print(f"{name} {library.__version__}: {len(names)} modules import")


if __name__ == "__main__":
    main(sys.argv[1])
