"""The page's files: ours, and plotly's JavaScript from its installed wheel."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import FileResponse, Response
from starlette.routing import Route

from surerec.errors import InputError
from surerec.serving._problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request


_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PLOTLY: Final = "plotly.min.js"


def plotly_file() -> Path:
    """Give the path of plotly's JavaScript in its wheel, without importing plotly."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(place) / "package_data" / _PLOTLY).is_file():
            return file
    raise InputError("plotly is not installed whole; try: pip install --force-reinstall plotly")


@dataclass(frozen=True)
class _File:
    path: Path
    tag: str

    @classmethod
    def of(cls, path: Path) -> _File:
        # Size and time, not content: nothing about the machine can be read off the hash.
        about = path.stat()
        text = f"{about.st_size}-{about.st_mtime_ns}"
        return cls(path, f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"')

    def response(self, request: Request) -> Response:
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return FileResponse(self.path, headers=headers, media_type=_TYPES[self.path.suffix])


def page_routes() -> list[Route]:
    """Give the routes of the page, the API's reference and their files.

    Every file is listed when the server starts: no path from a request ever reaches the disk.
    """
    files = {path.name: _File.of(path) for path in _STATIC.iterdir() if path.suffix in _TYPES}
    files[_PLOTLY] = _File.of(plotly_file())

    async def page(request: Request) -> Response:
        return files["index.html"].response(request)

    async def reference(request: Request) -> Response:
        return files["docs.html"].response(request)

    async def static(request: Request) -> Response:
        file = files.get(request.path_params["name"])
        if file is None:
            raise Problem(404, "There is no such file.")
        return file.response(request)

    return [
        Route("/", page),
        Route("/docs", reference),
        Route("/static/{name}", static),
    ]
