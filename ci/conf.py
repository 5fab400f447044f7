"""Sphinx settings of every member's docs; the environment variable TETRA_MEMBER says whose."""

import importlib
import os

project = os.environ["TETRA_MEMBER"]
release = importlib.import_module(project).__version__
author = "the tetra developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
]
html_theme = "furo"
html_title = f"{project} {release}"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_google_docstring = True
napoleon_custom_sections = [("Source", "notes_style")]
doctest_global_setup = f"import torch\nimport {project}\nfrom {project} import *"
doctest_default_flags = 0x8 | 0x4  # ELLIPSIS | NORMALIZE_WHITESPACE
