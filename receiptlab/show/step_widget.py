"""The widget of `show.steps`: buttons, a slider and the step they choose. The only import of ipywidgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets

if TYPE_CHECKING:
    from receiptlab.show.step_view import Steps

_BUTTONS = (("first step", "|◀"), ("previous step", "◀"), ("next step", "▶"), ("last step", "▶|"))


def walk(shown: Steps) -> ipywidgets.VBox:
    """The widget for one run, starting at the first step."""
    last = len(shown.run.steps)
    place = ipywidgets.Label()
    place.add_class("receiptlab-steps-place")
    call, picture, rows = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
    slider = ipywidgets.IntSlider(
        1, min=1, max=last, readout=False, continuous_update=False, tooltip="which step"
    )

    def show(number: int) -> None:
        place.value = f"step {number} of {last}"
        call.value, picture.value = shown.call(number), shown.picture(number)
        rows.value = shown.rows(number)

    slider.observe(lambda change: show(change["new"]), "value")
    moves = (lambda: 1, lambda: slider.value - 1, lambda: slider.value + 1, lambda: last)
    buttons = [_button(*words, slider, move) for words, move in zip(_BUTTONS, moves, strict=True)]
    show(1)
    box = ipywidgets.VBox([ipywidgets.HBox([*buttons, place, slider]), call, picture, rows])
    box.add_class("receiptlab-steps")
    return box


def _button(
    words: str, sign: str, slider: ipywidgets.IntSlider, move: Callable[[], int]
) -> ipywidgets.Button:
    """A button that moves the slider by one step."""
    button = ipywidgets.Button(description=sign, tooltip=words, layout={"width": "3em"})

    def pressed(_: object) -> None:
        slider.value = move()

    button.on_click(pressed)
    return button
