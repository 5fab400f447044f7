"""Run the Python examples of Markdown pages: each page's blocks in order, in one namespace and an empty folder.

python ci/examples.py README.md ...

A block with `>>>` is a doctest; any other is executed.
"""

import doctest
import os
import re
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_page(page: Path) -> int:
    """Run one page; return how many blocks it has."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text()
    for match in BLOCK.finditer(text):
        source, line = match.group(1), text[: match.start()].count("\n") + 1
        if ">>>" not in source:
            exec(compile("\n" * line + source, str(page), "exec"), namespace)
            continue
        test = doctest.DocTestParser().get_doctest(source, namespace, page.name, str(page), line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, clear_globs=False)
        namespace.update(test.globs)
        if runner.failures:
            sys.exit(f"{page}:{line}: {runner.failures} examples failed")
    return len(BLOCK.findall(text))


def main(pages: list[str]) -> None:
    """Run all pages."""
    for page in [Path(name).resolve() for name in pages]:
        with tempfile.TemporaryDirectory() as folder:
            here = Path.cwd()
            os.chdir(folder)
            try:
                print(f"{page.name} of {page.parent.name}: {run_page(page)} examples run")
            finally:
                os.chdir(here)


if __name__ == "__main__":
    main(sys.argv[1:])
