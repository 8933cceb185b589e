//! Applications with a root directory of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Server, Site, requirements};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::isolation::{SEES, refused, sees};

/// A root for an application, with a script.
fn rootfs(code: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::Builder::new().prefix("howdah-rootfs-").tempdir().unwrap();
    harness::open_to_all(directory.path(), 0o755);
    let app = directory.path().join("srv/app");
    fs::create_dir_all(&app).unwrap();
    fs::write(app.join("index.php"), format!("<?php {code}")).unwrap();
    let path = directory.path().to_owned();
    (directory, path)
}

fn serve_in(root: &Path, isolation: Value) -> Server {
    let mut isolation = isolation;
    isolation["rootfs"] = json!(root);
    let application = json!({
        "isolation": isolation, "root": "/srv/app", "working_directory": "/srv",
        "environment": {"TMPDIR": "/tmp"},
    });
    Site::new()
        .with(json!({
            "routes": [{"action": {"pass": "applications/site"}}],
            "applications": {"site": application},
        }))
        .serve()
}

fn seen_in(server: &Server) -> Value {
    let response = server.get("/");
    assert_eq!(response.status, 200, "{response:?} {}", server.log());
    serde_json::from_str(&response.text()).unwrap_or_else(|_| panic!("{response:?}"))
}

#[test]
fn an_empty_directory_can_be_the_root_of_an_application() {
    if !requirements::root() {
        return;
    }
    let (_directory, root) = rootfs(SEES);
    let server = serve_in(&root, json!({}));
    let seen = seen_in(&server);
    let names: Vec<_> = seen["root"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in ["srv", "proc", "tmp", "usr", "etc"] {
        assert!(names.contains(&name), "{name} {names:?}");
    }
    for name in ["home", "root", "var", "bin", "boot", "sys", "dev"] {
        assert!(!names.contains(&name), "{name} {names:?}");
    }
    assert_eq!(seen["cwd"], "/srv/app");
    // PHP has the same files inside as outside: extensions, their libraries, and php.ini.
    let outside = sees(&Site::script("a.php", SEES).serve());
    assert_eq!(seen["loaded"], outside["loaded"]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(root.to_str().unwrap()), "nobody else sees the mounts: {mounts}");
    drop(server);
    // The root can be used again, with the files that the first use has left in it.
    assert_eq!(seen_in(&serve_in(&root, json!({})))["cwd"], "/srv/app");
}

#[test]
fn scripts_that_a_share_finds_are_run_where_the_application_sees_them() {
    if !requirements::root() {
        return;
    }
    let (_directory, root) = rootfs("");
    let app = root.join("srv/app");
    fs::write(app.join("b.php"), "<?php echo __FILE__, $_SERVER['DOCUMENT_ROOT'];").unwrap();
    fs::write(app.join("c.txt"), "static").unwrap();
    let server = Site::new()
        .with(json!({
            "routes": [{"action": {
                "share": format!("{}$uri", app.display()), "scripts": "applications/site",
            }}],
            "applications": {"site": {"root": "/srv/app", "isolation": {"rootfs": root}}},
        }))
        .serve();
    assert_eq!(server.get("/b.php").text(), "/srv/app/b.php/srv/app");
    assert_eq!(server.get("/c.txt").text(), "static");
}

#[test]
fn what_is_mounted_in_a_root_can_be_chosen() {
    if !requirements::root() {
        return;
    }
    let code = "echo json_encode([@scandir('/proc'), @file_put_contents('/tmp/x', 'x'),
        @file_put_contents('/usr/lib/x', 'x'), @scandir('/tmp')]);";
    let (_directory, root) = rootfs(code);
    fs::create_dir(root.join("tmp")).unwrap();
    harness::open_to_all(&root.join("tmp"), 0o777);
    let seen = seen_in(&serve_in(&root, json!({"automount": {"procfs": false, "tmpfs": false}})));
    assert_eq!((&seen[0], &seen[2]), (&json!(false), &json!(false)));
    assert!(root.join("tmp/x").exists(), "the root's own directory");
    let seen = seen_in(&serve_in(&root, json!({})));
    assert_eq!(seen[1], json!(1), "a temporary directory");
    assert_eq!(seen[2], json!(false), "libraries are for reading");
    assert_eq!(seen[3], json!([".", "..", "x"]), "and nobody else's");
    let said = refused(
        Site::new(),
        json!({"root": "/srv/app",
            "isolation": {"rootfs": root, "automount": {"language_deps": false}}}),
    );
    assert!(said.contains("it cannot be started: No such file"), "no PHP in it then: {said}");
}

