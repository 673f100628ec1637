"""docs/serving.md, followed from top to bottom: each block runs as printed, in order, in a new folder.

Ports are free ones of this machine. `sudo`, `pip` and `nginx` are small programs in front of the real ones.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.page_blocks import SHELL, regard_command, run_python, shortened
from tests.serving.asking import recorded
from tests.serving.proxies import DEPLOY, NAME, Nginx, free_ports, program, replaced
from tests.warm_process import start_python

ROOT = DEPLOY.parent
PAGE = (ROOT / "docs/serving.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^##+ (.*)\n((?:(?!^##+ ).*\n)*)", PAGE, re.M))
FOLLOWED = ("The first server", "Your own models", "Keys and metrics", "Behind a reverse proxy")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.M | re.S)
NOT_RUN = {  # first line of a block: what would run it
    "# with systemd, as root": "it is made for a whole machine",
    "# with docker": "there is no daemon that could fetch an image",
    "# with Kubernetes, whose machines find the image": "there is no cluster",
}
CHECKS = "Checks and figures"  # whose commands are long ones


class Reader:
    """Who follows the page: a folder, terminals with servers, and one for all other commands."""

    def __init__(self, folder, *, pip=None):
        self.folder, self.servers, self.nginx, self.installed = folder, [], None, bool(pip)
        self.ports = dict(zip((8000, 8001), free_ports(2), strict=True))
        self.home = folder.parent / "home"
        self.programs = self.home / "programs"
        self.programs.mkdir(parents=True)
        self.program("sudo", 'exec "$@"')
        self.program("pip", pip or "true")
        if not pip:
            self.program("regard", f'exec {shlex.join(regard_command())} "$@"')
        self.curl = ["silent", "show-error", "fail-with-body", "retry = 5", "retry-connrefused"]
        self.environment = {
            **os.environ,
            "CURL_HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.programs), str(self.home / "site/bin"), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.home / "site"), os.environ.get("PYTHONPATH", "")]),
        }

    def program(self, name, script):
        """A program of this name, before those of the machine."""
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def begin_nginx(self):
        """nginx as a package starts it; curl finds it under its name."""
        self.nginx = Nginx(self.home / "nginx", list(self.ports.values())).__enter__()
        self.program("nginx", f'exec {shlex.join(self.nginx.command)} "$@"')
        self.curl += [f"connect-to = {NAME}:443:127.0.0.1:{self.nginx.port}"]
        self.curl += [f"cacert = {self.nginx.certificate}"]

    def local(self, text):
        """A command with the ports of this test, and nginx's folder."""
        for port, free in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}").replace(
                f"--port {port}", f"--port {free}"
            )
        if self.nginx:
            text = text.replace("/etc/nginx/conf.d", str(self.nginx.folder / "conf.d"))
        return shortened(text)

    def follow(self, section):
        """Do what a section says, in its order."""
        place = 0
        for block in BLOCK.finditer(section):
            self._read(section[place : block.start()])
            getattr(self, f"_{block[1]}")(block[2])
            place = block.end()
        self._read(section[place:])

    def _read(self, prose):
        if re.search(r"\bStop (?:the server|both servers) with\s+Ctrl-C", prose):
            self.stop()

    def stop(self):
        """Ctrl-C in each terminal with a server, which says that it has answered everything."""
        for server in self.servers:
            server.send_signal(signal.SIGINT)
        for server in self.servers:
            said = server.communicate(timeout=60)[1].decode()
            assert server.returncode == 0, said
            assert "all accepted requests are answered" in said
        self.servers = []

    def close(self):
        """End what is still there."""
        for server in self.servers:
            server.kill()
            server.communicate()
        if self.nginx:
            self.nginx.__exit__()

    def _sh(self, block):
        *before, last = block.strip().split("\n")
        if not last.startswith("regard serve"):
            self._run(block)
        else:
            if before:
                self._run("\n".join(before))
            self._serve(last)

    def _run(self, text):
        (self.home / ".curlrc").write_text("\n".join(self.curl))
        command = ["sh", "-ec", self.local(text)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"

    def _serve(self, line):
        """Start a server, in a terminal of its own; it has port 8000 if the command names none."""
        command = self.local(line if "--port" in line else line.replace("serve", "serve --port 8000", 1))
        if self.installed or SHELL.search(command):
            pipe = subprocess.PIPE
            words = ["sh", "-ec", f"exec {command}"]
            server = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdin=pipe, stdout=pipe, stderr=pipe
            )
        else:
            server = start_python(["-m", *shlex.split(command, comments=True)], self.folder, self.environment)
        self.servers.append(server)
        assert server.stderr
        said = []
        for line in server.stderr:
            said.append(line.decode())
            if line.startswith(b"serving "):
                return
        raise AssertionError("".join(said))

    def _nginx(self, block):
        """The file that the reader saves; its first line names it."""
        assert block == (DEPLOY / "nginx.conf").read_text("utf-8")
        assert self.nginx
        (self.folder / block.split(":")[0].removeprefix("# ")).write_text(self.nginx.local(block))

    def _yaml(self, block):
        """Ask as Prometheus would with this file."""
        [job] = yaml.safe_load(self.local(block))["scrape_configs"]
        key = (self.folder / job["authorization"]["credentials_file"]).read_text().strip()
        targets = [each for some in job["static_configs"] for each in some["targets"]]
        assert len(targets) == len(self.servers)
        for target in targets:
            request = urllib.request.Request(f"http://{target}/metrics")
            request.add_header("Authorization", f"Bearer {key}")
            assert b"regard_requests" in urllib.request.urlopen(request).read()


