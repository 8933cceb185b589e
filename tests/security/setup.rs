//! Servers with two sites, of which one attacks.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::containment::{USERS, World};
use crate::expectations::Circumstances;
use harness::tls::Authority;
use harness::{Server, Site, eventually, free_address, merge, open_to_all};

/// Scripts of the site that attacks.
const SCRIPTS: [&str; 10] = [
    "ask.php",
    "attack.php",
    "connections.php",
    "crash.php",
    "fork_bomb.php",
    "log.php",
    "memory.php",
    "output.php",
    "ready.php",
    "shell_bomb.php",
];

/// Workers of each application.
const WORKERS: usize = 2;

/// Number of the System V objects of the other site.
pub const IPC_KEY: &str = "424242";

/// Name of its file in shared memory.
pub const SHARED_FILE: &str = "howdah-victim";

/// A server that is attacked from within.
pub struct Setup {
    pub server: Server,
    pub circumstances: Circumstances,
    /// The issuer of the server's certificate.
    pub authority: Authority,
    pub tls_address: SocketAddr,
    /// Directory of the attacker's scripts, from outside its root directory.
    pub attacker: PathBuf,
    /// Instructions for the attacker, beside its phase and the processes.
    pub arguments: Vec<String>,
    /// Directory that only the administrator may enter.
    pub private: PathBuf,
}

/// A server that is being put together.
pub struct Plan<'w> {
    world: &'w World,
    site: Site,
    /// Further members of the document.
    changes: Value,
    /// The attacker's directory from inside and from outside.
    attacker: (PathBuf, PathBuf),
    circumstances: Circumstances,
    control: Option<String>,
}

impl<'w> Plan<'w> {
    /// Started by root, and both applications have the server's user.
    pub fn new(world: &'w World) -> Self {
        // Where a shell starts a server, its process group is its own.
        let site = Site::new()
            .workers(WORKERS as u32)
            .through(&["setsid"])
            .file("small.txt", "small")
            .file("victim.php", script("victim.php"))
            .file("share.php", script("share.php"))
            .file("mail.php", "<?php mail('a@example.org', 'x', 'y');");
        let attacker = base(&site).join("attacker");
        let circumstances = Circumstances {
            landlock: world.landlock,
            uid: world.www_data(),
            everything_is_one_users: false,
            sites_share_user: true,
            has_own_processes: false,
            is_sandboxed: false,
        };
        let attacker = (attacker.clone(), attacker);
        // Nothing listens there: the telemetry process runs, and keeps its spans and metrics.
        let telemetry = json!({
            "endpoint": "http://127.0.0.1:9", "protocol": "http", "metrics_interval": 1,
        });
        let changes = json!({"settings": {"telemetry": telemetry}});
        Plan { world, site, changes, attacker, circumstances, control: None }
    }

    /// Puts something on top of the document.
    pub fn with(mut self, changes: Value) -> Self {
        merge(&mut self.changes, changes);
        self
    }

    /// Starts it through another program.
    pub fn through(mut self, launcher: &[&str]) -> Self {
        self.site = self.site.through(launcher);
        self
    }

    /// Makes the control API listen at this address instead of a socket that belongs to root.
    pub fn control(mut self, address: &str) -> Self {
        self.control = Some(address.to_owned());
        self
    }

    /// Adds an argument to the command line.
    pub fn argument(mut self, argument: &str) -> Self {
        self.site = self.site.argument(argument);
        self
    }

    /// Adds a file of the site that does not attack.
    pub fn file(mut self, name: &str, content: String) -> Self {
        self.site = self.site.file(name, content);
        self
    }

    /// A directory for the test's files, which all users may read.
    pub fn base(&self) -> PathBuf {
        base(&self.site)
    }

    /// A directory that all users may write to.
    pub fn data(&self) -> PathBuf {
        self.site.data()
    }

    /// Each application has a user of its own.
    pub fn user_for_each(mut self) -> Self {
        self.circumstances.uid = self.world.user(USERS[0]);
        self.circumstances.sites_share_user = false;
        self.with(json!({"applications": {
            "attacker": {"user": USERS[0]}, "site": {"user": USERS[1]},
        }}))
    }

    /// Started by another user than root: everything runs as that user.
    pub fn without_root(mut self) -> Self {
        let uid = self.world.user(USERS[0]);
        self.circumstances.uid = uid;
        self.circumstances.everything_is_one_users = true;
        let id = uid.to_string();
        self.through(&["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"])
    }

    /// The attacker's application has a root directory and processes of its own.
    pub fn root_directory(mut self) -> Self {
        let root = self.base().join("root");
        self.attacker = (PathBuf::from("/srv/app"), root.join("srv/app"));
        self.circumstances.has_own_processes = true;
        self.with(json!({"applications": {"attacker": {
            "isolation": {"rootfs": root, "namespaces": {"pid": true}},
        }}}))
    }

    /// The attacker's application may open the files that it needs, and no others.
    pub fn sandboxed(mut self) -> Self {
        let scripts = scripts_of(&self.attacker.1);
        self.circumstances.is_sandboxed = true;
        let data = scripts.join("data");
        // The directory of the test is in that for temporary files, which an application may use.
        self.with(json!({"applications": {"attacker": {
            "environment": {"TMPDIR": data},
            "options": {"admin": {
                "sys_temp_dir": data, "upload_tmp_dir": data, "opcache.lockfile_path": data,
            }},
            "isolation": {"sandbox": {"execute": [scripts], "write": [data]}},
        }}}))
    }

