"""The report's page: sections of prose, figures and pictures, in one file that needs no network."""

from __future__ import annotations

import base64
import inspect
import io
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
from jinja2 import Environment

mpl.use("Agg")
mpl.rcParams.update({
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#3d4450",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8ec",
    "xtick.color": "#3d4450",
    "ytick.color": "#3d4450",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.prop_cycle": mpl.cycler(color=["#2f6fde", "#e07a2f", "#2a9d72", "#b0489c", "#7a8699"]),
})
from matplotlib import pyplot as plt  # noqa: E402  (after the backend is chosen)
from PIL import Image  # noqa: E402

TEMPLATE = Path(__file__).with_name("page.html")


@dataclass
class Section:
    """One part of the report: what was done, with what, on what data, what came out, and the code that did it."""

    title: str
    library: str
    what: str
    data: str
    code: str = ""
    results: list[tuple[str, str]] = field(default_factory=list)  # a figure and what it is
    figures: list[tuple[str, str]] = field(default_factory=list)  # markup and caption
    missing: str = ""  # why the section is empty
    seconds: float = 0.0

    @property
    def anchor(self) -> str:
        """The section's name in a link."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def shown_code(module: ModuleType) -> str:
    """The lines of a module between `# shown` and `# end`: what the page shows is what ran."""
    parts = re.findall(r"^ *# shown\n(.*?)^ *# end$", inspect.getsource(module), re.DOTALL | re.MULTILINE)
    return "\n".join(textwrap.dedent(part).rstrip() for part in parts)


def svg(figure: plt.Figure) -> str:
    """A figure as inline SVG without fixed size, so that it fits a phone."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(
        r'(<svg[^>]*?) width="[^"]*" height="[^"]*"|(<svg[^>]*?) height="[^"]*"', r"\1\2", text, count=1
    )


def picture(array: object, *, alt: str, width: int | None = None) -> str:
    """An ``[H, W, 3]`` uint8 array as an inline PNG; pixels stay sharp when enlarged."""
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG", optimize=True)
    size = f' style="width:{width}px"' if width else ""
    return f'<img alt="{alt}"{size} src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}">'


def photo(array: object, *, alt: str) -> str:
    """An ``[H, W, 3]`` uint8 photograph as an inline JPEG."""
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="JPEG", quality=82)
    return f'<img alt="{alt}" src="data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}">'


def render(sections: list[Section], about: dict[str, str]) -> str:
    """The whole page."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text()).render(sections=sections, about=about)
