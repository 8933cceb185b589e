//! Settings of an application's processes: priority, umask, access log.

use harness::{Server, Site, eventually, requirements};
use serde_json::{Value, json};

/// Shows the nice value of the process and the permissions of a file that it creates.
const SHOW: &str =
    "$stat = explode(' ', preg_replace('/.*\\\\) /', '', file_get_contents('/proc/self/stat')));
    $file = tempnam(sys_get_temp_dir(), 'x'); unlink($file); touch($file);
    printf('%d %04o', $stat[16], fileperms($file) & 0777); unlink($file);";

fn serve(application: Value) -> Server {
    Site::script("a.php", SHOW).with(json!({"applications": {"site": application}})).serve()
}

#[test]
fn processes_have_the_priority_and_the_umask_of_their_application() {
    let server = serve(json!({"priority": 7, "umask": "0027"}));
    assert_eq!(server.get("/a.php").text(), "7 0640");
    let server = serve(json!({"umask": "000"}));
    // Without the key, the priority is that of the server, which has the one of this process.
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own = own.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned();
    assert_eq!(server.get("/a.php").text(), format!("{own} 0666"));
    if requirements::root() {
        let server = serve(json!({"priority": -3}));
        assert!(server.get("/a.php").text().starts_with("-3 "), "{}", server.log());
        // A script may lower its priority and not raise it.
        let code = "echo @proc_nice(-5) ? 'raised' : 'kept';";
        let server = Site::script("a.php", code)
            .with(json!({"applications": {"site": {"priority": 5}}}))
            .serve();
        assert_eq!(server.get("/a.php").text(), "kept");
    }
}

#[test]
fn requests_of_an_application_are_in_its_own_log() {
    let address = harness::free_address().to_string();
    let site = Site::script("a.php", "echo 1;").file("b.txt", "b");
    let log = |name: &str| site.data().join(name).display().to_string();
    let (usual, own, action) = (log("usual.log"), log("own.log"), log("action.log"));
    let share = format!("{}$uri", site.root().display());
    let routes = json!([
        {
            "match": {"uri": "/special/*"},
            "action": {"rewrite": "/a.php", "pass": "applications/site", "access_log": &action},
        },
        {"action": {"share": share, "scripts": "applications/site"}},
    ]);
    let server = site
        .with(json!({
            "access_log": &usual,
            "applications": {"site": {"access_log": {"path": &own, "format": "$request_uri"}}},
            "listeners": {&address: {"pass": "routes"}},
            "routes": routes,
        }))
        .serve_at(&address);
    for target in ["/a.php", "/b.txt", "/special/c", "/none.php"] {
        server.get(target);
    }
    let lines = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    eventually("all lines", || {
        let all = [&usual, &own, &action].map(|path| lines(path).lines().count());
        (all.iter().sum::<usize>() == 4).then_some(())
    });
    assert_eq!(lines(&own), "/a.php\n");
    assert!(lines(&action).contains("/special/c"), "{}", lines(&action));
    assert!(lines(&usual).contains("/b.txt") && lines(&usual).contains("/none.php"));
}

/// As with PHP-FPM, a site is served even if its `php.ini` has a mistake.
#[test]
fn an_extension_that_cannot_be_loaded_is_in_the_log_and_the_site_is_served() {
    let site =
        Site::new().file("index.php", "<?php echo ini_get('memory_limit'), $undefined;").file(
            "php.ini",
            "memory_limit = 77M\nextension = nothere.so\nhtml_errors = \
                          On\ndisplay_startup_errors = On\ndisplay_errors = On\n",
        );
    let file = site.root().join("php.ini");
    let server = site.with(json!({"applications": {"site": {"options": {"file": file}}}})).serve();
    // Messages of scripts are HTML, as the setting says; those of the start are not.
    let text = server.get("/index.php").text();
    assert!(text.starts_with("77M<br />") && text.contains("<b>Warning</b>"), "{text}");
    let log = server.wait_for_log("nothere.so");
    assert!(log.contains("Unable to load dynamic library") && !log.contains("<b"), "{log}");
}
