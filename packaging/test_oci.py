#!/usr/bin/env python3
"""Tests the image for containers with crun or runc, and the example files against their schemas.

    packaging/test_oci.py [IMAGE.oci.tar]

The containers have a read-only root, a user id that nothing knows, no capabilities, and a network of their
own. Without an image only the example files are tested. Prints a line for each test, and at the end how many
have passed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The largest size of the compressed image.
MAX_BYTES = 90_000_000
USER = 54321

GET = ("import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8080, timeout=30); "
       "c.request('GET', sys.argv[1]); r = c.getresponse(); print(r.status); print(r.read().decode())")


def runtime():
    """The runtime for containers: crun does not know hybrid control groups (versions 1 and 2)."""
    is_unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    names = ("crun", "runc") if is_unified else ("runc", "crun")
    return next((name for name in names if shutil.which(name)), None)


RUNTIME = runtime()


class Skip(Exception):
    """The reason for which a test cannot run here."""


def obstacle():
    if os.geteuid() != 0:
        return "it takes root"
    if not RUNTIME:
        return "there is neither crun nor runc"
    for program in ("umoci", "nsenter", "ip"):
        if not shutil.which(program):
            return f"there is no {program}"
    return None


class Image:
    """An image, unpacked for a runtime."""

    def __init__(self, archive):
        self.directory = Path(tempfile.mkdtemp(prefix="howdah-oci-"))
        os.chmod(self.directory, 0o755)
        layout = self.directory / "image"
        with tarfile.open(archive) as tar:
            tar.extractall(layout, filter="data")
        index = json.loads((layout / "index.json").read_text())
        self.tag = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
        manifest = self.blob(layout, index["manifests"][0]["digest"])
        self.bytes = sum(layer["size"] for layer in manifest["layers"])
        self.config = self.blob(layout, manifest["config"]["digest"])["config"]
        self.bundle = self.directory / "bundle"
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:{self.tag}", self.bundle], check=True,
                       capture_output=True)

    @staticmethod
    def blob(layout, digest):
        return json.loads((layout / "blobs" / digest.replace(":", "/")).read_text())

    def end(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Container:
    """A running container of an image."""

    def __init__(self, image, site=None, variables=(), memory=None):
        self.name = f"howdah-test-{os.getpid()}-{time.monotonic_ns()}"
        config = json.loads((image.bundle / "config.json").read_text())
        process = config["process"]
        process["terminal"] = False
        process["user"] = {"uid": USER, "gid": USER}
        process["env"] += list(variables)
        process["capabilities"] = {name: [] for name in process.get("capabilities", {})}
        process["noNewPrivileges"] = True
        config["root"]["readonly"] = True
        for place in ("/tmp", "/run/howdah"):
            config["mounts"].append({"destination": place, "type": "tmpfs", "source": "tmpfs",
                                     "options": ["nosuid", "nodev", "mode=1777"]})
        if site:
            config["mounts"].append({"destination": "/srv/www", "type": "bind", "source": str(site),
                                     "options": ["bind", "ro"]})
        config["linux"]["namespaces"] = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]
        if memory:
            config["linux"].setdefault("resources", {})["memory"] = {"limit": memory}
        self.bundle = image.directory / self.name
        self.bundle.mkdir()
        (self.bundle / "rootfs").symlink_to(image.bundle / "rootfs")
        config["root"]["path"] = str(image.bundle / "rootfs")
        (self.bundle / "config.json").write_text(json.dumps(config))
        self.output, self.errors = self.bundle / "stdout", self.bundle / "stderr"
        with self.output.open("w") as output, self.errors.open("w") as errors:
            self.process = subprocess.Popen([RUNTIME, "run", "--bundle", self.bundle, self.name],
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        self.pid = self.wait_for_start()

    def wait_for_start(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            state = subprocess.run([RUNTIME, "state", self.name], capture_output=True, text=True)
            if state.returncode == 0 and (pid := json.loads(state.stdout)["pid"]):
                if Path(f"/proc/{pid}/exe").readlink().name == "howdah" and not self.ping().returncode:
                    subprocess.run(["nsenter", f"--target={pid}", "--net", "ip", "link", "set", "lo", "up"],
                                   check=True)
                    return pid
            time.sleep(0.1)
        self.end()
        raise AssertionError(f"the container does not start: {self.output.read_text()}{self.errors.read_text()}")

    def execute(self, *command):
        return subprocess.run([RUNTIME, "exec", self.name, *command], capture_output=True, text=True)

    def ping(self, *options):
        return self.execute("howdah", "ping", *options)

    def start_get(self, target):
        return subprocess.Popen(["nsenter", f"--target={self.pid}", "--net", sys.executable, "-c", GET, target],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def get(self, target):
        return self.answer(self.start_get(target))

    @staticmethod
    def answer(process):
        output, errors = process.communicate(timeout=60)
        if process.returncode:
            raise AssertionError(errors.strip().splitlines()[-1:])
        status, body = output.split("\n", 1)
        return int(status), body.rstrip("\n")

    def children(self):
        """Names and states of the processes whose parent is the server."""
        found = []
        for directory in Path("/proc").iterdir():
            try:
                name, rest = (directory / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except (OSError, IndexError):
                continue
            state, parent = rest.split()[:2]
            if int(parent) == self.pid:
                found.append((name, state))
        return found

    def stop(self, number=signal.SIGQUIT):
        os.kill(self.pid, number)
        return self.process.wait(timeout=60)

    def end(self):
        subprocess.run([RUNTIME, "delete", "--force", self.name], capture_output=True)
        self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class ImageTests:
    def __init__(self, image):
        self.image = image
        self.site = image.directory / "site"
        self.site.mkdir()
        for name, code in SCRIPTS.items():
            (self.site / name).write_text(f"<?php {code}")

    def test_the_image_is_small(self):
        print(f"    {self.image.bytes / 1e6:.1f} MB compressed")
        assert self.image.bytes < MAX_BYTES

    def test_the_image_says_how_it_is_run(self):
        config = self.image.config
        assert config["StopSignal"] == "SIGQUIT" and config["User"] == "33:33", config
        assert "8080/tcp" in config["ExposedPorts"], config

    def test_a_site_is_served_by_any_user_from_a_read_only_root(self):
        with Container(self.image, self.site) as container:
            status, body = container.get("/index.php")
            assert status == 200 and body.startswith("PHP 8."), (status, body)
            assert container.ping("--ready").stdout == "ready\n"
            assert container.get("/write.php")[1] == "read-only"
            assert container.get("/upload.php")[1] == "written"
            users = {line.split()[1] for line in Path(f"/proc/{container.pid}/status").read_text().splitlines()
                     if line.startswith("Uid:")}
            assert users == {str(USER)}

    def test_the_usual_extensions_are_there(self):
        with Container(self.image, self.site) as container:
            loaded = container.get("/extensions.php")[1].lower().split()
            wanted = {line.split("#")[0].strip() for line in (HERE / "extensions").read_text().splitlines()} - {""}
            names = {"mysql": "mysqli", "opcache": "zend-opcache"}
            missing = {names.get(name, name) for name in wanted} - set(loaded)
            assert not missing, missing

    def test_the_welcome_page_is_there_without_a_site(self):
        with Container(self.image) as container:
            assert "Howdah is running" in container.get("/")[1]

    def test_orphans_of_scripts_are_reaped(self):
        with Container(self.image, self.site) as container:
            assert container.get("/orphan.php")[1] == "started"
            for _ in range(100):
                states = container.children()
                orphans = [name for name, _ in states if name == "sleep"]
                if not orphans and all(state != "Z" for _, state in states):
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(states)
            # One that ended in the meantime would be a zombie.
            assert all(state != "Z" for _, state in container.children())

    def test_the_stop_signal_lets_requests_finish(self):
        with Container(self.image, self.site) as container:
            slow = container.start_get("/slow.php")
            for _ in range(100):
                if "begun" in container.errors.read_text():
                    break
                time.sleep(0.1)
            assert container.stop() == 0
            assert container.answer(slow) == (200, "slept"), slow

    def test_the_log_is_json_if_it_is_asked_for(self):
        with Container(self.image, self.site, ["HOWDAH_LOG_FORMAT=json"]) as container:
            container.get("/error.php")
            for _ in range(100):
                if "a remark" in container.errors.read_text():
                    break
                time.sleep(0.1)
            lines = container.errors.read_text().splitlines()
            records = [json.loads(line) for line in lines]
            assert any("a remark\nof two lines" in record["message"] for record in records), lines

    def test_document_address_and_workers_come_from_the_environment(self):
        document = self.site / "howdah.json"
        document.write_text(json.dumps({"listeners": {"*:8080": {"pass": "routes"}}, "routes": [
            {"action": {"return": 200, "location": ""}}], "access_log": "/dev/stdout"}))
        with Container(self.image, self.site, ["HOWDAH_CONFIG=/srv/www/howdah.json"]) as container:
            container.get("/logged")
            for _ in range(50):
                if "GET /logged" in container.output.read_text():
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(container.output.read_text())
        document.unlink()
        with Container(self.image, self.site, ["HOWDAH_LISTEN=*:8080 127.0.0.1:8090", "HOWDAH_WORKERS=3"]) as container:
            config = json.loads(container.execute("howdah", "config", "get").stdout)
            assert set(config["listeners"]) == {"*:8080", "127.0.0.1:8090"}, config
            assert '"processes": 3' in json.dumps(config), config

    def test_sizing_keeps_to_the_memory_of_the_control_group(self):
        limit = 256 << 20
        with Container(self.image, self.site, memory=limit) as container:
            container.get("/index.php")
            tuning = json.loads(container.execute("howdah", "tune", "site", "--json").stdout)
            print(f"    {tuning['measured']['memory'] >> 20} MiB of memory within a limit of {limit >> 20} MiB")
            assert tuning["measured"]["memory"] <= limit, tuning


SCRIPTS = {
    "index.php": "echo 'PHP ', PHP_VERSION;",
    "write.php": "echo @file_put_contents('/srv/written', 'x') ? 'written' : 'read-only';",
    "upload.php": "echo file_put_contents(sys_get_temp_dir() . '/x', 'x') ? 'written' : 'read-only';",
    "extensions.php": "foreach (get_loaded_extensions() as $name) echo strtr($name, ' ', '-'), \"\\n\";",
    # The shell ends at once; what it has started gets a new parent, and ends while PHP goes on.
    "orphan.php": "exec('sh -c \"sleep 0.2 & sleep 0.3 &\" >/dev/null 2>&1'); echo 'started';",
    "slow.php": "error_log('begun'); sleep(2); echo 'slept';",
    "error.php": "error_log(\"a remark\\nof two lines\");",
}


class ExampleTests:
    def __init__(self):
        try:
            import yaml
            self.yaml = yaml
        except ImportError:
            self.yaml = None

    def documents(self, name):
        if not self.yaml:
            raise Skip("there is no Python module yaml (python3-yaml)")
        return list(self.yaml.safe_load_all((HERE / name).read_text()))

    def test_the_kubernetes_example_fits_the_schema(self):
        documents = self.documents("kubernetes.yaml")
        try:
            import kubernetes_validate
        except ImportError:
            raise Skip("there is no Python module kubernetes_validate, which has the schemas") from None
        for document in documents:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)

    def test_the_compose_example_fits_the_schema(self):
        [document] = self.documents("compose.yaml")
        try:
            import jsonschema
        except ImportError:
            raise Skip("there is no Python module jsonschema (python3-jsonschema)") from None
        schema = Path(os.environ.get("COMPOSE_SCHEMA",
                                     "/usr/lib/python3/dist-packages/compose/config/compose_spec.json"))
        if not schema.exists():
            raise Skip(f"there is no {schema}, the schema, which the package docker-compose has")
        jsonschema.validate(document, json.loads(schema.read_text()))

    def test_the_documents_in_the_examples_are_valid(self):
        howdah = os.environ.get("HOWDAH") or shutil.which("howdah")
        if not howdah:
            raise Skip("there is no howdah; name it with HOWDAH=PATH")
        for document in self.documents("kubernetes.yaml"):
            for text in document.get("data", {}).values() if document["kind"] == "ConfigMap" else ():
                subprocess.run([howdah, "check", "--syntax"], input=text, text=True, check=True, capture_output=True)


def run(suite):
    passed = failed = 0
    chosen = os.environ.get("ONLY", "")
    for name in [name for name in dir(suite) if name.startswith("test_") and chosen in name]:
        try:
            getattr(suite, name)()
        except Skip as reason:
            print(f"skipped: {name}: {reason}")
            passed += 1
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print(f"test {name} ... FAILED", flush=True)
            failed += 1
        else:
            print(f"test {name} ... ok", flush=True)
            passed += 1
    return passed, failed


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    passed, failed = run(ExampleTests())
    if len(sys.argv) == 2 and (reason := obstacle()):
        print(f"skipped: {Path(sys.argv[1]).name}: {reason}")
        passed += 1
    elif len(sys.argv) == 2:
        image = Image(sys.argv[1])
        try:
            more = run(ImageTests(image))
        finally:
            image.end()
        passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
