"""A collection in a folder of memory-mapped tensors, in the layout that tensordict reads and writes too.

A save is written under another name and then renamed, so that at every moment the folder holds the old collection or
the new one. A load checks what the files say of themselves and their sizes before it maps the first one, never
unpickles, and leaves the folder for no key and no link.
"""

from tetradict.io._read import load_folder
from tetradict.io._write import save_folder

__all__ = ["load_folder", "save_folder"]
