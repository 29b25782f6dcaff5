"""An HTTP server on 127.0.0.1 that fails on demand."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Serves `content` at every path; each request uses the next of `acts`, then `serve`."""

    def __init__(self):
        self.content = bytes(range(256)) * 1200  # 307,200 bytes
        self.files = {}
        self.acts = []
        self.requests = []
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(dict(self.headers))
                act = server.acts.pop(0) if server.acts else serve
                with suppress(ConnectionError):
                    act(self, server)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def url(self, name="data.bin"):
        return f"http://127.0.0.1:{self._http.server_address[1]}/{name}"

    def close(self):
        self.over.set()
        self._http.shutdown()
        self._http.server_close()


def answer(handler, body, status=200, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)


def serve(handler, server, *, n_bytes=None):
    """Serve the content; close the connection after `n_bytes`."""
    content = server.files.get(handler.path.lstrip("/"), server.content)
    return answer(handler, content[:n_bytes], Content_Length=len(content))


def close_after(n):
    return lambda handler, server: serve(handler, server, n_bytes=n)


def status(code):
    return lambda handler, _: answer(handler, b"", code, Content_Length=0)