@pytest.fixture
def reader_of(tmp_path):
    """Makes a reader with an empty folder."""
    made = []

    def reader(**more):
        folder = tmp_path / "empty"
        folder.mkdir()
        made.append(Reader(folder, **more))
        return made[-1]

    yield reader
    for each in made:
        each.close()


@pytest.mark.parametrize("title", [FOLLOWED[0], *FOLLOWED[2:]])
def test_a_section_can_be_followed(title, reader_of):
    program("curl")
    reader = reader_of()
    if title == FOLLOWED[3]:
        reader.begin_nginx()
        [keys] = re.findall(r"^.* > keys.txt$", SECTIONS[FOLLOWED[2]], re.M)
        reader._run(keys)
    reader.follow(SECTIONS[title])
    assert not reader.servers, "the page does not say how it is ended"


@pytest.mark.nightly
def test_the_page_can_be_followed_from_its_top_with_regard_installed(reader_of):
    """pip installs regard from this checkout, without what it depends on, which is here."""
    program("curl")
    site = shlex.quote(str(ROOT))
    options = "--quiet --no-deps --no-build-isolation --disable-pip-version-check"
    reader = reader_of(
        pip=f'test "$1 $2" = "install regard[serve]" || exit 1\n'
        f'exec {sys.executable} -m pip install {options} --target "$CURL_HOME/site" {site}'
    )
    reader.begin_nginx()
    for title in FOLLOWED:
        reader.follow(SECTIONS[title])
    assert (reader.home / "site/bin/regard").is_file()
    assert not reader.servers


@pytest.mark.nightly
def test_a_reader_who_does_not_stop_a_server_cannot_start_the_next(reader_of):
    """So that these tests fail if the page forgets to say so."""
    reader = reader_of()
    reader._serve("regard serve --lazy")
    with pytest.raises(AssertionError, match="already in use"):
        reader._serve("regard serve --lazy")


def test_the_program_of_the_page_runs(included, tmp_path):
    [(_, program_text)] = [each for each in BLOCK.findall(PAGE) if each[0] == "python"]
    pytest.importorskip("openai")
    run_python(replaced(program_text, {"127.0.0.1:8000": f"127.0.0.1:{included.port}"}), tmp_path)


def test_the_recording_of_the_page_is_transcribed(transcribing, tmp_path):
    program("curl")
    [block] = [text for _, text in BLOCK.findall(SECTIONS["Dialects"]) if text.startswith("regard serve")]
    serve, curl = block.strip().split("\n")
    assert serve.startswith("regard serve --model whisper=")
    (tmp_path / "speech.wav").write_bytes(recorded().read())
    asked = curl.replace("127.0.0.1:8000", f"127.0.0.1:{transcribing.port}")
    done = subprocess.run(["sh", "-ec", asked], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("1\n00:00:00,"), done.stderr


def test_words_are_labelled_and_masks_filled_as_the_page_asks(serving, encoder_folder):
    program("curl")
    models = {"tags": encoder_folder("tokens", ("A", "B")), "masks": encoder_folder("masked_language_model")}
    server = serving(models)
    [block] = [text for _, text in BLOCK.findall(SECTIONS["Dialects"]) if text.startswith("curl")]
    for command, name in zip(block.strip().split("\n"), models, strict=True):
        asked = command.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}").replace(
            "{", f'{{"model": "{name}", ', 1
        )
        done = subprocess.run(["sh", "-ec", asked], capture_output=True, text=True, timeout=60)
        assert "results" in json.loads(done.stdout), done.stdout


def test_every_block_is_run_or_is_named_here():
    others = {title: BLOCK.findall(text) for title, text in SECTIONS.items() if title not in FOLLOWED}
    left = {title: blocks for title, blocks in others.items() if blocks}
    assert [language for language, _ in left.pop("Dialects")] == ["sh", "python", "sh"]
    [(_, commands)] = left.pop(CHECKS)
    for target in re.findall(r"^make ([\w-]+)", commands, re.M):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
    [blocks] = left.values()
    assert [block.split("\n")[0] for _, block in blocks] == list(NOT_RUN)
    for _, block in blocks:
        for file in re.findall(r"deploy/[\w.]+", block):
            assert (ROOT / file).is_file()
    assert not re.findall(r"^    \S", BLOCK.sub("", PAGE), re.M)


def test_the_table_names_every_file_of_the_folder():
    assert set(re.findall(r"\]\(\.\./deploy/([\w.]+)\)", PAGE)) == {
        each.name for each in Path(DEPLOY).iterdir()
    }
