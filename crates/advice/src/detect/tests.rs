use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::kind::wordpress_version;
use super::*;
use howdah_config::{ActionKind, Config, EnvironmentSource, Pass, Target};

/// Creates a directory with these files; in `NAME=CONTENT`, the file has this content.
fn directory(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for file in files {
        let (name, content) = file.split_once('=').unwrap_or((file, ""));
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, content).expect("written");
    }
    directory
}

fn kind(files: &[&str]) -> Kind {
    detect(directory(files).path()).expect("a site").kind
}

fn config(site: &Site) -> Config {
    let listen = ["127.0.0.1:8080".to_owned()];
    Config::from_value(site.document(&listen, Some(4))).expect("a valid document")
}

#[test]
fn a_public_directory_is_the_root_and_composer_names_the_framework() {
    let laravel = directory(&[
        "public/index.php",
        "index.php",
        "artisan",
        r#"composer.json={"require": {"php": "^8.2", "laravel/framework": "^11", "symfony/x": "1"}}"#,
    ]);
    let site = detect(laravel.path()).expect("a site");
    assert_eq!(site.root, laravel.path().join("public"));
    let lines = site.explain();
    assert_eq!(
        lines[0],
        "found: Laravel (composer.json requires laravel/framework), with public/index.php"
    );
    assert_eq!(lines[1], format!("root: {}/public", laravel.path().display()));

    let symfony =
        kind(&["public/index.php", r#"composer.json={"require": {"symfony/runtime": "7"}}"#]);
    let framework = Framework { name: "Symfony", evidence: Evidence::Package("symfony/") };
    assert_eq!(
        symfony,
        Kind::PublicFrontController { public: "public", framework: Some(framework) }
    );
}

#[test]
fn a_framework_is_also_known_by_its_console() {
    for (file, name) in [("artisan", "Laravel"), ("bin/console", "Symfony")] {
        let framework = Some(Framework { name, evidence: Evidence::File(file) });
        let expected = Kind::PublicFrontController { public: "public", framework };
        assert_eq!(kind(&["public/index.php", file, "composer.json={broken"]), expected);
    }
    let none = Kind::PublicFrontController { public: "public", framework: None };
    assert_eq!(kind(&["public/index.php", r#"composer.json={"require": []}"#]), none);
}

#[test]
fn a_web_directory_is_the_root_only_in_a_project() {
    let public = |public| Kind::PublicFrontController { public, framework: None };
    assert_eq!(kind(&["web/index.php"]), public("web"));
    assert_eq!(kind(&["webroot/index.php", "index.php", "composer.json={}"]), public("webroot"));
    assert_eq!(kind(&["web/index.php", "index.php"]), Kind::FrontController { framework: None });
}

#[test]
fn wordpress_is_known_with_its_version() {
    let version = |version: Option<&str>| Kind::WordPress { version: version.map(str::to_owned) };
    let text = "wp-includes/version.php=<?php\n$wp_version = '6.1.1';\n$wp_db_version = 1;";
    assert_eq!(kind(&["index.php", text]), version(Some("6.1.1")));
    assert_eq!(kind(&["index.php", "wp-load.php"]), version(None));
    for broken in ["$wp_version = '", "$wp_version = '6\n1';", "$wp_version = '';", "\u{0}"] {
        assert_eq!(kind(&[&format!("wp-includes/version.php={broken}")]), version(None));
    }
}

#[test]
fn other_public_directories_count_in_a_project_without_an_index() {
    let public = |public| Kind::PublicFrontController { public, framework: None };
    assert_eq!(kind(&["www/index.php", "vendor/autoload.php", "lib/a.php"]), public("www"));
    assert_eq!(kind(&["htdocs/index.php", "composer.json={}"]), public("htdocs"));
    let old = Kind::FrontController { framework: None };
    assert_eq!(kind(&["www/index.php", "index.php", "vendor/autoload.php"]), old);
    assert_eq!(kind(&["www/index.php", "htdocs/a.php"]), Kind::PhpFiles, "no project");
}

#[test]
fn an_index_is_a_front_controller() {
    let site = detect(directory(&["index.php", "a.css"]).path()).expect("a site");
    assert_eq!(site.kind, Kind::FrontController { framework: None });
    assert_eq!(site.root, site.directory);
}

#[test]
fn scripts_without_index_are_run_by_name() {
    assert_eq!(kind(&["info.php"]), Kind::PhpFiles);
    assert_eq!(kind(&["index.html", "tools/deep/er/info.php"]), Kind::PhpFiles);
    assert_eq!(kind(&["a/b/c/d/e/info.php"]), Kind::Static, "too deep to look for");
}

#[test]
fn a_project_without_its_public_index_is_refused_with_the_remedy() {
    let laravel = r#"composer.json={"require": {"laravel/framework": "^11"}}"#;
    for (files, project) in [
        (&["artisan", "public/index.html", "database/database.sqlite"][..], "Laravel"),
        (&[laravel, "app/a.php", "public/robots.txt"], "Laravel"),
        // A common layout on shared hosting.
        (&[laravel, "index.php", "public/robots.txt"], "Laravel"),
        (&["bin/console", "src/Kernel.php", "public/robots.txt"], "Symfony"),
        (&["composer.json={}", "src/a.php", "public/robots.txt"], "Composer"),
        (&["composer.lock", "index.html", "public/robots.txt"], "Composer"),
        (&["vendor/autoload.php", "public/robots.txt"], "Composer"),
    ] {
        let site = directory(files);
        let line = detect(site.path()).expect_err("refused").to_string();
        assert!(
            line.contains(&format!("a project of {project} without public/index.php")),
            "{line}"
        );
        let public = site.path().join("public");
        assert!(line.contains(&format!("perhaps {public:?}, or write a config")), "{line}");
        assert!(detect(&public).is_ok(), "what it says to do works");
    }
    let line = detect(directory(&["artisan"]).path()).expect_err("refused").to_string();
    assert!(line.contains("name the directory that visitors may see"), "{line}");
}

#[test]
fn a_site_with_composer_beside_its_index_is_served() {
    let old = |framework| Kind::FrontController { framework };
    assert_eq!(kind(&["composer.json={}", "vendor/autoload.php", "index.php"]), old(None));
    // PrestaShop and Drupal without a public directory.
    for (files, name) in [
        (&["index.php", "bin/console", "composer.json={}"][..], "Symfony"),
        (&["index.php", r#"composer.json={"require": {"drupal/core": "10"}}"#], "Drupal"),
    ] {
        let Kind::FrontController { framework: Some(found) } = kind(files) else { panic!() };
        assert_eq!(found.name, name);
    }
    let wordpress = kind(&["composer.json={}", "wp-load.php", "index.php"]);
    assert_eq!(wordpress, Kind::WordPress { version: None });
}

/// Returns two flags: the steps before the site's own refuse the path; they keep its script from
/// running.
fn is_closed(site: &Site, path: &str) -> (bool, bool) {
    let config = config(site);
    let (_, steps) = config.routes[0].steps.split_last().expect("a step");
    let step = steps.iter().find(|step| {
        let uri = step.conditions.uri.as_ref();
        uri.expect("a pattern").matches(path.as_bytes())
    });
    match step.map(|step| &step.action.kind) {
        Some(ActionKind::Return(answer)) => (answer.status == 403, true),
        Some(ActionKind::Share(share)) => (false, share.scripts.is_none()),
        Some(_) => panic!("another action"),
        None => (false, false),
    }
}

#[test]
fn directories_for_uploads_run_no_scripts() {
    for (files, uploads) in [
        (&["wp-load.php", "index.php"][..], "/wp-content/uploads/2026"),
        (&["wp-load.php", "index.php"], "/wp-content/blogs.dir/2/files"),
        (&["wp-load.php", "index.php"], "/wp-content/Uploads"),
        (&["web/index.php", "web/wp/wp-load.php"], "/app/uploads"),
        (&["index.php", "core/lib/Drupal.php"], "/sites/default/files/x"),
        (&["web/index.php", "web/core/lib/Drupal.php"], "/sites/example.org/files"),
        (&["index.php", "administrator/manifests/files/joomla.xml"], "/images"),
        (&["index.php", "administrator/manifests/files/joomla.xml"], "/media/x/y"),
        (&["index.php", "includes/WebStart.php"], "/images/a/ab"),
        (&["index.php", "typo3conf/LocalConfiguration.php"], "/fileadmin"),
        (&["public/index.php", "vendor/typo3/cms-core/composer.json"], "/fileadmin/user_upload"),
        (&["public/index.php", "artisan"], "/storage/avatars"),
        (&["index.php", "composer.json={}"], "/vendor/phpunit/src/Util/PHP"),
    ] {
        let site = detect(directory(files).path()).expect("a site");
        for script in ["a.php", "a.php/b.css", "a\n.php", ".php", "a.php.php"] {
            let path = format!("{uploads}/{script}");
            assert!(is_closed(&site, &path).1, "{path:?}");
        }
        for script in ["a.php", "a.php/b.css"] {
            let path = format!("{uploads}/{script}");
            assert!(is_closed(&site, &path).0, "{path:?}");
        }
        for file in ["a.png", "a.php.png", ""] {
            let path = format!("{uploads}/{file}");
            assert_eq!(is_closed(&site, &path), (false, true), "{path:?}");
        }
        let elsewhere = format!("/x{uploads}/a.php");
        assert_eq!(is_closed(&site, &elsewhere), (false, false), "{elsewhere:?}");
        assert_eq!(is_closed(&site, "/index.php"), (false, false));
        assert!(site.explain().iter().any(|line| line.starts_with("closed: no PHP is run in ")));
    }
}

#[test]
fn data_beside_an_index_is_closed() {
    let drupal = &["index.php", "core/lib/Drupal.php", "composer.json={}"][..];
    let doku = &["index.php", "doku.php", "vendor/autoload.php", "composer.json={}"][..];
    for (files, path, expected) in [
        (&["index.php"][..], "/data/site.sqlite", true),
        (&["index.php"], "/db.SQLite3-wal", true),
        (&["info.php"], "/db.sqlite", true),
        (&["index.php"], "/sqlite", false),
        (&["index.php"], "/about-sqlite.html", false),
        (&["index.php"], "/composer.json", false),
        (&["index.html"], "/downloads/example.sqlite", false),
        (drupal, "/composer.lock", true),
        (drupal, "/vendor/composer/installed.json", true),
        (drupal, "/core/modules/node/node.module", true),
        (drupal, "/sites/default/services.yml", true),
        (drupal, "/sites/default/private/a.pdf", true),
        (drupal, "/core/misc/drupal.js", false),
        (doku, "/data/pages/secret.txt", true),
        (doku, "/conf/dokuwiki.php", true),
        (doku, "/lib/exe/css.php", false),
        (doku, "/data", false),
    ] {
        let site = detect(directory(files).path()).expect("a site");
        let is_closed = site.has_php() && is_closed(&site, path).0;
        assert_eq!(is_closed, expected, "{files:?} {path}");
    }
}

#[test]
fn files_are_found_among_many_others() {
    // More than are kept, and half as many if case is ignored.
    let names = (0..2000).flat_map(|number| ["a", "A"].map(|name| format!("{name}{number}")));
    let names: Vec<_> = names.collect();
    let mut files: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(kind(&files), Kind::Static);
    files.extend(["wp-load.php", "wp-content/uploads/a", "composer.json={}"]);
    let site = detect(directory(&files).path()).expect("a site");
    assert_eq!(site.kind, Kind::WordPress { version: None });
    assert_eq!(
        site.closed_paths.without_scripts,
        ["wp-content/uploads", "wp-content/blogs.dir", "vendor"]
    );
}

#[test]
fn everything_else_is_files() {
    assert_eq!(kind(&[]), Kind::Empty);
    assert_eq!(
        kind(&["index.html", "php", "x.php.txt", ".hidden.php", ".git/x.php"]),
        Kind::Static
    );
    // A directory with that name is not a script.
    assert_eq!(kind(&["index.php/readme"]), Kind::Static);
}

#[test]
fn a_circle_of_links_ends() {
    let site = directory(&["a/b/x"]);
    symlink(site.path(), site.path().join("a/b/up")).expect("linked");
    symlink("loop.php", site.path().join("index.php")).expect("linked");
    assert_eq!(detect(site.path()).expect("a site").kind, Kind::PhpFiles);
}

#[test]
fn a_root_that_is_a_link_stays_one() {
    let site = directory(&["releases/1/public/index.php"]);
    let current = site.path().join("current");
    symlink("releases/1", &current).expect("linked");
    assert_eq!(detect(&current).expect("a site").root, current.join("public"));
}

#[test]
fn each_kind_of_site_gets_a_valid_document() {
    for (files, front) in [
        (&["public/index.php"][..], true),
        (&["wp-load.php", "index.php"], true),
        (&["index.php"], true),
        (&["info.php"], false),
    ] {
        let site = detect(directory(files).path()).expect("a site");
        let config = config(&site);
        let application = config.application("site").expect("an application");
        assert_eq!(application.processes, howdah_config::Processes::Static(4));
        assert_eq!(application.targets[0].root, site.root);
        let ActionKind::Share(share) = &config.routes[0].steps.last().unwrap().action.kind else {
            panic!("a share")
        };
        assert_eq!(share.index, ["index.php", "index.html"]);
        assert!(matches!(&share.scripts, Some(Pass::Fixed(Target::Application { .. }))));
        let fallback = share.fallback.as_ref().map(|action| &action.kind);
        assert_eq!(matches!(fallback, Some(ActionKind::Pass(Pass::Fixed(_)))), front, "{files:?}");
        assert_eq!(application.targets.get(1).is_some(), front);
    }
}

#[test]
fn a_site_without_php_needs_no_application() {
    let site = detect(directory(&["index.html"]).path()).expect("a site");
    assert!(!site.has_php());
    assert!(config(&site).applications.is_empty());
}

#[test]
fn a_dollar_sign_in_the_directory_is_no_variable() {
    let site = directory(&["a$uri${host}/index.php"]);
    let site = detect(&site.path().join("a$uri${host}")).expect("a site");
    let config = config(&site);
    let ActionKind::Share(share) = &config.routes[0].steps.last().unwrap().action.kind else {
        panic!("a share")
    };
    let mut path = Vec::new();
    share.paths[0].expand(&mut path, |_, out| out.extend_from_slice(b"/x"));
    assert_eq!(path, site.root.join("x").as_os_str().as_bytes());
}

#[test]
fn what_cannot_be_served_is_refused_with_the_remedy() {
    let site = directory(&["index.php"]);
    let line = |path: &Path| detect(path).expect_err("refused").to_string();
    assert!(
        line(&site.path().join("no"))
            .ends_with("does not exist; name the directory that holds the site")
    );
    assert!(
        line(&site.path().join("index.php")).contains("is not a directory; name the directory")
    );
    let document = site.path().join("site.json");
    fs::write(&document, "{}").expect("written");
    assert!(line(&document).contains("a configuration is served with --config"));
    assert!(line(&site.path().join("index.php/x")).contains("is not a directory"));
    let odd = site.path().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&odd).expect("created");
    assert!(line(&odd).contains("is not UTF-8; rename"));
}

#[test]
fn a_directory_without_permission_is_refused_with_the_remedy() {
    let site = directory(&["public/index.php"]);
    for closed in [site.path().join("public"), site.path().to_owned()] {
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
        let result = detect(site.path());
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("opened");
        match result {
            // Root can read everything.
            Ok(site) => assert!(matches!(site.kind, Kind::PublicFrontController { .. })),
            Err(error) => {
                let line = error.to_string();
                assert!(line.contains("no permission to read") && line.contains("chmod"), "{line}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_composer_file_and_no_version_file_harm(
        text in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let site = directory(&["public/index.php", "composer.json", "wp-includes/version.php"]);
        fs::write(site.path().join("composer.json"), &text).expect("written");
        prop_assert!(detect(site.path()).is_ok());
        let version = [b"<?php $wp_version = '".as_slice(), &text].concat();
        fs::write(site.path().join("wp-includes/version.php"), version).expect("written");
        wordpress_version(&site.path().join("wp-includes/version.php"));
    }
}

#[test]
fn a_script_that_can_stay_in_memory_is_offered_and_used_only_if_wanted() {
    let octane = directory(&["public/index.php", "public/frankenphp-worker.php", "artisan"]);
    let mut site = detect(octane.path()).expect("a site");
    let lines = site.explain();
    let offer = "worker mode: possible (frankenphp-worker.php is there); turn it on with --worker";
    assert!(lines.iter().any(|line| line == offer), "{lines:?}");
    assert!(config(&site).applications[0].worker.is_none());
    site.is_resident = true;
    let served = config(&site);
    let application = &served.applications[0];
    assert_eq!(application.worker.as_ref().unwrap().script, "frankenphp-worker.php");
    assert_eq!(application.targets[0].script.as_deref(), Some("index.php"));
    let base = octane.path().display().to_string();
    assert!(
        application
            .environment
            .contains(&("APP_BASE_PATH".to_owned(), EnvironmentSource::Text(base)))
    );
    assert!(site.explain()[2].ends_with("goes to frankenphp-worker.php, which stays in memory"));
    let runner = "vendor/symfony/runtime/Runner/FrankenPhpWorkerRunner.php";
    let package = "vendor/runtime/frankenphp-symfony/src/Runtime.php";
    for (file, variables) in [(runner, 0), (package, 1)] {
        let symfony = directory(&["public/index.php", file]);
        let site = detect(symfony.path()).expect("a site");
        let worker = site.worker_script.expect("a worker script");
        assert_eq!((worker.script.as_str(), worker.environment.len()), ("index.php", variables));
    }
    let plain = directory(&["public/index.php"]);
    assert_eq!(detect(plain.path()).expect("a site").worker_script, None);
}

#[test]
fn with_htaccess_files_all_shares_read_them_and_apache_is_named() {
    let wordpress = directory(&["wp-load.php", "index.php"]);
    let mut site = detect(wordpress.path()).expect("a site");
    site.obeys_htaccess = true;
    let config = config(&site);
    assert!(config.applications[0].obeys_htaccess);
    let software = config.applications[0].server_software.as_deref().unwrap_or_default();
    assert!(software.contains("Apache"), "{software}");
    let roots = config.htaccess_roots();
    let [(root, settings)] = &roots[..] else { panic!("{roots:?}") };
    assert_eq!(root, wordpress.path());
    // The closures belong to the files that rules lead to.
    assert_eq!(settings.without_scripts, ["~(?i)^/(wp-content/uploads|wp-content/blogs\\.dir)/"]);
    assert!(settings.closed.iter().any(|path| path.contains("sqlite")));
    let files = directory(&["a.txt"]);
    let mut site = detect(files.path()).expect("a site");
    site.obeys_htaccess = true;
    let config = self::config(&site);
    assert_eq!(config.htaccess_roots().len(), 1);
}

/// Makes a FIFO.
fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// A server that root has started looks at the directories of customers, who may change them
/// meanwhile.
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let site = tempfile::tempdir().unwrap();
    let at = |name: &str| site.path().join(name);
    fs::create_dir(at("wp-includes")).unwrap();
    fs::write(at("index.php"), "").unwrap();
    fs::write(at("wp-load.php"), "").unwrap();
    for target in ["fifo", "/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/mem", "/proc"] {
        for name in ["composer.json", "wp-includes/version.php", "artisan"] {
            let _ = fs::remove_file(at(name));
            if target == "fifo" {
                fifo(&at(name));
            } else {
                std::os::unix::fs::symlink(target, at(name)).unwrap();
            }
        }
        let found = detect(site.path()).unwrap();
        assert_eq!(found.kind, Kind::WordPress { version: None }, "{target}");
        assert_eq!(detect_public(site.path(), Path::new(".")).unwrap().kind, found.kind);
    }
}

#[test]
fn a_file_that_is_replaced_while_it_is_opened_is_not_waited_for() {
    let site = tempfile::tempdir().unwrap();
    let (file, other) = (site.path().join("composer.json"), site.path().join("other"));
    fs::write(&file, "{}").unwrap();
    fifo(&other);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swap = || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, &file, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        };
        let swapping = scope.spawn(swap);
        let read = (0..5000).filter_map(|_| read_start(&file, 10));
        read.for_each(|text| assert_eq!(text, b"{}"));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        swapping.join().unwrap();
    });
}

#[test]
fn a_directory_of_many_entries_and_a_loop_of_links_come_to_an_end() {
    let site = tempfile::tempdir().unwrap();
    fs::create_dir(site.path().join("a")).unwrap();
    std::os::unix::fs::symlink("..", site.path().join("a/above")).unwrap();
    std::os::unix::fs::symlink("index.php", site.path().join("index.php")).unwrap();
    for number in 0..10_100 {
        fs::File::create(site.path().join(format!("a/{number}"))).unwrap();
    }
    assert!(detect(site.path()).is_err(), "index.php leads to itself");
    fs::remove_file(site.path().join("index.php")).unwrap();
    assert_eq!(detect(site.path()).unwrap().kind, Kind::Static);
}