#[test]
fn a_root_with_namespaces_shows_only_the_applications_processes() {
    if !requirements::root() {
        return;
    }
    let code = "echo json_encode(array_values(array_filter(scandir('/proc'), 'is_numeric')));";
    let (_directory, root) = rootfs(code);
    let namespaces = json!({"credential": true, "pid": true, "mount": true});
    let seen = seen_in(&serve_in(&root, json!({"namespaces": namespaces})));
    assert!(seen.as_array().unwrap().len() <= 4, "{seen}");
    let seen = seen_in(&serve_in(&root, json!({})));
    let own = std::process::id().to_string();
    assert!(
        !seen.as_array().unwrap().contains(&json!(own)),
        "others' processes are hidden: {seen}"
    );
}

#[test]
fn a_script_cannot_leave_its_root() {
    if !requirements::root() {
        return;
    }
    let code = "$up = str_repeat('../', 40);
        symlink('/../../../../etc/shadow', '/tmp/link');
        echo json_encode([
            scandir(\"/srv/app/$up\") == scandir('/'),
            @file_exists(\"$up/etc/shadow\"), @file_exists('/tmp/link'),
            @file_exists('/proc/1/root/etc/shadow'), @file_exists('/proc/self/root/etc/shadow'),
            @chroot('/tmp'),
        ]);";
    let (_directory, root) = rootfs(&code.replace("@chroot('/tmp'),", ""));
    let seen = seen_in(&serve_in(&root, json!({})));
    assert_eq!(seen, json!([true, false, false, false, false]));
}

/// Makes the root and `/tmp` read-only in a mount namespace of its own, all but one directory, and
/// becomes the program that is given.
const READ_ONLY: &str = r#"
    set -e
    mount --make-rprivate /
    mount --bind /tmp /tmp
    mount --bind "$1" "$1"
    mount -o remount,bind,ro /tmp
    mount -o remount,bind,ro /
    shift
    exec "$@"
"#;

#[test]
fn php_runs_with_opcache_where_root_and_tmp_are_read_only() {
    let code = "$path = ini_get('opcache.lockfile_path');
        echo json_encode([opcache_get_status(false)['opcache_enabled'],
        file_exists($path) ? $path : dirname($path), is_writable('/tmp')], \
        JSON_UNESCAPED_SLASHES);";
    let site = Site::script("a.php", code);
    let directory = site.root().parent().unwrap().to_owned();
    let path = directory.display().to_string();
    let launcher = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", &path];
    let able = Command::new(launcher[0]).args(&launcher[1..]).arg("true").output();
    if !able.is_ok_and(|output| output.status.success()) || !directory.starts_with("/tmp") {
        return requirements::skipped("no mounts can be made, or tests have their files elsewhere");
    }
    let options = |path: &str| {
        let admin = json!({"opcache.lockfile_path": path});
        json!({"applications": {"site": {"options": {"admin": admin}}}})
    };
    let tmp = directory.join("tmp").display().to_string();
    let server = site.through(&launcher).with(json!({})).serve();
    assert_eq!(server.get("/a.php").text(), json!([true, tmp, false]).to_string());
    let (_, site) = server.end(Signal::TERM);
    let data = site.data().display().to_string();
    let server = site.with(options(&data)).serve();
    assert_eq!(server.get("/a.php").text(), json!([true, data, false]).to_string());
    let (_, site) = server.end(Signal::TERM);
    let site = site.with(options("/tmp"));
    if harness::programs::php_is_at_least(8, 3) {
        // From this version on, the lock is a file in memory.
        let server = site.serve();
        assert_eq!(server.get("/a.php").text(), json!([true, "/tmp", false]).to_string());
        return;
    }
    // A setting that cannot work is reported with the remedy, and not as if PHP were missing.
    let output =
        site.command(&harness::free_address().to_string()).arg("--strict").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &fs::read_to_string(directory.join("log")).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Unable to create lock file"), "{said}");
    assert!(!said.contains("install"), "{said}");
}
