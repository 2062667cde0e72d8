"""A page of the site on a telephone: what a reader could not see or would have to scroll sideways for."""

from __future__ import annotations

from pathlib import Path

from tests.documents.browser import Complaints
from tests.documents.lab_page import GOOD

PHONE = {"width": 390, "height": 844}

LOOK = f"""async () => {{
  {GOOD}
  const pictures = picturesIn(document);
  const beyond = [...document.body.querySelectorAll('*')]
    .find((el) => el.getBoundingClientRect().right > innerWidth + 0.5 && !el.closest('pre, table'));
  return {{
    width: document.scrollingElement.scrollWidth, room: innerWidth,
    beyond: beyond ? beyond.outerHTML.slice(0, 80) : '',
    broken: pictures.length - (await good(pictures)).length,
  }};
}}"""


class Phone:
    """A small window, and what it asked for or complained about."""

    def __init__(self, page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.complaints = Complaints(page)
        page.set_viewport_size(PHONE)
        page.on("request", lambda request: self.asked.append(request.url))

    def problems(self, path: Path) -> list[str]:
        """What is wrong with a page, a line each."""
        self.asked.clear()
        self.page.goto(path.as_uri())
        seen = self.page.evaluate(LOOK)
        found = [f"it asks for {url}" for url in self.asked if not url.startswith(("file:", "data:"))]
        if seen["width"] > seen["room"]:
            found.append(f"it is {seen['width']} px wide, {seen['room']} are there: {seen['beyond']}")
        if seen["broken"]:
            found.append(f"{seen['broken']} pictures are broken or not to be seen")
        return found + [f"console: {line}" for line in self.complaints.taken()]
