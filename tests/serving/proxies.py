"""nginx and Caddy with the files of deploy/, on free ports of this machine, without its root's folders."""

import os
import random
import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "translate.example.org"  # that the files have
WRITTEN_BY_NGINX = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def free_ports(number):
    """Ports that are free, below those that the system gives to connections: none takes them meanwhile."""
    found: set[int] = set()
    while len(found) < number:
        port = random.SystemRandom().randrange(10_000, 30_000)  # another one in each process of the tests
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return list(found)


def program(name, *folders):
    """The path of a program, looked for in these folders too; without it the test is skipped."""
    found = shutil.which(name, path=os.pathsep.join(map(str, (*folders, os.environ["PATH"], "/usr/sbin"))))
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


def replaced(text, parts):
    """The text with other parts, each of which must be in it."""
    for old, new in parts.items():
        assert old in text, f"{old!r} is not there"
        text = text.replace(old, str(new))
    return text


class Nginx:
    """nginx with a certificate of its own for `NAME`, at `port`; its configuration is in `folder`/conf.d.

    `replicas`: the ports of the servers behind it.
    """

    FILE = "nginx.conf"

    def __init__(self, folder, replicas):
        self.folder, self.replicas = folder, replicas
        [self.port] = free_ports(1)
        self.certificate, self.key = folder / "certificate.pem", folder / "key.pem"
        (folder / "conf.d").mkdir(parents=True)
        paths = [f"{each}_temp_path {folder / each};" for each in WRITTEN_BY_NGINX]
        user = "user root;" if os.getuid() == 0 else ""
        (folder / "main.conf").write_text(
            f"{user} pid {folder / 'pid'}; error_log {folder / 'errors'}; events {{}}\n"
            f"http {{ access_log off; {' '.join(paths)} include {folder}/conf.d/*.conf; }}\n"
        )
        request = (
            f"req -x509 -nodes -newkey rsa:2048 -days 2 -subj /CN={NAME} -addext subjectAltName=DNS:{NAME}"
        )
        files = ["-keyout", str(self.key), "-out", str(self.certificate)]
        _run([program("openssl"), *request.split(), *files])
        self.command = [program("nginx"), "-c", str(folder / "main.conf"), "-e", str(folder / "errors")]

    def local(self, text):
        """deploy/nginx.conf with these ports and this certificate."""
        certificates = {f"/etc/ssl/{NAME}.pem": self.certificate, f"/etc/ssl/{NAME}.key": self.key}
        servers = {
            f"127.0.0.1:{8000 + place}": f"127.0.0.1:{port}" for place, port in enumerate(self.replicas)
        }
        return replaced(text, {**certificates, **servers, "listen 443": f"listen 127.0.0.1:{self.port}"})

    def configure(self, text):
        """The configuration of the next start."""
        (self.folder / "conf.d" / "regard.conf").write_text(self.local(text))

    def check(self):
        """What `nginx -t` says, and whether it is content."""
        done = subprocess.run([*self.command, "-t"], capture_output=True, text=True)
        return done.returncode == 0, done.stderr

    def __enter__(self):
        _run(self.command)  # returns when it listens
        return self

    def __exit__(self, *error):
        _run([*self.command, "-s", "stop"])

    def context(self):
        """For clients: trusts its certificate alone."""
        return ssl.create_default_context(cafile=str(self.certificate))


class Caddy:
    """Caddy at `port`, without TLS: it could fetch no certificate."""

    FILE = "Caddyfile"

    def __init__(self, folder, replicas):
        self.folder, self.replicas = folder, replicas
        self.port, self.admin = free_ports(2)
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "Caddyfile"
        self.environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        self.command = program("caddy")

    def configure(self, text):
        """The configuration of the next start."""
        servers = {
            f"127.0.0.1:{8000 + place}": f"127.0.0.1:{port}" for place, port in enumerate(self.replicas)
        }
        local = replaced(text, {**servers, f"{NAME} {{": f"http://{NAME}:{self.port} {{"})
        self.file.write_text(f"{{\n\tadmin 127.0.0.1:{self.admin}\n}}\n{local}")

    def check(self):
        """What `caddy validate` says, and whether it is content."""
        command = [self.command, "validate", "--config", str(self.file), "--adapter", "caddyfile"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.returncode == 0, done.stderr

    def __enter__(self):
        _run([self.command, "start", "--config", str(self.file), "--adapter", "caddyfile"], self.environment)
        return self

    def __exit__(self, *error):
        _run([self.command, "stop", "--address", f"127.0.0.1:{self.admin}"], self.environment)

    def context(self):
        """None: it has no TLS."""
        return


def _run(command, environment=None):
    # no pipe: a program that stays in the background would hold it open
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert done.returncode == 0, command
