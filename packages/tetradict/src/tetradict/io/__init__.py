"""Collections in files: the folder of memory-mapped tensors, and one safetensors file."""

from tetradict.io._onefile import load_file, save_file, verify
from tetradict.io.folder import load_folder, save_folder

__all__ = ["load_file", "load_folder", "save_file", "save_folder", "verify"]
