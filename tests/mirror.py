"""A server on this machine that has one file, and can be made to misbehave."""

import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Mirror:
    """What is served, how, and what was asked."""

    name: str
    content: bytes
    url: str = ""
    ranges: bool = True  # continues where it is asked to
    status: int = 0  # answer with this error instead
    moved_to: str = ""  # answer with this address instead
    breaks_after: int | None = None  # bytes
    says_length: bool = True
    asked: list[str] = field(default_factory=list)  # the Range of every request


def serve(mirror: Mirror) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            mirror.asked.append(asked)
            start = int(re.findall(r"\d+", asked)[0]) if asked and mirror.ranges else 0
            if mirror.status or not self.path.endswith(mirror.name):
                return self.send_error(mirror.status or 404)
            if start and start >= len(mirror.content):
                return self.send_error(416)
            if mirror.moved_to:
                self.send_response(302)
                self.send_header("Location", mirror.moved_to)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            body = mirror.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(mirror.content) - 1}/{len(mirror.content)}"
                )
            if mirror.says_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if mirror.breaks_after is None else body[: mirror.breaks_after])
            return None

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
