#!/usr/bin/env python3
"""Tests the image for containers with crun or runc, and the example files against their schemas.

    packaging/test_oci.py [IMAGE.oci.tar]

The containers have a read-only root, an unknown user id, no capabilities, and a network of their
own. Without an image only the example files and the Containerfile are tested; packaging/schemas installs the
schemas. Prints a line for each test, and at the end how many have passed.
"""

import copy
import importlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import runner  # noqa: E402

# Tests whose names contain this.
ONLY = os.environ.get("ONLY", "")
# The modules and schemas that packaging/schemas installs.
SCHEMAS = HERE.parent / ".build" / "schemas"
# The largest size of the compressed image.
MAX_BYTES = 90_000_000
# The examples of Compose.
COMPOSE = ("compose.yaml", "compose.laravel.yaml")
USER = 54321

GET = ("import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8080, timeout=30); "
       "c.request('GET', sys.argv[1]); r = c.getresponse(); print(r.status); print(r.read().decode())")


# Whether the control groups are of version 2 only. crun refuses hybrid ones, also without a manager of them.
IS_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers").exists()
RUNTIME = next((name for name in (("crun", "runc") if IS_UNIFIED else ("runc",)) if shutil.which(name)), None)


def obstacle():
    if os.geteuid() != 0:
        return "it takes root"
    if not RUNTIME:
        return "there is neither crun nor runc" if IS_UNIFIED else "there is no runc, and crun refuses hybrid control groups"
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

    def __init__(self, image, site=None, variables=(), memory=None, files=None):
        """`files` are names and texts of files in the container; None for a directory that is written to."""
        self.name = f"howdah-test-{os.getpid()}-{time.monotonic_ns()}"
        config = json.loads((image.bundle / "config.json").read_text())
        process = config["process"]
        process["terminal"] = False
        process["user"] = {"uid": USER, "gid": USER}
        process["env"] += list(variables)
        process["capabilities"] = {name: [] for name in process.get("capabilities", {})}
        process["noNewPrivileges"] = True
        config["root"]["readonly"] = True
        for place in ("/tmp", "/var/lib/howdah"):
            config["mounts"].append({"destination": place, "type": "tmpfs", "source": "tmpfs",
                                     "options": ["nosuid", "nodev", "mode=1777"]})
        if site:
            config["mounts"].append({"destination": "/srv/www", "type": "bind", "source": str(site),
                                     "options": ["bind", "ro"]})
        for number, (name, text) in enumerate((files or {}).items()):
            if text is None:
                config["mounts"].append({"destination": name, "type": "tmpfs", "source": "tmpfs",
                                         "options": ["nosuid", "nodev", "mode=1777"]})
                continue
            source = image.directory / f"{self.name}.{number}"
            source.write_text(text)
            config["mounts"].append({"destination": name, "type": "bind", "source": str(source),
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
                name, rest = (directory / "stat").read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
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
        for name, value in Containerfile((HERE / "Containerfile").read_text()).config().items():
            if name == "Env":
                assert set(value) <= set(config[name]), config
            else:
                assert value == config[name], (name, config)

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

    def test_a_script_cannot_command_the_server(self):
        with Container(self.image, self.site) as container:
            assert container.get("/token.php")[1] == "[]"
            # The check can fail: there is a token.
            assert "token" in container.execute("find", "/var/lib/howdah").stdout

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

    def test_several_sites_are_files_beside_a_document(self):
        (self.site / "sites").mkdir()
        (self.site / "howdah.json").write_text('{"sites": "sites/*.json", "defaults": {"listen": "*:8080"}}')
        for name in ("shop", "wiki"):
            root = self.site / name
            root.mkdir()
            (root / "index.php").write_text(f"<?php echo '{name} ', @file_get_contents('/srv/www/shop/index.php') ? 'reads' : 'no';")
            (self.site / "sites" / f"{name}.json").write_text(json.dumps(
                {"hosts": "*" if name == "wiki" else "shop.example", "root": f"/srv/www/{name}"}))
        with Container(self.image, self.site, ["HOWDAH_CONFIG=/srv/www/howdah.json"]) as container:
            assert container.get("/") == (200, "wiki no")

    def test_orphans_of_scripts_are_reaped(self):
        with Container(self.image, self.site) as container:
            assert container.get("/orphan.php")[1] == "started"
            for _ in range(600):
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
            wait_for(lambda: "begun" in container.errors.read_text())
            assert container.stop() == 0
            assert container.answer(slow) == (200, "slept"), slow

    def test_the_log_is_json_if_it_is_asked_for(self):
        with Container(self.image, self.site, ["HOWDAH_LOG_FORMAT=json"]) as container:
            container.get("/error.php")
            wait_for(lambda: "a remark" in container.errors.read_text())
            lines = container.errors.read_text().splitlines()
            records = [json.loads(line) for line in lines]
            assert any("a remark\nof two lines" in record["message"] for record in records), lines

    def test_document_address_and_workers_come_from_the_environment(self):
        document = self.site / "howdah.json"
        document.write_text(json.dumps({"listeners": {"*:8080": {"pass": "routes"}}, "routes": [
            {"action": {"return": 200, "location": ""}}], "access_log": "/dev/stdout"}))
        with Container(self.image, self.site, ["HOWDAH_CONFIG=/srv/www/howdah.json"]) as container:
            container.get("/logged")
            wait_for(lambda: "GET /logged" in container.output.read_text())
        document.unlink()
        with Container(self.image, self.site, ["HOWDAH_LISTEN=*:8080 127.0.0.1:8090", "HOWDAH_WORKERS=3"]) as container:
            config = json.loads(container.execute("howdah", "config", "get").stdout)
            assert set(config["listeners"]) == {"*:8080", "127.0.0.1:8090"}, config
            assert '"processes": 3' in json.dumps(config), config

    def test_variables_and_secrets_of_the_container_reach_scripts(self):
        (self.site / "secret").write_text("s3cret-of-a-file\n")
        variables = ["DB_HOST=db", "DB_PASSWORD_FILE=/srv/www/secret", "KEY=s3cret-of-a-variable",
                     "HOWDAH_PHP_INI_memory_limit=99M"]
        with Container(self.image, self.site, variables) as container:
            seen = json.loads(container.get("/variables.php")[1])
            assert seen == ["db", "s3cret-of-a-file", "s3cret-of-a-variable", False, "99M", "db"], seen
            shown = [container.execute("howdah", "config", "get").stdout, container.execute("howdah", "status").stdout,
                     container.output.read_text(), container.errors.read_text()]
            assert not any("s3cret" in text for text in shown), shown

    def test_the_example_of_laravel_runs_a_worker_and_the_schedule(self):
        [compose] = documents("compose.laravel.yaml")
        web = compose["services"]["web"]
        root = self.image.directory / "laravel"
        for name, text in LARAVEL.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        # A runtime gives a new file system the mode of the directory below it.
        for volume in ("storage", "bootstrap/cache"):
            (root / volume).mkdir(parents=True)
            (root / volume).chmod(0o777)
        files = {config["target"]: compose["configs"][config["source"]]["content"] for config in web["configs"]}
        files |= {f"/run/secrets/{name}": f"of {name}" for name in web["secrets"]}
        files |= {volume.split(":")[1]: None for volume in web["volumes"] if not volume.startswith("./")}
        variables = [f"{name}={value}" for name, value in web["environment"].items()]
        with Container(self.image, root, variables, files=files) as container:
            answer = container.get("/orders/7")
            assert answer == (200, '["of database","of application","production",true,false]'), answer
            # The schedule is due at the next full minute.
            for job in ("queue:work", "schedule:run"):
                wait_for(lambda: container.execute("cat", f"/srv/www/storage/{job}").stdout == "of database", seconds=120)
            assert container.ping("--ready").stdout == "ready\n"
            assert container.stop() == 0

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
    # The shell ends at once; its child gets a new parent, and ends while PHP continues.
    "token.php": "$found = [];"
                 "foreach (['/run', '/tmp', '/var/tmp', '/var/lib/howdah', '/dev/shm'] as $place)"
                 "  foreach ([1, 2, 3, 4] as $depth)"
                 "    foreach (glob($place . str_repeat('/*', $depth)) ?: [] as $path)"
                 "      if (str_contains($path, 'token') && @file_get_contents($path)) $found[] = $path;"
                 "echo json_encode($found);",
    "orphan.php": "exec('sh -c \"sleep 0.2 & sleep 0.3 &\" >/dev/null 2>&1'); echo 'started';",
    "variables.php": "echo json_encode([getenv('DB_HOST'), getenv('DB_PASSWORD'), $_SERVER['KEY'], getenv('HOWDAH_LISTEN'),"
                     "ini_get('memory_limit'), trim(shell_exec('printenv DB_HOST'))]);",
    "slow.php": "error_log('begun'); sleep(2); echo 'slept';",
    "error.php": "error_log(\"a remark\\nof two lines\");",
}


# Stands for a project of Laravel: its command and its front controller.
LARAVEL = {
    "composer.json": '{"require": {"laravel/framework": "*"}}',
    "artisan": "<?php file_put_contents(\"storage/$argv[1]\", getenv('DB_PASSWORD'));"
               "while ($argv[1] === 'queue:work') sleep(1);",
    "public/index.php": "<?php echo json_encode([getenv('DB_PASSWORD'), getenv('APP_KEY'), $_SERVER['APP_ENV'],"
                        "(bool) file_put_contents(__DIR__ . '/../storage/upload', 'x'), (bool) @file_put_contents(__DIR__ . '/written', 'x')]);",
}


def documents(name):
    return list(module("yaml").safe_load_all((HERE / name).read_text()))


def module(name):
    """A Python module of packaging/schemas, or of the system."""
    for directory in SCHEMAS.glob("lib/python*/site-packages"):
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
    try:
        return importlib.import_module(name)
    except ImportError:
        raise runner.Skip(f"there is no Python module {name}; packaging/schemas installs it") from None


class Containerfile:
    """The instructions of the last stage of a Containerfile."""

    def __init__(self, text):
        text = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
        self.instructions = [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]
        last = max(at for at, (name, _) in enumerate(self.instructions) if name == "FROM")
        self.instructions = self.instructions[last + 1:]

    def all(self, name):
        return [" ".join(value.split()) for key, value in self.instructions if key == name]

    def config(self):
        """The facts about running the image, with the names of OCI's specification."""
        def last(name):
            return self.all(name)[-1]
        return {"User": last("USER"), "WorkingDir": last("WORKDIR"), "StopSignal": last("STOPSIGNAL"),
                "Entrypoint": json.loads(last("ENTRYPOINT")), "Cmd": json.loads(last("CMD")),
                "ExposedPorts": {f"{port}/tcp": {} for port in last("EXPOSE").split()},
                "Env": sorted(word for line in self.all("ENV") for word in shlex.split(line))}


def umoci_config(script):
    """The same of packaging/oci."""
    words = shlex.split(script[script.index("umoci config "):].split("\numoci gc")[0].replace("\\\n", " "))
    options = [word.removeprefix("--config.").split("=", 1) for word in words if word.startswith("--config.")]

    def values(name):
        return [value for key, value in options if key == name]
    return {"User": values("user")[0], "WorkingDir": values("workingdir")[0], "StopSignal": values("stopsignal")[0],
            "Entrypoint": values("entrypoint"), "Cmd": values("cmd"),
            "ExposedPorts": {port: {} for port in values("exposedports")},
            # The images that the Containerfile is based on have this PATH.
            "Env": sorted(value for value in values("env") if not value.startswith("PATH="))}


class Unsuited(Exception):
    """Values that the chart refuses."""


class ExampleTests:
    def test_the_kubernetes_example_fits_the_schema(self):
        objects = documents("kubernetes/site.yaml")
        kubernetes = module("kubernetes_validate")
        version = kubernetes.latest_version()
        for document in objects:
            kubernetes.validate(document, version, strict=True)
        [deployment] = [document for document in objects if document["kind"] == "Deployment"]
        for change in ({"replica": 2}, {"replicas": "two"}):
            wrong = copy.deepcopy(deployment)
            wrong["spec"] |= change
            refuses(kubernetes.ValidationError, kubernetes.validate, wrong, version, strict=True)

    def chart(self, values, name="shop"):
        """What Helm makes of the chart; Unsuited with its message if it refuses the values."""
        helm = shutil.which("helm", path=f"{SCHEMAS / 'bin'}{os.pathsep}{os.environ['PATH']}")
        if not helm:
            raise runner.Skip("there is no helm; packaging/schemas builds it")
        # A helm that Go has built says that it belongs to an old Kubernetes.
        command = [helm, "template", name, HERE / "helm", "--kube-version", "1.29", "--values", "-"]
        made = subprocess.run(command, input=json.dumps(values), text=True, capture_output=True)
        if made.returncode:
            raise Unsuited(made.stderr)
        return [document for document in module("yaml").safe_load_all(made.stdout) if document]

    def test_the_chart_makes_objects_that_fit_the_schema(self):
        image = {"image": {"repository": "example.org/shop"}}
        full = image | {
            "replicas": 1, "environment": {"APP_ENV": "production", "NUMBER": 5}, "secrets": ["database"],
            "site": {"root": "/srv/www", "environment": {"DB_PASSWORD": {"file": "/run/secrets/database/password"}},
                     "jobs": {"queue": {"command": ["php", "artisan", "queue:work"]}}},
            "settings": {"shutdown_delay": 20}, "uploads": {"paths": ["/srv/www/uploads", "/srv/www/cache"]},
            "ingress": {"enabled": True, "className": "nginx", "hosts": ["shop.example"], "tlsSecret": "shop"},
        }
        kubernetes = module("kubernetes_validate")
        for values, kinds in ((image, "ConfigMap Deployment Service"),
                              (full, "ConfigMap Deployment Ingress PersistentVolumeClaim Service")):
            made = {document["kind"]: document for document in self.chart(values)}
            assert " ".join(sorted(made)) == kinds, made
            for document in made.values():
                kubernetes.validate(document, kubernetes.latest_version(), strict=True)
            text = made["ConfigMap"]["data"]["howdah.json"]
            self.checked(text)
            listens = [part["listen"] for part in (json.loads(text)["settings"][key] for key in ("probes", "metrics"))]
            pod = made["Deployment"]["spec"]["template"]["spec"]
            ports = {one["name"]: one["containerPort"] for one in pod["containers"][0]["ports"]}
            assert listens == [f"*:{ports['probes']}", f"*:{ports['metrics']}"], (listens, ports)
        assert pod["terminationGracePeriodSeconds"] == 90, pod
        assert json.loads(text)["sites"]["site"]["environment"] == {
            "APP_ENV": "production", "NUMBER": "5", "DB_PASSWORD": {"file": "/run/secrets/database/password"}}, text
        for wrong, words in (({}, "image.repository"), (full | {"replicas": 2}, "ReadWriteMany")):
            try:
                self.chart(wrong)
            except Unsuited as message:
                assert words in str(message), message
            else:
                raise AssertionError(f"the chart accepts {wrong}")

    def test_the_compose_examples_fit_the_schema(self):
        validate, error = module("jsonschema").validate, module("jsonschema").ValidationError
        found = [*SCHEMAS.glob("lib/python*/site-packages/compose/config/compose_spec.json")]
        if not found:
            raise runner.Skip("there is no schema of Compose; packaging/schemas installs it")
        schema = json.loads(found[0].read_text())
        for name in COMPOSE:
            [document] = documents(name)
            validate(document, schema)
        for change in ({"read_olny": True}, {"read_only": "perhaps"}):
            wrong = copy.deepcopy(document)
            wrong["services"]["web"] |= change
            refuses(error, validate, wrong, schema)

    def checked(self, document):
        """Checks the text of a document, as that of a file."""
        built = HERE.parent / "target/debug/howdah"
        howdah = os.environ.get("HOWDAH") or shutil.which("howdah") or (str(built) if built.exists() else None)
        if not howdah:
            raise runner.Skip("there is no howdah; name it with HOWDAH=PATH")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(document)
            file.flush()
            subprocess.run([howdah, "check", "--syntax", file.name], check=True, capture_output=True)

    def test_the_documents_in_the_examples_are_valid(self):
        for document in documents("kubernetes/site.yaml"):
            for text in document.get("data", {}).values() if document["kind"] == "ConfigMap" else ():
                self.checked(text)
        for name in COMPOSE:
            for config in documents(name)[0].get("configs", {}).values():
                self.checked(config["content"])

    def test_the_containerfile_makes_the_same_image(self):
        file, script = Containerfile((HERE / "Containerfile").read_text()), (HERE / "oci").read_text()
        assert file.config() == umoci_config(script), (file.config(), umoci_config(script))
        [run] = file.all("RUN")
        for word in ("ca-certificates", "systemd-standalone-sysusers", "php${PHP}-cli", "/packages/howdah_*.deb",
                     "/packages/howdah-php${PHP}_*.deb"):
            assert word in run, word
        [include] = [line for line in script.splitlines() if line.startswith("include=usr-is-merged")]
        for word in ("ca-certificates", "systemd-standalone-sysusers", "howdah", "howdah-php$php", "php$php-cli"):
            assert word in include.split("=", 1)[1].split(","), word
        # The directories that both make, with their modes, and the file that both copy.
        for command in ("install -d -m 755 {}/srv/www", "install -d -m 1777 {}/var/lib/howdah",
                        "cp {}/usr/share/howdah/welcome/index.html {}/srv/www/"):
            assert command.format("", "") in run, command
            assert command.format('"$1"', '"$1"') in script, command

    def test_health_checks_ask_the_server_itself(self):
        [check] = Containerfile((HERE / "Containerfile").read_text()).all("HEALTHCHECK")
        options, command = check.split(" CMD ")
        assert json.loads(command) == ["howdah", "ping", "--quiet"], command
        for name in COMPOSE:
            health = documents(name)[0]["services"]["web"]["healthcheck"]
            assert health["test"] == ["CMD", *json.loads(command)], health
            assert set(options.split()) == {f"--{name.replace('_', '-')}={health[name]}"
                                            for name in ("interval", "timeout", "start_period")}, (options, health)
        [deployment] = [one for one in documents("kubernetes/site.yaml") if one["kind"] == "Deployment"]
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        for probe, path in {"startupProbe": "/-/ready", "readinessProbe": "/-/ready", "livenessProbe": "/-/live"}.items():
            assert container[probe]["httpGet"] == {"path": path, "port": "probes"}, probe
        [map_] = [one for one in documents("kubernetes/site.yaml") if one["kind"] == "ConfigMap"]
        listen = json.loads(map_["data"]["howdah.json"])["settings"]["probes"]["listen"]
        [port] = [one["containerPort"] for one in container["ports"] if one["name"] == "probes"]
        assert listen == f"*:{port}", listen


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("what was waited for did not happen")
        time.sleep(0.1)


def refuses(error, function, *arguments, **options):
    """Fails unless the call raises this error."""
    try:
        function(*arguments, **options)
    except error:
        return
    raise AssertionError(f"{function.__name__} accepts {arguments[0]}")


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    passed, failed = runner.run(ExampleTests(), ONLY)
    if len(sys.argv) == 2 and (reason := obstacle()):
        print(f"skipped: {Path(sys.argv[1]).name}: {reason}")
        passed += 1
    elif len(sys.argv) == 2:
        image = Image(sys.argv[1])
        try:
            more = runner.run(ImageTests(image), ONLY)
        finally:
            image.end()
        passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
