"""What `docker build` sends: docker's own client, before a stand-in for its daemon that keeps the archive."""

import http.server
import io
import os
import subprocess
import tarfile
import threading


class Daemon(http.server.BaseHTTPRequestHandler):
    """Answers a ping, and takes the context of a build."""

    protocol_version = "HTTP/1.1"
    received = b""

    def do_HEAD(self):
        self._answer(b"")

    def do_GET(self):
        self._answer(b"{}")

    def do_POST(self):
        parts = []
        while size := int(self.rfile.readline(), 16):  # a chunk
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        type(self).received = b"".join(parts)
        self._answer(b'{"stream": "done"}\n')

    def _answer(self, content):
        self.send_response(200)
        headers = {"Api-Version": "1.45", "Ostype": "linux", "Content-Type": "application/json"}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        pass


def sent_context(docker, folder, dockerfile):
    """The archive that this docker client sends of a folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Daemon) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = {"DOCKER_HOST": f"tcp://127.0.0.1:{server.server_port}", "DOCKER_BUILDKIT": "0"}
        command = [docker, "build", "--file", dockerfile, "."]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **address}, capture_output=True, text=True, timeout=300
        )
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    return tarfile.open(fileobj=io.BytesIO(Daemon.received))
