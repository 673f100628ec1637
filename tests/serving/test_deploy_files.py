"""The files of deploy/ are valid, a misspelt one is found, and they agree with the server."""

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from regard.cli.serve import command as serve_command
from regard.serving.limits import DEFAULT_LIMITS
from tests.serving.asking import ask
from tests.serving.docker_context import sent_context
from tests.serving.proxies import DEPLOY, Caddy, Nginx, program, replaced

ROOT = DEPLOY.parent
BIN = Path(sys.executable).parent
MEGABYTE = 1_000_000


def text_of(name):
    return (DEPLOY / name).read_text("utf-8")


def kubernetes(text, folder):
    """By the schemas of Kubernetes' newest version; None or the error."""
    validator = pytest.importorskip("kubernetes_validate", reason="pip install 'regard[dev]'")
    for document in yaml.safe_load_all(text):
        try:
            validator.validate(document, validator.latest_version(), strict=True)
        except (validator.ValidationError, validator.SchemaNotFoundError) as error:
            return error.message
    return None


def compose(text, folder):
    """By the schema of the compose specification."""
    pytest.importorskip("check_jsonschema", reason="pip install 'regard[dev]'")
    (folder / "compose.yaml").write_text(text)
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return _said([*checker, str(folder / "compose.yaml")])


def systemd(text, folder):
    """By systemd itself, which only warns of what it does not know."""
    (folder / "regard.service").write_text(replaced(text, {"/opt/regard/bin/regard": "/bin/true"}))
    verified = [program("systemd-analyze"), "verify", "--man=no", str(folder / "regard.service")]
    done = subprocess.run(verified, capture_output=True, text=True)
    return done.stderr or (None if done.returncode == 0 else "it fails")


def dockerfile(text, folder):
    """By hadolint."""
    (folder / "Dockerfile").write_text(text)
    return _said([program("hadolint", BIN), str(folder / "Dockerfile")])


def nginx(text, folder):
    return _proxy(Nginx, text, folder)


def caddy(text, folder):
    return _proxy(Caddy, text, folder)


def _proxy(kind, text, folder):
    proxy = kind(folder / "proxy", [8000, 8001])
    proxy.configure(text)
    content, said = proxy.check()
    return None if content else said


def _said(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


FILES = {
    "kubernetes.yaml": kubernetes,
    "compose.yaml": compose,
    "regard.service": systemd,
    "Dockerfile": dockerfile,
    "nginx.conf": nginx,
    "Caddyfile": caddy,
}
MISSPELT = [
    ("kubernetes.yaml", "sessionAffinity:", "sessionAfinity:"),
    ("kubernetes.yaml", "periodSeconds", "periodSecond"),
    ("kubernetes.yaml", "clientIP:", "clientIp:"),
    ("kubernetes.yaml", "apiVersion: apps/v1", "apiVersion: app/v1"),
    ("kubernetes.yaml", "replicas: 2", "replicas: two"),
    ("compose.yaml", "read_only", "readonly"),
    ("compose.yaml", "security_opt", "security_opts"),
    ("compose.yaml", "dockerfile", "docker_file"),
    ("compose.yaml", "file: ../", "files: ../"),
    ("regard.service", "ProtectSystem", "ProtectSytem"),
    ("regard.service", "ProtectSystem=strict", "ProtectSystem=strickt"),
    ("regard.service", "MemoryMax=2G", "MemoryMax=2 gigs"),
    ("Dockerfile", "ENTRYPOINT", "ENTRYPIONT"),
    ("Dockerfile", "--from=build", "--form=build"),
    ("nginx.conf", "hash $remote_addr", "hash $remote_adr"),
    ("nginx.conf", "proxy_buffering", "proxy_buferring"),
    ("Caddyfile", "lb_policy", "lb_polcy"),
    ("Caddyfile", "ip_hash", "iphash"),
]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_valid(name, tmp_path):
    assert FILES[name](text_of(name), tmp_path) is None


FIRST = {
    file: case for file, *case in reversed(MISSPELT)
}  # the others nightly: of each file, its checker finds one


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        pytest.param(*each, marks=() if FIRST[each[0]] == [*each[1:]] else pytest.mark.nightly)
        for each in MISSPELT
    ],
)
def test_a_misspelt_one_is_not(name, right, wrong, tmp_path):
    assert FILES[name](replaced(text_of(name), {right: wrong}), tmp_path)


def test_every_file_of_the_folder_is_checked():
    assert {each.name for each in DEPLOY.iterdir()} == set(FILES)


