"""Lines over sizes, both axes logarithmic, as an SVG: Plotly draws, a Chromium renders.

Without Plotly, Playwright or a Chromium there is no picture; the table of the benchmark says everything too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = Path("/usr/bin/chromium")
SIZE = {"width": 460, "height": 340}


@dataclass(frozen=True, slots=True)
class Line:
    """One measured thing over the sizes."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in one frame."""

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]


def draw(charts: Sequence[Chart], path: Path) -> str:
    """Write the charts side by side; a sentence that says where, or why not."""
    try:
        import plotly.graph_objects as go
        from playwright.sync_api import sync_playwright
        from plotly.offline import get_plotlyjs
        from plotly.subplots import make_subplots
    except ModuleNotFoundError as error:
        return f"no picture: {error.name} is not installed"
    if not CHROMIUM.exists():
        return f"no picture: there is no {CHROMIUM}"
    figure = make_subplots(1, len(charts), subplot_titles=[chart.title for chart in charts], horizontal_spacing=0.11)
    named: set[str] = set()
    for column, chart in enumerate(charts, 1):
        for line in chart.lines:
            figure.add_trace(
                go.Scatter(
                    x=list(line.x), y=list(line.y), name=line.name, mode="lines+markers", legendgroup=line.name,
                    showlegend=line.name not in named,
                    line={"color": line.colour, "dash": "dot" if line.is_dashed else "solid", "width": 2},
                ),
                row=1,
                col=column,
            )  # fmt: skip
            named.add(line.name)
        figure.update_xaxes(type="log", title=chart.x_title, dtick=1, row=1, col=column)
        figure.update_yaxes(type="log", title=chart.y_title, exponentformat="power", dtick=1, row=1, col=column)
    figure.update_layout(
        template="plotly_white", width=SIZE["width"] * len(charts), height=SIZE["height"],
        font={"family": "sans-serif", "size": 12}, margin={"l": 60, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "y": -0.22},
    )  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_content(f"<div id='plot'></div><script>{get_plotlyjs()}</script>")
        address = page.evaluate(
            "async ([data, layout, size]) => Plotly.toImage({data, layout}, {format: 'svg', ...size})",
            [*(figure.to_plotly_json()[part] for part in ("data", "layout")), _size(len(charts))],
        )
        browser.close()
    from urllib.parse import unquote

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unquote(address.split(",", 1)[1]))
    return f"picture: {path}"


def _size(charts: int) -> dict[str, int]:
    return {"width": SIZE["width"] * charts, "height": SIZE["height"]}
