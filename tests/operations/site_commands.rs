//! `howdah site` and `howdah php` beside a running server.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::client::Response;
use harness::{Server, Site, eventually, open_to_all, programs, requirements, users};
use serde_json::{Value, json};

/// A server whose document has an empty directory of sites.
fn serve() -> Server {
    let site = Site::new();
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let address = harness::free_address().to_string();
    fs::create_dir(site.root().with_file_name("sites")).unwrap();
    site.with(json!({
        "sites": "sites/*.json",
        "defaults": {"listen": address},
        "routes": {},
        "listeners": {&address: {"pass": "routes/sites"}},
    }))
    .serve_at(&address)
}

/// Runs a command with the address of the server's control API.
fn run(server: &Server, words: &[&str]) -> Output {
    command(server, words).output().unwrap()
}

fn command(server: &Server, words: &[&str]) -> Command {
    let mut command = Command::new(programs::howdah());
    let control = format!("unix:{}", server.site.control_socket().display());
    command.args(&words[..1]).args(["--control", &control]).args(&words[1..]);
    command
}

/// The output of a command that succeeds.
fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command that fails complains about.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes the directory of a site with a script that says its name and who runs it.
fn directory(server: &Server, name: &str) -> PathBuf {
    let directory = server.site.root().with_file_name(format!("root-of-{name}"));
    fs::create_dir(&directory).unwrap();
    open_to_all(&directory, 0o755);
    let script = directory.join("index.php");
    fs::write(&script, format!("<?php echo '{name} ', posix_geteuid(), ' ', getenv('A');"))
        .unwrap();
    open_to_all(&script, 0o644);
    directory
}

fn file(server: &Server, name: &str) -> PathBuf {
    server.site.root().with_file_name("sites").join(format!("{name}.json"))
}

/// Adds a site with a script.
fn add(server: &Server, name: &str) {
    let root = directory(server, name);
    let host = format!("{name}.example");
    let words = ["site", "add", &host, "--name", name, "--root", root.to_str().unwrap()];
    let text = printed(&run(server, &words));
    assert!(text.contains(" answers with 200."), "{text}");
}

fn get(server: &Server, host: &str) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    server.connect().send(request).response()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_site_is_added_shown_disabled_and_removed() {
    let server = serve();
    let root = directory(&server, "a");
    let root_text = root.to_str().unwrap();
    let mut words = vec!["site", "add", "A.example", "--root", root_text];
    words.extend(["--alias", "www.a.example", "--alias", "a.example", "--alias", "WWW.a.example"]);
    let text = printed(&run(&server, &words));
    assert_eq!(text.matches("DNS: www.a.example").count(), 1, "{text}");
    assert!(text.contains("http://a.example:") && text.contains(" answers with 200."), "{text}");
    assert!(text.contains("Left to do:\n") && text.contains("DNS: www.a.example"), "{text}");
    let switch_on = "to switch HTTPS on, write \"defaults\": {\"https\": {\"email\": ";
    assert!(text.contains(&format!("HTTP only: {switch_on}")), "{text}");
    let site = file(&server, "a.example");
    assert_eq!(fs::metadata(&site).unwrap().mode() & 0o7777, 0o644);
    assert!(get(&server, "www.a.example").text().starts_with("a "));

    assert_eq!(printed(&run(&server, &["site", "list", "--names"])), "a.example\n");
    let list = json_of(&run(&server, &["site", "list", "--json"]));
    let row = &list[0];
    assert_eq!((&row["name"], &row["state"]), (&json!("a.example"), &json!("loaded")));
    assert_eq!((&row["root"], &row["requests"]), (&json!(root), &json!(2)));
    assert!(row["php"].as_str().unwrap().starts_with('8') && row["certificate"].is_null());
    let table = printed(&run(&server, &["site", "list"]));
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("SITE ") && lines[1].ends_with(" +1"), "{table}");
    assert!(lines.iter().all(|line| line.len() <= 80), "{table}");

    let shown = printed(&run(&server, &["site", "show", "a.example"]));
    for part in [
        &format!("{}:\n", site.display()),
        "found: a PHP site with index.php",
        "hosts: a.example, www.a.example",
        "application a.example: php, the server's user",
        &format!("HTTP only: site a.example; {switch_on}"),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = json_of(&run(&server, &["site", "show", "a.example", "--json"]));
    assert_eq!(shown["becomes"]["variables"]["site"]["values"]["a.example"], "a.example");

    let expanded = json_of(&run(&server, &["site", "expand", "a.example"]));
    let running = server.control("GET", "/config", "").succeeded();
    for part in ["/applications/a.example", "/routes/a.example"] {
        assert_eq!(expanded.pointer(part), running.pointer(part), "{part}");
        assert!(expanded.pointer(part).is_some(), "{part}");
    }
    assert!(expanded.get("routes").unwrap().get("default").is_none());

    printed(&run(&server, &["site", "disable", "a.example"]));
    let response = get(&server, "a.example");
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("600")));
    let list = json_of(&run(&server, &["site", "list", "--json"]));
    assert_eq!(list[0]["state"], "disabled");
    printed(&run(&server, &["site", "enable", "a.example"]));
    assert_eq!(get(&server, "a.example").status, 200);

    let text = printed(&run(&server, &["site", "remove", "a.example"]));
    assert!(text.contains(&format!("Its files stay in {root_text}")), "{text}");
    assert!(!site.exists() && root.join("index.php").exists());
    assert_eq!(get(&server, "a.example").status, 404);
}

