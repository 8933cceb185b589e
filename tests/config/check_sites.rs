//! `howdah check` of several sites: everything that is wrong is said in one run, with its file.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use harness::{Site, free_address, programs, requirements};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// Checks a document beside the site.
fn check(site: &Site, name: &str, document: &Value) -> Output {
    let file = site.data().join(name);
    fs::write(&file, document.to_string()).unwrap();
    let mut command = Command::new(programs::howdah());
    programs::run(command.arg("check").arg(file).arg("--tmp").arg(site.data()))
}

/// Lines of standard error about a place of a document.
fn about(output: &Output, file: &Path, place: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let beginning = format!("{}: {place}", file.display());
    text.lines().filter(|line| line.contains(&beginning)).map(str::to_owned).collect()
}

fn one(output: &Output, file: &Path, place: &str, part: &str) {
    let found = about(output, file, place);
    assert!(found.len() == 1 && found[0].contains(part), "{place}: {part}: {output:?}");
}

#[test]
fn all_errors_of_all_applications_are_told_with_their_files() {
    let site = Site::script("index.php", "echo 1;");
    let conf = site.data().join("conf.d");
    fs::create_dir(&conf).unwrap();
    let include = |name: &str, application: Value| {
        let document = json!({"applications": {name: application}});
        fs::write(conf.join(format!("{name}.json")), document.to_string()).unwrap();
    };
    include(
        "a",
        json!({"type": "php", "root": "/no/root", "stdout": "/no/such/out",
                        "working_directory": "/no/directory"}),
    );
    include(
        "b",
        json!({"type": "php", "root": site.root(), "group": "no-such-group",
                        "options": {"file": "/proc/self/mem/php.ini"}}),
    );
    include("c", json!({"type": "php", "rot": "/x"}));
    include("d", json!({"type": "php", "root": site.root()}));
    let document = json!({
        "include": conf.join("*.json"),
        "listeners": {"127.0.0.1:80": {"pass": "applications/d"}},
        "applications": {"z": {"type": "php", "root": "/no/other"}},
    });
    let output = check(&site, "sites.json", &document);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (a, b) = (conf.join("a.json"), conf.join("b.json"));
    one(&output, &a, "/applications/a/root: ", "/no/root");
    one(&output, &a, "/applications/a/stdout: ", "/no/such/out");
    one(&output, &a, "/applications/a/working_directory: ", "/no/directory");
    one(&output, &b, "/applications/b/group: ", "no-such-group");
    one(&output, &b, "/applications/b/options/file: ", "/proc/self/mem");
    one(&output, &conf.join("c.json"), "line 1", "did you mean \"root\"?");
    one(&output, &site.data().join("sites.json"), "/applications/z/root: ", "/no/other");
    assert!(about(&output, &conf.join("d.json"), "").is_empty(), "{output:?}");
}

