"""Collections in files: the folder of memory-mapped tensors."""

from tetradict.io.folder import load_folder, save_folder

__all__ = ["load_folder", "save_folder"]
