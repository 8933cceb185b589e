//! Memory that the router uses for `.htaccess` files: directives, answers, directories, passwords
//! and listings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use harness::client::Client;
use harness::http2::{Http2, kind};
use harness::{Server, Site, eventually};
use serde_json::json;

use super::memory::{Growth, MIB, serve};

/// Asks for all targets on one connection. Returns the statuses.
fn get_all(server: &Server, targets: impl Iterator<Item = String>) -> Vec<u16> {
    let mut client = server.connect();
    targets.map(|target| client.get(&target).status).collect()
}

/// Creates a directory with a path of 3.5 kB below a root, and returns the path below the root.
pub fn deep_directory(site: &Site) -> String {
    let path = format!("/{}", "d".repeat(250)).repeat(14);
    fs::create_dir_all(site.root().join(&path[1..])).unwrap();
    path
}

#[test]
fn merged_directives_of_many_directories_stay_within_their_memory() {
    let site = Site::new();
    let lines: String = (0..300).map(|n| format!("SetEnv V{n} {}\n", "v".repeat(300))).collect();
    fs::write(site.root().join(".htaccess"), lines).unwrap();
    for number in 0..800 {
        let directory = site.root().join(format!("d{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(".htaccess"), format!("SetEnv V {number}\n")).unwrap();
        fs::write(directory.join("a.txt"), "a").unwrap();
    }
    let server = serve(site);
    let growth = Growth::of(&server);
    let targets = (0..800).map(|number| format!("/d{number}/a.txt"));
    assert!(get_all(&server, targets).iter().all(|status| *status == 200));
    // The site has 8 MiB on its thread, and the files are compiled.
    growth.assert_within(8 * MIB);
}

#[test]
fn answers_and_names_that_are_not_there_stay_within_the_memory_of_their_root() {
    let site = Site::new();
    let head = format!("Header set X-H \"{}\"\n", "v".repeat(7000));
    fs::write(site.root().join(".htaccess"), head).unwrap();
    let deep = deep_directory(&site);
    for number in 0..3000 {
        fs::write(site.root().join(format!("f{number}.txt")), "x").unwrap();
    }
    let server = serve(site);
    let growth = Growth::of(&server);
    // 21 MiB of heads, then 18 MiB of names.
    let targets = (0..3000).map(|number| format!("/f{number}.txt"));
    assert!(get_all(&server, targets).iter().all(|status| *status == 200));
    let targets = (0..5000).map(|number| format!("{deep}/{number}"));
    assert!(get_all(&server, targets).iter().all(|status| *status == 404));
    growth.assert_within(2 * MIB);
}

#[test]
fn directories_that_cannot_be_watched_stay_within_the_memory_of_watches() {
    let site = Site::new();
    let deep = deep_directory(&site);
    let directory = site.root().join(&deep[1..]);
    // Each takes 7 kB.
    for number in 0..5000 {
        let path = directory.join(number.to_string());
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o311)).unwrap();
    }
    let server = serve(site);
    let growth = Growth::of(&server);
    let targets = (0..5000).map(|number| format!("{deep}/{number}/a"));
    assert!(get_all(&server, targets).iter().all(|status| matches!(status, 403 | 404)));
    growth.assert_within(4 * MIB);
    assert_eq!(server.get("/other/a.txt").text(), "other");
    for number in 0..5000 {
        let path = directory.join(number.to_string());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn fields_that_expand_to_many_megabytes_take_little_memory() {
    // Each value is 300 times that of the request's field, so almost 1 MiB.
    let rules = format!(
        "SetEnvIf X-Long (.*) L=$1\n{}",
        format!("Header add X \"{}\"\n", "%{L}e".repeat(300)).repeat(200)
    );
    let server = serve(Site::new().file(".htaccess", rules).file("a.txt", "a"));
    let growth = Growth::of(&server);
    let head = format!(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\nConnection: close\r\n\r\n",
        "a".repeat(3000)
    );
    let statuses: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| server.send(&head).status)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| matches!(status, 500 | 503)), "{statuses:?}");
    // Values of 1 MiB of each client, and copies.
    growth.assert_peak_within(4 * 8 * MIB);
}