/// Each of these once hid the mistakes of others: a file without JSON, a circle, an unknown key.
#[test]
fn all_mistakes_of_all_files_are_told_in_one_run() {
    let site = Site::new();
    let conf = site.data().join("conf.d");
    fs::create_dir(&conf).unwrap();
    let write = |name: &str, text: &str| fs::write(conf.join(name), text).unwrap();
    write("a.json", r#"{"include": "b.json"}"#);
    write("b.json", r#"{"include": "a.json"}"#);
    write("c.json", "{");
    write(
        "d.json",
        r#"{"routes": {"d": [{"action": {"retrun": 200}}, {"action": {"return": "x"}}]}}"#,
    );
    write("e.json", r#"{"applications": {"e": {"type": "php", "root": "/x", "procesess": 1}}}"#);
    write("f.json", r#"{"include": "f.json"}"#);
    write("g.json", r#"{"routes": {"g": [{"action": {"return": 200}}]}}"#);
    write("h.json", "[]");
    let expected = [
        ("b.json", "is a circle"),
        ("c.json", "line 1"),
        ("d.json", "retrun"),
        ("d.json", "/routes/d/1/action/return"),
        ("e.json", "procesess"),
        ("f.json", "is a circle"),
        ("h.json", "must be an object"),
    ];
    let file = site.data().join("sites.json");
    for (own, of_document) in [(json!({}), None), (json!({"listners": {}}), Some("listners"))] {
        let mut document = json!({
            "include": conf.join("*.json"),
            "listeners": {"127.0.0.1:80": {"pass": "routes/g"}},
        });
        harness::merge(&mut document, own);
        let output = check(&site, "sites.json", &document);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        for (name, part) in expected {
            let file = conf.join(name).display().to_string();
            let is_told =
                |line: &&str| line.starts_with(&format!("howdah: {file}: ")) && line.contains(part);
            assert_eq!(text.lines().filter(is_told).count(), 1, "{name}: {part}: {text}");
        }
        if let Some(part) = of_document {
            one(&output, &file, "", part);
        }
        assert!(!text.contains("g.json"), "{text}");
    }
}

#[test]
fn all_certificates_that_cannot_be_used_are_told() {
    let site = Site::new();
    let authority = harness::tls::Authority::new();
    let data = site.data();
    let certificate = |name: &str| {
        let (chain, key) = authority.issue(&[&format!("{name}.example")]);
        let file = data.join(format!("{name}.pem"));
        fs::write(&file, chain + &key).unwrap();
        json!({"chain": file, "key": file})
    };
    let mut good = certificate("good");
    let other = certificate("other");
    let missing = json!({"chain": data.join("missing.pem"), "key": data.join("missing.pem")});
    fs::write(data.join("garbage.pem"), "garbage").unwrap();
    let garbage = json!({"chain": data.join("garbage.pem"), "key": data.join("garbage.pem")});
    let mut mixed = certificate("mixed");
    mixed["key"] = other["key"].clone();
    let tls = json!({
        "certificate": [missing, good.take(), garbage, mixed],
        "client_certificates": {"authorities": data.join("ca.pem")},
    });
    let document = json!({
        "listeners": {"127.0.0.1:443": {"pass": "routes", "tls": tls}},
        "routes": [{"action": {"return": 200}}],
    });
    let output = check(&site, "tls.json", &document);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = about(&output, &data.join("tls.json"), "/listeners/127.0.0.1:443/tls: ");
    for name in ["missing.pem", "garbage.pem", "mixed.pem", "ca.pem"] {
        assert!(found.iter().any(|line| line.contains(name)), "{name}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

/// PHP would wait for the writer of a FIFO, and read a device until no memory is left.
#[test]
fn a_php_ini_without_an_end_is_an_error() {
    let site = Site::script("index.php", "echo 1;");
    let [fifo, endless] = ["fifo", "endless"].map(|name| site.data().join(name));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    symlink("/dev/zero", &endless).unwrap();
    for (ini, reason) in
        [(&fifo, "regular file"), (&endless, "regular file"), (&site.data(), "directory")]
    {
        let application = json!({"type": "php", "root": site.root(), "options": {"file": ini}});
        let document = json!({"applications": {"a": application}});
        let output = check(&site, "ini.json", &document);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        one(&output, &site.data().join("ini.json"), "/applications/a/options/file: ", reason);
    }
}

#[test]
fn listeners_that_are_in_the_way_of_each_other_are_an_error() {
    let site = Site::new();
    let document = json!({
        "listeners": {"*:8080": {"pass": "routes"}, "127.0.0.1:8080": {"pass": "routes"}},
        "routes": [{"action": {"return": 200}}],
    });
    let output = check(&site, "check.json", &document);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    one(
        &output,
        &site.data().join("check.json"),
        "/listeners/127.0.0.1:8080: ",
        "only one of them",
    );
}

#[test]
fn an_address_that_no_interface_has_is_an_error() {
    if !Path::new("/proc/net/fib_trie").exists() {
        return requirements::skipped("this machine does not tell its addresses");
    }
    let site = Site::new();
    // An address for documents (RFC 5737).
    let document = json!({
        "listeners": {"192.0.2.7:8080": {"pass": "routes"}},
        "routes": [{"action": {"return": 200}}],
    });
    let output = check(&site, "check.json", &document);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    one(
        &output,
        &site.data().join("check.json"),
        "/listeners/192.0.2.7:8080: ",
        "write \"*:8080\"",
    );
}

/// Scenario: uploads ended at the smaller of two limits, without a message.
#[test]
fn limits_of_uploads_that_contradict_each_other_are_notes() {
    let site = Site::script("index.php", "echo 1;");
    let php = |settings: Value| {
        json!({"type": "php", "root": site.root(),
        "options": {"admin": settings}})
    };
    let checked = |application: Value, action: Value, settings: Value| {
        let mut action = action;
        action["pass"] = json!("applications/site");
        let document = json!({
            "listeners": {"127.0.0.1:80": {"pass": "routes"}},
            "routes": [{"action": action}],
            "applications": {"site": application},
            "settings": {"http": settings},
        });
        let output = check(&site, "check.json", &document);
        assert!(output.status.success(), "{output:?}");
        output
    };
    let file = site.data().join("check.json");
    let large =
        json!({"post_max_size": "128M", "upload_max_filesize": "128M", "memory_limit": "256M"});
    let output = checked(php(large.clone()), json!({}), json!({}));
    let ends =
        "uploads end at 8 MiB by settings/http/max_body_size, below PHP's post_max_size (128M)";
    one(&output, &file, "/settings/http/max_body_size: ", ends);
    let output = checked(php(large.clone()), json!({"max_body_size": 1 << 20}), json!({}));
    one(&output, &file, "/routes/0/action/max_body_size: ", "uploads end at 1 MiB");
    let output = checked(php(large), json!({}), json!({"max_body_size": 1 << 30}));
    one(
        &output,
        &file,
        "/settings/http/max_body_size: ",
        "uploads end at PHP's post_max_size (128M)",
    );
    let odd = json!({"post_max_size": "8M", "upload_max_filesize": "64M", "memory_limit": "4M"});
    let output = checked(php(odd), json!({}), json!({}));
    let found = about(&output, &file, "/applications/site: ");
    assert_eq!(found.len(), 2, "{output:?}");
    assert!(found[0].contains("upload_max_filesize (64M)"), "{found:?}");
    assert!(found[1].contains("memory_limit (4M) is below"), "{found:?}");
    // A customer's own file counts, unless the setting is locked.
    fs::write(
        site.root().join(".user.ini"),
        "; x\nupload_max_filesize = 1G\npost_max_size=\"16M\"\n",
    )
    .unwrap();
    let application = json!({"type": "php", "root": site.root()});
    let output = checked(application, json!({}), json!({}));
    one(&output, &file, "/applications/site: ", "upload_max_filesize (1G)");
    one(&output, &file, "/settings/http/max_body_size: ", "post_max_size (16M)");
    let fitting = json!({"post_max_size": "8M", "upload_max_filesize": "2M"});
    assert!(about(&checked(php(fitting), json!({}), json!({})), &file, "").is_empty());
}

#[test]
fn a_shared_directory_of_sessions_and_little_address_space_are_noted() {
    let site = Site::script("index.php", "echo 1;");
    let sessions = |directory: &str| {
        json!({"type": "php", "root": site.root(), "options": {"admin":
            {"session.save_handler": "files", "session.save_path": directory}}})
    };
    let applications = |b: &str| {
        let mut document = json!({
            "listeners": {"127.0.0.1:80": {"pass": "applications/a"},
                "127.0.0.1:81": {"pass": "applications/b"}},
            "applications": {"a": sessions("/tmp"), "b": sessions(b)},
        });
        document["applications"]["a"]["limits"] = json!({"rlimits": {"as": 600 << 20}});
        document["applications"]["a"]["options"]["admin"]["memory_limit"] = json!("1G");
        check(&site, "check.json", &document)
    };
    let file = site.data().join("check.json");
    let output = applications("/tmp");
    one(
        &output,
        &file,
        "/applications: ",
        "\"a\" and \"b\" have one user and keep their sessions in /tmp",
    );
    one(&output, &file, "/applications/a/limits/rlimits/as: ", "600 MiB is too low");
    assert!(about(&applications("/var/tmp"), &file, "/applications: ").is_empty());
}

#[test]
fn a_preload_script_that_a_link_of_the_root_leads_to_is_noted() {
    let site = Site::script("index.php", "echo 1;").file("preload.php", "<?php");
    let current = site.data().join("current");
    symlink(site.root(), &current).unwrap();
    let noted = |root: &Path| {
        let options = json!({"admin": {"opcache.enable": "1",
            "opcache.preload": current.join("preload.php")}});
        let document = json!({
            "listeners": {"127.0.0.1:80": {"pass": "applications/site"}},
            "applications": {"site": {"type": "php", "root": root, "options": options}},
        });
        about(
            &check(&site, "check.json", &document),
            &site.data().join("check.json"),
            "/applications/site/options: ",
        )
    };
    let found = noted(&current);
    assert!(found.len() == 1 && found[0].contains("until howdah reload"), "{found:?}");
    assert!(noted(&site.root()).is_empty());
}

#[test]
fn a_socket_that_is_not_there_is_a_warning_with_those_beside_it() {
    let site = Site::new();
    let other = site.data().join("php8.4-fpm.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&other).unwrap();
    let socket = |name: &str| format!("unix:{}", site.data().join(name).display());
    let document = |name: &str| {
        json!({
            "listeners": {"127.0.0.1:80": {"pass": "applications/fpm"}},
            "applications": {"fpm": {"type": "fastcgi", "server": socket(name), "root": "/www"}},
        })
    };
    let output = check(&site, "check.json", &document("php8.2-fpm.sock"));
    assert!(output.status.success(), "{output:?}");
    one(
        &output,
        &site.data().join("check.json"),
        "/applications/fpm/server: ",
        &other.display().to_string(),
    );
    let output = check(&site, "check.json", &document("php8.4-fpm.sock"));
    assert!(about(&output, &site.data().join("check.json"), "").is_empty(), "{output:?}");
}

#[test]
fn a_file_that_requests_would_get_403_for_is_told_with_what_to_type() {
    if !requirements::root() {
        return;
    }
    let site = Site::new()
        .file("pages/open.html", "")
        .file("pages/closed.html", "")
        .file("pages/.env", "");
    for name in ["pages/closed.html", "pages/.env"] {
        fs::set_permissions(site.root().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let document = json!({
        "listeners": {"127.0.0.1:80": {"pass": "routes"}},
        "routes": [{"action": {"share": format!("{}$uri", site.root().display())}}],
    });
    let output = check(&site, "check.json", &document);
    assert!(output.status.success(), "{output:?}");
    let file = site.data().join("check.json");
    let closed = site.root().join("pages/closed.html");
    one(
        &output,
        &file,
        "/routes/0/action/share: ",
        &format!("permit it with chmod o+r {}", closed.display()),
    );
    // The directory, if no file below it can be reached.
    fs::set_permissions(site.root().join("pages"), fs::Permissions::from_mode(0o700)).unwrap();
    let output = check(&site, "check.json", &document);
    let pages = site.root().join("pages");
    one(&output, &file, "/routes/0/action/share: ", &format!("chmod o+x {}", pages.display()));
}

#[test]
fn the_running_server_of_a_document_is_not_in_the_way() {
    let address = free_address().to_string();
    let site = Site::script("index.php", "echo 1;");
    let server = site.with(json!({"settings": {}})).serve_at(&address);
    let file = server.site.root().with_file_name("config.json");
    let text = |file: &Path| {
        let mut command = Command::new(programs::howdah());
        let output =
            programs::run(command.arg("check").arg(file).arg("--tmp").arg(server.site.data()));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(!text(&file).contains(" listens on "), "{}", text(&file));
    let copy = server.site.data().join("copy.json");
    fs::copy(&file, &copy).unwrap();
    assert!(text(&copy).contains(&format!(" listens on {address} now")), "{}", text(&copy));
}

/// Scenario: the command panicked: "failed printing to stdout: Broken pipe".
#[test]
fn output_that_nobody_reads_ends_a_command_quietly() {
    let site = Site::new();
    let pages = site.data().join("new/man");
    for arguments in [&["schema"][..], &["completions", "bash"], &["--version"], &["--help"]] {
        let mut command = Command::new(programs::howdah());
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert_eq!(said, "", "{arguments:?}");
    }
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.arg("man").arg(&pages));
    assert!(output.status.success() && pages.join("howdah.1").exists(), "{output:?}");
}

/// Scenario: the command called a directory valid that it could not look at.
#[test]
fn a_directory_that_may_not_be_listed_is_not_valid() {
    if !requirements::root() {
        return;
    }
    let site = Site::new().file("open/a.html", "").file("open/closed/.htaccess", "Nonsense");
    let checked = |directory: &Path| {
        let output = programs::run(Command::new(programs::howdah()).arg("check").arg(directory));
        let text =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
        (output.status.code(), text)
    };
    let (root, closed) = (site.root(), site.root().join("open/closed"));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let (code, text) = checked(&closed);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot be listed by the user"), "{text}");
    let (code, text) = checked(&root);
    assert_eq!(code, Some(0), "{text}");
    let note = format!("{}: files below were not looked at", closed.display());
    assert!(text.contains(&note), "{text}");
}

#[test]
fn the_grammar_of_a_site_for_another_machine_is_checked_without_its_directories() {
    // Only its owner can change it.
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("howdah.json");
    let defaults = json!({"listen": "127.0.0.1:81", "https": false});
    let whole = json!({"sites": "sites/*.json", "defaults": defaults});
    fs::write(&document, whole.to_string()).unwrap();
    let check = |text: &Value, options: &[&str]| {
        let file = directory.path().join("shop.json");
        fs::write(&file, text.to_string()).unwrap();
        let mut command = Command::new(programs::howdah());
        // Other servers of this machine are not asked.
        command.env("HOWDAH_RUNTIME_DIR", directory.path());
        command.args(["site", "--config"]).arg(&document).arg("check");
        programs::run(command.args(options).arg("--file").arg(file))
    };
    let shop = json!({"hosts": "shop.example", "root": "/no/such", "public": "pub"});
    let output = check(&shop, &["--syntax"]);
    assert!(output.status.success(), "{output:?}");
    let output = check(&shop, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/no/such"), "{output:?}");
    let mistake = json!({"hosts": "shop.example", "root": "/no/such", "rot": "/x"});
    let output = check(&mistake, &["--syntax"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("unknown key \"rot\""), "{output:?}");
}
