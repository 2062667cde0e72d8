"""The templates of the pages. Values are escaped unless they are marked as HTML."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent
_FRAMES = Environment(
    loader=FileSystemLoader(FOLDER, encoding="utf-8"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def rendered(name: str, **values: object) -> str:
    return _FRAMES.get_template(name).render(**values)