    /// Serves it: the other site on the harness's terms, and the attacker's below `/attack/`.
    pub fn serve(self) -> Setup {
        let Plan { world, site, changes, attacker: (inside, outside), circumstances, control } =
            self;
        let scripts = outside.join("attack");
        fs::create_dir_all(scripts.join("data")).unwrap();
        open_to_all(&scripts.join("data"), 0o777);
        for name in SCRIPTS {
            fs::write(scripts.join(name), script(name)).unwrap();
        }
        fs::copy(&world.attacker, scripts.join("attacker")).unwrap();
        open_to_all(&scripts.join("attacker"), 0o755);

        let private = base(&site).join("private");
        let state = private.join("state");
        for directory in [&private, &state, &state.join("certs")] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let authority = Authority::new();
        let (chain, key) = authority.issue(&["a.example"]);
        for (name, text) in [("chain.pem", &chain), ("key.pem", &key)] {
            fs::write(private.join(name), text).unwrap();
            fs::set_permissions(private.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let (address, tls_address) = (free_address(), free_address());
        let document = site.document(address);
        let certificate =
            json!({"chain": private.join("chain.pem"), "key": private.join("key.pem")});
        let mut document = json!({
            "listeners": {tls_address.to_string(): {"pass": "routes",
                "tls": {"certificate": certificate}}},
            "routes": [
                {"match": {"uri": "/attack/*"}, "action": {"pass": "applications/attacker"}},
                {"match": {"uri": "/page"}, "action": {"dashboard": true}},
                document["routes"][0],
            ],
            "access_log": private.join("access.log"),
            "applications": {"attacker": {
                "type": "php",
                "root": inside,
                "processes": WORKERS,
                // A request that junk in the shared memory has lost ends by its time limit.
                "limits": {"timeout": 20, "queue_timeout": 5},
                "environment": {"TMPDIR": "/tmp"},
            }},
        });
        merge(&mut document, changes);
        let default = format!("unix:{}", base(&site).join("control.sock").display());
        let control = control.unwrap_or(default);
        let pid = private.join("pid");
        let site = site.with(document);
        let site = ["--control", &control]
            .into_iter()
            .chain(["--state", state.to_str().unwrap(), "--pid", pid.to_str().unwrap()])
            .fold(site, |site, argument| site.argument(argument));
        if circumstances.everything_is_one_users {
            give(&base(&site), circumstances.uid);
        }
        let log = base(&site).join("log");
        let mut arguments: Vec<String> = Vec::new();
        arguments.extend(hashes(&key).into_iter().flat_map(|hash| ["secret".to_owned(), hash]));
        let mut thing = |kind: &str, name: &str, value: &str| {
            arguments.extend([kind, name, value].map(str::to_owned));
        };
        // Processes and files of the attacker's own user are not worth an attack.
        if !circumstances.everything_is_one_users || circumstances.is_sandboxed {
            for (name, path) in [
                ("TLS key", private.join("key.pem")),
                ("TLS certificate", private.join("chain.pem")),
                ("access log", private.join("access.log")),
                ("log", log),
                ("PID file", private.join("pid")),
            ] {
                thing("file", name, path.to_str().unwrap());
            }
            for (name, path) in [("private directory", &private), ("state directory", &state)] {
                thing("directory", name, path.to_str().unwrap());
            }
        }
        match control.strip_prefix("unix:") {
            Some(name) => thing("socket", "control socket", name),
            None => thing("tcp", "control API", &control),
        }
        for (name, uid) in [("root", 0), ("user of the other site", world.user(USERS[1]))] {
            thing("user", name, &uid.to_string());
        }
        thing("ipc", "System V objects of the other site", IPC_KEY);
        thing("shared", "shared memory of the other site", &format!("/{SHARED_FILE}"));
        if circumstances.has_own_processes {
            arguments.push("own-processes".to_owned());
        }
        let server = site.serve_at(&address.to_string());
        let attacker = scripts_of(&outside);
        let setup =
            Setup { server, circumstances, authority, tls_address, attacker, arguments, private };
        // A worker that was just forked has its prototype's title still.
        let workers = |setup: &Setup| Some(setup.others().get("other worker")?.len());
        eventually("there are all workers", || (workers(&setup)? == WORKERS).then_some(()));
        setup
    }
}

fn scripts_of(attacker: &Path) -> PathBuf {
    attacker.join("attack")
}

/// The directory of the whole test.
pub fn base(site: &Site) -> PathBuf {
    site.root().parent().expect("the root is in a directory of the test").to_owned()
}

pub fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security/site").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Gives a directory and all in it to a user.
fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            give(&entry.path(), uid);
        }
    }
}

/// Hashes of three forms that a private key has in memory: of its text, and of the number itself in
/// either order of bytes. The attacker looks for them without knowing the key.
fn hashes(key: &str) -> Vec<String> {
    let text = key.lines().nth(2).expect("a key has several lines").as_bytes();
    let der = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    // The number in the structure of RFC 5915: version 1, and 32 bytes.
    let before: &[u8] = &[2, 1, 1, 4, 32];
    let at = der.secret_der().windows(before.len()).position(|bytes| bytes == before).unwrap();
    let number = &der.secret_der()[at + before.len()..][..32];
    let reversed: Vec<u8> = number.iter().rev().copied().collect();
    let hash = |bytes: &[u8]| {
        bytes[..32].iter().fold(0u64, |hash, byte| {
            hash.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(*byte))
        })
    };
    [text, number, &reversed].map(|bytes| format!("{:016x}", hash(bytes))).to_vec()
}