#[test]
fn files_of_groups_that_many_clients_want_are_in_memory_once() {
    let site = Site::new().file("in/a.txt", "in");
    let root = site.root().display().to_string();
    let members: String = (0..1_500_000).map(|number| format!(" u{number}")).collect();
    fs::write(site.root().join("users"), "u:{SHA}x\n").unwrap();
    fs::write(site.root().join("groups"), format!("g:{members}\n")).unwrap();
    let rules = format!(
        "AuthType Basic\nAuthName x\nAuthUserFile {root}/users\nAuthGroupFile {root}/groups\n\
         <RequireAny>\nRequire group h\nRequire expr \"%{{REMOTE_ADDR}} == 'x'\"\n</RequireAny>\n"
    );
    fs::write(site.root().join("in/.htaccess"), rules).unwrap();
    fs::write(site.root().join("users"), format!("u:{SHA1_OF_A}\n")).unwrap();
    let server = serve(site);
    let growth = Growth::of(&server);
    let head = "GET /in/a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Basic \
                dTph\r\n\r\n";
    let statuses: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..24).map(|_| scope.spawn(|| server.send(head).status)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| matches!(status, 401 | 503)), "{statuses:?}");
    // The file has 11 MiB, and its limit is 16.
    growth.assert_peak_within(16 * MIB);
}

/// The password `a`, for which no check is slow.
const SHA1_OF_A: &str = "{SHA}hvfkN/qlp/zhXR3cuerq6jd2Z7g=";

/// A form of a password whose check takes 16 MiB (yescrypt).
const SLOW: &str = "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7";

#[test]
fn checks_of_slow_passwords_take_the_memory_of_one_for_each_client() {
    let site = Site::new().file("in/a.txt", "in");
    let root = site.root().display().to_string();
    fs::write(site.root().join("users"), format!("u:{SLOW}\n")).unwrap();
    let rules =
        format!("AuthType Basic\nAuthName x\nAuthUserFile {root}/users\nRequire valid-user\n");
    fs::write(site.root().join("in/.htaccess"), rules).unwrap();
    let server = serve(site);
    let growth = Growth::of(&server);
    let head = "GET /in/a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic dTph\r\n\r\n";
    let mut clients: Vec<Client> = (0..160).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(head);
    }
    // 128 of them wait, and further ones are refused.
    let mut statuses = Vec::new();
    eventually("some are refused, and one was checked", || {
        let ready = clients.iter_mut().filter(|client| client.has_data());
        statuses.extend(ready.map(|client| client.response().status));
        (statuses.contains(&401) && statuses.contains(&503)).then_some(())
    });
    growth.assert_peak_within(2 * 16 * MIB);
}

#[test]
fn listings_that_nobody_reads_stay_within_the_memory_of_their_site() {
    let rules = format!(
        "Options +Indexes\nIndexOptions FancyIndexing DescriptionWidth=*\nAddDescription \"{}\" \
         *\n",
        "d".repeat(8000)
    );
    let site = Site::new().file(".htaccess", rules);
    let directory = site.root().join("many");
    fs::create_dir(&directory).unwrap();
    (0..400).for_each(|number| drop(fs::File::create(directory.join(number.to_string()))));
    let address = harness::free_address().to_string();
    let root = site.root().display().to_string();
    let server = site
        .file("other/a.txt", "other")
        .with(json!({
            "listeners": { &address: { "http2": true } },
            "settings": { "listen_threads": 1 },
            "routes": [
                { "match": { "uri": "/other/*" }, "action": { "share": format!("{root}$uri") } },
                { "action": { "pass": "applications/site" } },
            ],
            "applications": { "site": { "htaccess": true } },
        }))
        .serve_at(&address);
    let growth = Growth::of(&server);
    // No windows: nothing is read. Each listing has more than 3 MiB.
    let mut client = Http2::connect(server.address, &[(4, 0)]);
    for number in 0..90 {
        client.get(2 * number + 1, &format!("/many/?x={number}"));
    }
    let mut heads = 0;
    while heads < 90 {
        let frame = client.frame().expect("the server answers");
        heads += u32::from(frame.kind == kind::HEADERS);
    }
    growth.assert_within(96 * MIB);
    assert_eq!(server.get("/other/a.txt").text(), "other");
}