def manifests():
    """The Deployment's pod and the Service of kubernetes.yaml."""
    deployment, service = yaml.safe_load_all(text_of("kubernetes.yaml"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    return deployment["spec"]["template"]["spec"], service


def instruction(name):
    """The value of the last instruction of this name in the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", text_of("Dockerfile"), re.M)[-1]


def test_the_server_has_the_options_with_which_they_start_it():
    entry = yaml.safe_load(instruction("ENTRYPOINT"))
    pod, _ = manifests()
    [unit] = re.findall(r"^ExecStart=(.*)$", text_of("regard.service"), re.M)
    commands = re.findall(r"command: (\[.*\])", text_of("compose.yaml"))
    assert len(commands) == 2  # one is a comment
    arguments = [yaml.safe_load(each) for each in (instruction("CMD"), *commands)]
    for words in (shlex.split(unit), *(entry + each for each in (*arguments, pod["containers"][0]["args"]))):
        assert words[0].endswith("regard")
        assert words[1] == "serve"
        with serve_command.make_context("serve", words[2:]) as context:
            assert str(context.params["api_keys"]).endswith("api_keys")


def test_names_within_the_files_agree():
    pod, service = manifests()
    [container] = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": int(instruction("EXPOSE"))}
    assert [each["targetPort"] for each in service["spec"]["ports"]] == ["http"]
    assert service["spec"]["sessionAffinity"] == "ClientIP"  # which the schema does not know
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert pod["securityContext"]["runAsUser"] == int(instruction("USER"))
    composed = yaml.safe_load(text_of("compose.yaml"))
    server = composed["services"]["regard"]
    assert (
        DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]
    ).resolve() == DEPLOY / "Dockerfile"
    assert set(server["secrets"]) == set(composed["secrets"])
    assert (DEPLOY / composed["secrets"]["api_keys"]["file"]).resolve() == ROOT / "keys.txt"


def test_probes_ask_for_what_the_server_answers(included):
    pod, _ = manifests()
    probes = [value["httpGet"] for name, value in pod["containers"][0].items() if name.endswith("Probe")]
    assert {each["port"] for each in probes} == {"http"}
    paths = [each["path"] for each in probes]
    paths += re.findall(r"http://127.0.0.1:8000(/[\w/]+)", text_of("Dockerfile"))
    paths += re.findall(r"health_uri (\S+)", text_of("Caddyfile"))
    assert len(paths) == 5
    for path in paths:
        assert ask(included, "GET", path).status == 200


def test_who_ends_the_server_lets_it_answer_first():
    pod, _ = manifests()
    server = yaml.safe_load(text_of("compose.yaml"))["services"]["regard"]
    [unit] = re.findall(r"^TimeoutStopSec=(\d+)$", text_of("regard.service"), re.M)
    for seconds in (pod["terminationGracePeriodSeconds"], server["stop_grace_period"].rstrip("s"), unit):
        assert int(seconds) >= DEFAULT_LIMITS.drain_seconds + 5


def test_nginx_lets_pass_what_the_server_takes():
    [size] = re.findall(r"client_max_body_size (\d+)m;", text_of("nginx.conf"))
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", text_of("nginx.conf"))
    assert int(size) * MEGABYTE >= DEFAULT_LIMITS.upload_bytes
    assert int(seconds) > DEFAULT_LIMITS.answer_seconds


OTHERS = ("keys.txt", ".git/config", ".venv/bin/x", "build/x", "runs/x/x", "tests/x.py", "docs/x.md", "src/x")
OTHERS += ("src/regard/__pycache__/x.pyc", "src/regard/serving/__pycache__/x.pyc")


def wheel_of(folder, out):
    """The names of the files in the wheel of a source tree, without kernels."""
    built = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    environment = {**os.environ, "REGARD_WHEEL": "pure"}
    subprocess.run(built, cwd=folder, env=environment, check=True, capture_output=True)
    [wheel] = out.glob("*.whl")
    return sorted(zipfile.ZipFile(wheel).namelist())


def test_docker_sends_what_the_image_is_made_of_and_no_more(tmp_path):
    pytest.importorskip("hatchling", reason="the wheel is built by it")
    docker, tree = program("docker"), tmp_path / "tree"
    context = sent_context(docker, ROOT, "deploy/Dockerfile")
    with context:
        names = set(context.getnames())
        context.extractall(tree, filter="data")
    assert set(re.findall(r"^COPY ([\w.]+) ", text_of("Dockerfile"), re.M)) == {".", "constraints.txt"}
    assert "constraints.txt" in names
    assert wheel_of(tree, tmp_path / "sent") == wheel_of(ROOT, tmp_path / "whole")
    for other in OTHERS:
        (tree / other).parent.mkdir(parents=True, exist_ok=True)
        (tree / other).write_text("secret")
    with sent_context(docker, tree, "deploy/Dockerfile") as context:
        assert set(context.getnames()) == names
