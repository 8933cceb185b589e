//! The working directory of scripts, in a worker that does not enter it for each request.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use harness::{Application, Request};
use howdah_harness::time::Stopwatch;
use howdah_wire::queue::WorkerId;

const FIRST: WorkerId = WorkerId { index: 0, incarnation: 0 };

const SHOW: &str = "<?php echo basename(getcwd()), ' ', @file_get_contents('name');";

/// Serves `name/index.php` of an application.
fn show(application: &mut Application, name: &str) -> String {
    let path = application.root.path().join(name).join("index.php");
    let request = Request::get(&path, application.root.path());
    application.send(&request).wait(application).text()
}

/// Makes a directory with a script that shows where it runs, and with its own name in it.
fn release(application: &Application, name: &str) -> PathBuf {
    let directory = application.root.path().join(name);
    application.file(&format!("{name}/name"), name);
    application.file(&format!("{name}/index.php"), SHOW);
    directory
}

/// Returns the working directory of the worker.
fn directory(application: &Application) -> PathBuf {
    let pid = application.workers[&FIRST].pid;
    fs::read_link(format!("/proc/{pid}/cwd")).unwrap()
}

#[test]
fn each_script_runs_in_its_own_directory() {
    let mut application = Application::start(1);
    for name in ["a", "b"] {
        release(&application, name);
    }
    for name in ["a", "a", "b", "a", "b", "b"] {
        assert_eq!(show(&mut application, name), format!("{name} {name}"));
    }
    let root = application.root.path().join("other.php");
    fs::write(&root, SHOW).unwrap();
    let request = Request::get(&root, application.root.path());
    let base = application.root.path().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(application.send(&request).wait(&mut application).text(), format!("{base} "));
}

#[test]
fn a_directory_that_was_replaced_is_entered_again() {
    let mut application = Application::start(1);
    let [site, next] = ["site", "next"].map(|name| release(&application, name));
    let old = application.root.path().join("old");
    assert_eq!(show(&mut application, "site"), "site site");
    assert_eq!(show(&mut application, "site"), "site site");
    fs::rename(&site, &old).unwrap();
    fs::rename(&next, &site).unwrap();
    assert_eq!(show(&mut application, "site"), "site next");
}

#[test]
fn a_release_of_the_same_files_is_entered() {
    let mut application = Application::start(1);
    for move_it in [false, true] {
        let [site, next] = ["site", "next"].map(|name| release(&application, name));
        let old = application.root.path().join(format!("old-{move_it}"));
        assert_eq!(show(&mut application, "site"), "site site");
        fs::remove_file(next.join("index.php")).unwrap();
        // Both directories have the same script, by a second name or moved.
        if move_it {
            fs::rename(site.join("index.php"), next.join("index.php")).unwrap()
        } else {
            fs::hard_link(site.join("index.php"), next.join("index.php")).unwrap()
        }
        if !move_it {
            assert_eq!(show(&mut application, "site"), "site site");
        }
        fs::rename(&site, &old).unwrap();
        fs::rename(&next, &site).unwrap();
        assert_eq!(show(&mut application, "site"), "site next", "{move_it}");
        fs::remove_dir_all(&site).unwrap();
        fs::remove_dir_all(&old).unwrap();
    }
}

#[test]
fn links_to_scripts_and_directories_lead_where_they_lead_now() {
    let mut application = Application::start(1);
    let root = application.root.path().to_owned();
    for name in ["one", "two"] {
        release(&application, name);
    }
    let current = root.join("current");
    for name in ["one", "two", "one"] {
        let _ = fs::remove_file(&current);
        symlink(root.join(name), &current).unwrap();
        for _ in 0..2 {
            assert_eq!(show(&mut application, "current"), format!("{name} {name}"));
        }
    }
    // A script of a third directory, linked to from each.
    let script = application.file("shared/index.php", SHOW);
    let [site, next] = ["site", "next"].map(|name| release(&application, name));
    for directory in [&site, &next] {
        fs::remove_file(directory.join("index.php")).unwrap();
        symlink(&script, directory.join("index.php")).unwrap();
    }
    assert_eq!(show(&mut application, "site"), "site site");
    fs::rename(&site, root.join("old")).unwrap();
    fs::rename(&next, &site).unwrap();
    assert_eq!(show(&mut application, "site"), "site next");
}

#[test]
fn what_a_script_does_to_the_directory_is_over_with_its_request() {
    let mut application = Application::start(1);
    release(&application, "a");
    let home = application.root.path().to_owned();
    for code in [
        "chdir('/');",
        "chdir('..');",
        "chdir('/nowhere');",
        "register_shutdown_function(function () { chdir('/'); });",
        "register_shutdown_function(function () { chdir('/'); }); no_such_function();",
        "chdir('/'); exit;",
        "ob_start(function ($text) { chdir('/'); return $text; });",
    ] {
        let path = application.file("a/change.php", &format!("<?php {code}"));
        let change = Request::get(&path, &home);
        for _ in 0..2 {
            assert_eq!(show(&mut application, "a"), "a a", "{code}");
            application.send(&change).wait(&mut application);
        }
    }
    assert_eq!(show(&mut application, "a"), "a a");
}

#[test]
fn code_that_runs_after_the_script_runs_in_the_applications_directory() {
    let mut application = Application::start(1);
    let home = application.root.path().to_owned();
    let print = "echo getcwd();";
    for code in [
        format!("register_shutdown_function(function () {{ {print} }});"),
        format!("class A {{ function __destruct() {{ {print} }} }} $a = new A;"),
        "ob_start(fn() => getcwd());".to_owned(),
        "header_register_callback('f'); function f() { header('X-Directory: ' . getcwd()); }"
            .to_owned(),
        format!(
            "session_save_path('{}'); session_start(); $_SESSION['a'] = 1; session_write_close();
             session_set_save_handler(new class implements SessionHandlerInterface {{
             function open($p, $n): bool {{ return true; }} function close(): bool {{ \
             {print} return true; }}
             function read($i): string|false {{ return ''; }} function write($i, $d): bool \
             {{ return true; }}
             function destroy($i): bool {{ return true; }} function gc($t): int {{ return 0; }} }});
             session_start(['use_cookies' => 0, 'cache_limiter' => '']);",
            home.display()
        ),
    ] {
        let path = application.file("sub/a.php", &format!("<?php {code}"));
        let request = Request::get(&path, &home);
        for _ in 0..2 {
            let answer = application.send(&request).wait(&mut application);
            let seen = answer.field("X-Directory").map_or_else(|| answer.text(), str::to_owned);
            assert_eq!(seen, home.to_str().unwrap(), "{code}");
        }
    }
}

#[test]
fn a_worker_without_requests_leaves_the_directory() {
    let mut application = Application::start(1);
    let site = release(&application, "a");
    assert_eq!(show(&mut application, "a"), "a a");
    let begun = Stopwatch::start();
    while directory(&application) != application.root.path() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", directory(&application));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(show(&mut application, "a"), "a a");
    assert!(site.exists());
}
