"""Tables and pictures of runs. Only what needs pandas or matplotlib loads them."""

from importlib import import_module

_WHERE = {
    "Picture": "picture",
    "Steps": "step_view",
    "Table": "tables",
    "interleavings": "interleaving_bars",
    "matrix": "guard_matrix",
    "plain": "tables",
    "prices": "price_plot",
    "states": "crash_state_bars",
    "steps": "step_view",
    "table": "tables",
    "timeline": "sequence_diagram",
    "waits": "backoff_plot",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"receiptlab.show has no {name!r}; it has {', '.join(_WHERE)}")
    value = getattr(import_module(f"receiptlab.show.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
