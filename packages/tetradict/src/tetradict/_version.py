"""The version of the installed library."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tetradict")
except PackageNotFoundError:  # sources on the path, nothing installed
    __version__ = "0.1.0+source"
