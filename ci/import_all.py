"""Import every module of one installed library, warnings as errors.

python -W error ci/import_all.py NAME

Run where only the library's declared dependencies are installed, it finds an undeclared one in whatever corner it is
imported. The one exception are files named for an optional dependency, such as `_nms_triton.py`: they import it by design.
"""

import importlib
import pkgutil
import re
import sys
from importlib.metadata import requires


def optional(name: str) -> tuple[str, ...]:
    """Endings of the modules that import what only an extra installs."""
    return tuple(
        f"_{re.match('[A-Za-z0-9-]+', r)[0].lower()}" for r in requires(name) or () if "extra ==" in r
    )


def main(name: str) -> None:
    """Import the library, then each module below it."""
    library, endings = importlib.import_module(name), optional(name)
    modules = [
        m.name for m in pkgutil.walk_packages(library.__path__, f"{name}.") if not m.name.endswith(endings)
    ]
    for module in modules:
        importlib.import_module(module)
    print(f"{name} {library.__version__}: {len(modules)} modules import")


if __name__ == "__main__":
    main(sys.argv[1])