/// A user that is removed when the test ends.
struct NewUser(String);

impl Drop for NewUser {
    fn drop(&mut self) {
        let _ = Command::new("userdel").arg(&self.0).output();
    }
}

#[test]
fn a_new_user_runs_the_scripts_of_a_new_directory() {
    if !requirements::root() {
        return;
    }
    if Command::new("useradd").arg("--version").output().is_err() {
        return requirements::skipped("there is no useradd");
    }
    // Dropped last: a user with processes cannot be removed.
    let user = NewUser(format!("howdah-t{}", std::process::id()));
    let server = serve();
    let root = server.site.root().with_file_name("new").join("shop");
    let words =
        ["site", "add", "shop.example", "--root", root.to_str().unwrap(), "--user", &user.0];
    let refused = complaint(&run(&server, &words));
    assert!(refused.contains("add --create-user to make it"), "{refused}");
    assert!(!root.exists() && !file(&server, "shop.example").exists());

    let text = printed(&run(&server, &[&words[..], &["--create-user"]].concat()));
    assert!(text.contains("is empty; put the site's files there"), "{text}");
    let found = fs::metadata(&root).unwrap();
    let (_, group) = users::www_data();
    assert_eq!((found.mode() & 0o7777, Some(found.gid())), (0o2750, group));
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with(&format!("{}:", user.0))).unwrap();
    assert!(line.ends_with("/usr/sbin/nologin"), "{line}");
    let uid: u32 = line.split(':').nth(2).unwrap().parse().unwrap();
    assert_eq!(found.uid(), uid);

    fs::write(root.join("index.php"), "<?php echo posix_geteuid();").unwrap();
    fs::write(root.join("a.txt"), "text").unwrap();
    for name in ["index.php", "a.txt"] {
        open_to_all(&root.join(name), 0o640);
        chown(root.join(name), Some(uid), None).unwrap();
    }
    let control = format!("unix:{}", server.site.control_socket().display());
    let reload = Command::new(programs::howdah()).args(["reload", "--control", &control]).status();
    assert!(reload.unwrap().success());
    assert_eq!(get(&server, "shop.example").text(), uid.to_string());
    let request = "GET /a.txt HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(request).text(), "text");
}

#[test]
fn a_site_that_cannot_be_added_leaves_nothing_behind() {
    let server = serve();
    add(&server, "a");
    let above = server.site.root().with_file_name("none");
    let root = above.join("root");
    let root = root.to_str().unwrap();
    for (words, expected) in [
        (&["b.example", "--php", "99.1"][..], "99.1"),
        (&["a.example"], "the host a.example is that of the site a"),
        (&["b.example", "--name", "a"], "there is a site a already"),
        (&["*.b.example"], "choose one with --name"),
    ] {
        let words = [&["site", "add", "--root", root], words].concat();
        let problem = complaint(&run(&server, &words));
        assert!(problem.contains(expected), "{expected}: {problem}");
        assert!(!above.exists(), "{words:?}");
        let sites = fs::read_dir(file(&server, "a").parent().unwrap()).unwrap();
        assert_eq!(sites.count(), 1, "{words:?}");
    }
    let script = directory(&server, "script").join("index.php");
    let before = fs::metadata(&script).unwrap();
    for (root, expected) in [
        (script.to_str().unwrap(), "is not a directory; name the directory that holds the site"),
        ("/", "\"/\" has files of the system"),
        ("/etc", "\"/etc\" has files of the system"),
        ("/home", "\"/home\" has files of the system or of others"),
    ] {
        let words = ["site", "add", "b.example", "--root", root];
        let problem = complaint(&run(&server, &words));
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
    let after = fs::metadata(&script).unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
    for words in [
        &["../b"][..],
        &["b.example", "--name", "../b"],
        &["b.example", "--name", "default"],
        &["b.example/x"],
        &["b.example", "--user", "-o"],
        &["b.example", "--email", "x"],
    ] {
        let words = [&["site", "add", "--root", root], words].concat();
        assert_eq!(run(&server, &words).status.code(), Some(2), "{words:?}");
    }
    assert!(get(&server, "a.example").text().starts_with("a "));
}

#[test]
fn a_directory_that_has_other_sites_is_left_as_it_is_and_told() {
    let server = serve();
    add(&server, "a");
    let root = server.site.root();
    let above = root.parent().unwrap();
    let before = fs::metadata(above).unwrap();
    let words = ["site", "add", "b.example", "--root", above.to_str().unwrap()];
    let output = run(&server, &words);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = format!("files: {} has those of the site a (", above.display());
    assert!(told.contains(&expected), "{output:?}");
    let after = fs::metadata(above).unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
}

#[test]
fn what_is_no_file_of_a_site_is_told_with_what_to_do() {
    let server = serve();
    add(&server, "a");
    fs::create_dir(file(&server, "directory")).unwrap();
    symlink("/none/site.json", file(&server, "link")).unwrap();
    fs::write(file(&server, "b").with_extension("conf"), "").unwrap();
    fs::write(file(&server, "c").with_extension("json~"), "").unwrap();
    let output = run(&server, &["site", "check"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let check = String::from_utf8_lossy(&output.stderr).into_owned();
    let output = run(&server, &["reload"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let reload = String::from_utf8_lossy(&output.stderr).into_owned();
    for (text, by) in [(&check, "check"), (&reload, "reload")] {
        assert!(text.contains("it is a directory, and a site is a file; give"), "{by}: {text}");
        let link = "it is a link to \"/none/site.json\", which is not there; make that file";
        assert!(text.contains(link), "{by}: {text}");
    }
    let other =
        format!("{} is no site, as its name", file(&server, "b").with_extension("conf").display());
    assert_eq!(check.matches("is no site").count(), 1, "{check}");
    assert!(check.contains(&other) && !check.contains("json~"), "{check}");
    assert!(get(&server, "a.example").text().starts_with("a "));
}

#[test]
fn notes_about_a_site_are_told_when_it_is_checked() {
    let server = serve();
    add(&server, "a");
    let project = json!({"require": {"php": "^99"}}).to_string();
    let root = server.site.root().with_file_name("root-of-a");
    fs::write(root.join("composer.json"), project).unwrap();
    let output = run(&server, &["site", "check"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let expected = format!("note: {}: line ", file(&server, "a").display());
    assert!(told.contains(&expected) && told.contains("no installed version is"), "{told}");
}

#[test]
fn the_address_for_the_authority_is_added_to_the_document() {
    let server = serve();
    let document = server.site.root().with_file_name("config.json");
    let before = fs::read_to_string(&document).unwrap();
    // No server: certificates would be ordered.
    let before = before.replace("\"defaults\":", "\"defaults\": // of all sites\n");
    let other = document.with_file_name("other.json");
    fs::write(&other, &before).unwrap();
    let root = directory(&server, "b");
    let words = ["site", "add", "b.example", "--root", root.to_str().unwrap()];
    let words = [&words[..], &["--email", "a@b.example", "--config", other.to_str().unwrap()]];
    let text = printed(&run(&server, &words.concat()));
    assert!(text.contains("No server with "), "{text}");
    let after = fs::read_to_string(&other).unwrap();
    assert!(after.contains("// of all sites\n") && after.contains("\"a@b.example\""), "{after}");
    let words = ["site", "--config", other.to_str().unwrap(), "expand", "b.example"];
    let expanded = json_of(&run(&server, &words));
    assert_eq!(expanded["listeners"]["*:443"]["tls"]["acme"][0]["email"], "a@b.example");
}

#[test]
fn each_mistake_has_its_file_and_line_and_the_good_file_stays() {
    let server = serve();
    add(&server, "a");
    let good = printed(&run(&server, &["site", "check"]));
    assert_eq!(good, "The site is valid.\n");
    let new = server.site.data().join("b.json");
    open_to_all(&server.site.data(), 0o755);
    let wrong = "{\n  \"hosts\": [\"b.example\", \"a.example\"],\n  \"rot\": 1, \"root\": \"x\"\n}";
    fs::write(&new, wrong).unwrap();
    let new = new.to_str().unwrap();
    let output = run(&server, &["site", "check", "--file", new, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let all = json_of(&output);
    assert_eq!((&all[0]["line"], &all[1]["line"]), (&json!(2), &json!(3)), "{all}");
    assert_eq!((&all[0]["path"], &all[0]["file"]), (&json!("/hosts/1"), &json!(new)));
    let lines = complaint(&run(&server, &["site", "check", "--file", new]));
    assert!(lines.contains("unknown key"), "{lines}");
    let root = server.site.root().with_file_name("root-of-a");
    let site = json!({"hosts": "b.example", "root": root, "user": "no-such-user"});
    fs::write(new, site.to_string()).unwrap();
    if requirements::root() {
        let lines = complaint(&run(&server, &["site", "check", "--file", new]));
        assert!(lines.contains(": /user: "), "{lines}");
    }

    let before = fs::read(file(&server, "a")).unwrap();
    let editor = |script: &str| {
        let mut edit = command(&server, &["site", "edit", "a"]);
        edit.env_remove("VISUAL").env("EDITOR", format!("sed -i {script}"));
        edit.env("TMPDIR", server.site.root().with_file_name("tmp")).output().unwrap()
    };
    let problem = complaint(&editor("s/hosts/host/"));
    assert!(problem.contains("a.json: line 2") && problem.contains("unknown key"), "{problem}");
    assert!(problem.contains("your text is kept in"), "{problem}");
    assert_eq!(fs::read(file(&server, "a")).unwrap(), before);
    assert_eq!(printed(&editor("s/x/x/")), "Nothing was changed.\n");
    assert_eq!(printed(&editor("s/a.example/c.example/")), "a: changed\n");
    assert_eq!((get(&server, "c.example").status, get(&server, "a.example").status), (200, 404));
}

#[test]
fn a_link_in_the_directory_of_sites_is_not_written_through() {
    let server = serve();
    add(&server, "a");
    let (site, target) = (file(&server, "a"), server.site.root().with_file_name("target.json"));
    fs::rename(&site, &target).unwrap();
    symlink(&target, &site).unwrap();
    let before = fs::read(&target).unwrap();
    let problem = complaint(&run(&server, &["site", "disable", "a"]));
    assert!(problem.contains("it is a link"), "{problem}");
    assert_eq!(fs::read(&target).unwrap(), before);
    let above = site.parent().unwrap();
    fs::set_permissions(above, fs::Permissions::from_mode(0o777)).unwrap();
    let root = directory(&server, "b");
    let words = ["site", "add", "b.example", "--root", root.to_str().unwrap()];
    assert!(complaint(&run(&server, &words)).contains("chmod go-w"));
    assert!(!file(&server, "b.example").exists());
    fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_site_is_renamed_and_restarted_and_its_log_lines_are_shown() {
    let server = serve();
    add(&server, "a");
    add(&server, "b");
    let b = server.titled_worker("b");
    printed(&run(&server, &["site", "rename", "a", "c"]));
    assert!(get(&server, "a.example").text().starts_with("a "));
    assert_eq!(printed(&run(&server, &["site", "list", "--names"])), "b\nc\n");
    assert_eq!(server.titled_worker("b"), b);
    assert!(
        complaint(&run(&server, &["site", "rename", "c", "b"])).contains("there is such a file")
    );
    let worker = server.titled_worker("c");
    assert_eq!(printed(&run(&server, &["site", "restart", "c"])), "c: restarted\n");
    server.wait_for_end_of(worker);
    assert!(complaint(&run(&server, &["site", "show", "a.example"])).contains("is called c"));
    let root = server.site.root().with_file_name("root-of-a");
    fs::write(root.join("index.php"), "<?php error_log('a message of this site');").unwrap();
    let log = eventually("the message is in the log", || {
        get(&server, "a.example");
        let log = printed(&run(&server, &["site", "logs", "c", "-n", "50"]));
        log.contains("a message of this site").then_some(log)
    });
    assert!(!log.contains("\"b\""), "{log}");
}

#[test]
fn a_script_runs_with_what_the_site_has() {
    let server = serve();
    let php = |path: &Path| path.join("php8.2").exists() || path.join("php8.4").exists();
    if !php(Path::new("/usr/bin")) {
        return requirements::skipped("there is no PHP for the command line");
    }
    add(&server, "a");
    let mut site: Value = serde_json::from_slice(&fs::read(file(&server, "a")).unwrap()).unwrap();
    site["environment"] = json!({"A": "of the site"});
    site["php"] = json!({"ini": {"memory_limit": "77M", "user_agent": "a \"b\" c"}});
    fs::write(file(&server, "a"), site.to_string()).unwrap();
    let code = "echo getenv('A'), '|', ini_get('memory_limit'), '|', ini_get('user_agent'), '|', \
                posix_geteuid(), '|', $argv[1];";
    let mut php = command(&server, &["php", "--site", "a", "-r", code, "--", "x y"]);
    let output = php.current_dir("/").output().unwrap();
    let user = users::www_data().0.filter(|_| rustix::process::geteuid().is_root());
    let user = user.unwrap_or(rustix::process::geteuid().as_raw());
    assert_eq!(printed(&output), format!("of the site|77M|a \"b\" c|{user}|x y"));
}

#[test]
fn the_list_says_why_the_file_of_a_site_is_not_used() {
    let server = serve();
    add(&server, "b");
    fs::write(file(&server, "b"), "{\"hosts\": \"b.example\", \"rot\": 1}").unwrap();
    fs::write(file(&server, "c"), "{\"hosts\": \"c.example\"}").unwrap();
    server.control("POST", "/control/reload", "");
    let list = json_of(&run(&server, &["site", "list", "--json"]));
    let states: Vec<_> = [0, 1].iter().map(|at| &list[at]["state"]).collect();
    assert_eq!(states, [&json!("former"), &json!("problem")], "{list}");
    let problem = list[0]["problem"].as_str().unwrap();
    assert!(problem.contains("unknown key \"rot\"; did you mean \"root\"?"), "{problem}");
    let table = printed(&run(&server, &["site", "list"]));
    assert!(table.contains("\nb: line 1, ") && table.contains("\nc: line 1, "), "{table}");
    assert_eq!(get(&server, "b.example").status, 200);
}
