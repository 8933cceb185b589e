//! `howdah serve DIR...`: several directories, each with the name of its host, are sites.

use std::net::{IpAddr, SocketAddr};
use std::path::{self, Path, PathBuf};

use howdah_advice::detect;
use howdah_config::include;
use howdah_sys::environment;
use serde_json::{Map, Value, json};

use super::plan::{StartupPlan, listen_addresses};
use super::reload;
use super::variables::Variables;
use super::{cache, mail_page, mail_to};
use super::{php_options, php_version};
use crate::cli::Serve;
use crate::config_file::Disk;

/// The source of the document, for messages.
const ORIGIN: &str = "the command line";

/// Shows how directories and hosts are given.
const EXAMPLE: &str = "howdah serve --host a.example /srv/a --host b.example /srv/b";

/// Returns the plan to serve the directories of the command line, each as the site of its host.
pub(super) fn plan(arguments: &Serve) -> Result<StartupPlan, String> {
    let sites = pairs(arguments)?;
    let listen = listen_addresses(arguments)?;
    let (mut named, mut explanation) = (Map::new(), Vec::new());
    for (host, directory) in &sites {
        let found = detect::detect(directory).map_err(|error| error.to_string())?;
        let lines = found.explain();
        explanation.extend(lines.iter().take(2).map(|line| format!("{host}: {line}")));
        let root = path::absolute(directory).map_err(|error| error.to_string())?;
        let root = root.to_str().ok_or_else(|| format!("{}: is not UTF-8", root.display()))?;
        let mut site = json!({"hosts": host, "root": root, "htaccess": !arguments.no_htaccess});
        match php_version::of_file(directory, &php_version::installed) {
            Ok(Some((version, line))) if arguments.php.is_none() => {
                site["php"] = json!({"version": version});
                explanation.push(format!("{host}: {line}"));
            }
            // The mistake of one directory keeps no other one from being served.
            Err(problem) if arguments.php.is_none() => {
                explanation.push(format!("{host}: {problem}; it has the newest version"));
            }
            _ => {}
        }
        if let Some(cache) = cache::of(&found, arguments) {
            site["cache"] = cache;
        }
        named.insert(name_of(host, &named), site);
    }
    let mut defaults = json!({"listen": listen, "https": false});
    if let Some(workers) = arguments.workers {
        defaults["php"] = json!({"processes": workers});
    }
    let text = json!({"sites": named, "defaults": defaults}).to_string();
    let disk = Disk::of(&arguments.common)?;
    let expanded = include::expand(text.as_bytes(), Path::new(ORIGIN), &disk)?;
    let mut document = expanded.map_or(Value::Null, |expanded| expanded.document);
    if let Some(members) = document.as_object_mut() {
        members.shift_remove("included");
        members.shift_remove("places");
    }
    if arguments.no_sandbox {
        remove_sandboxes(&mut document);
    }
    mail_to::add(&mut document, arguments.mail_to.as_deref())?;
    Variables::read(&arguments.env)?.add_to(&mut document, &environment::all());
    php_options::add(&mut document, arguments)?;
    arguments.request_lines.add(&mut document);
    reload::add(&mut document, arguments.reload_events);
    mail_page::add(&mut document, arguments.mail_page.as_deref());
    explanation.extend(reload::explain(arguments));
    if document.get("applications").is_some() {
        explanation.push(mail_to::explain(&document, arguments.mail_to.as_deref()));
    }
    Ok(StartupPlan {
        explanation,
        directories: sites.into_iter().map(|(_, directory)| directory).collect(),
        ..StartupPlan::of_document(document.to_string().into_bytes(), ORIGIN.to_owned())
    })
}

/// Returns the name of the site of a host, which no other site has.
fn name_of(host: &str, others: &Map<String, Value>) -> String {
    let mut name = match host {
        // All sites share parts of these names.
        "sites" | "default" => format!("host-{host}"),
        host => host.replace('*', "all"),
    };
    while others.contains_key(&name) {
        name.push('_');
    }
    name
}

/// Returns each host, in lower case, with its directory.
fn pairs(arguments: &Serve) -> Result<Vec<(String, PathBuf)>, String> {
    let directories: Vec<_> = arguments.dir.iter().chain(&arguments.others).collect();
    let mut sites: Vec<(String, PathBuf)> = Vec::new();
    for host in &arguments.host {
        check(host)?;
    }
    if directories.len() != arguments.host.len() {
        let counted = |number: usize, word: &str| match number {
            1 => format!("1 {word}"),
            _ => format!("{number} {word}s"),
        };
        let directories = match directories.len() {
            1 => "1 directory".to_owned(),
            number => format!("{number} directories"),
        };
        return Err(format!(
            "the command line has {directories} and {}; give each directory its host, in the same \
             order: {EXAMPLE}",
            counted(arguments.host.len(), "--host")
        ));
    }
    for (host, directory) in arguments.host.iter().zip(directories) {
        let host = host.to_ascii_lowercase();
        if let Some((_, other)) = sites.iter().find(|(known, _)| *known == host) {
            return Err(format!(
                "--host {host}: {} and {} cannot both have it; give each directory a host of its \
                 own",
                other.display(),
                directory.display()
            ));
        }
        sites.push((host, directory.clone()));
    }
    Ok(sites)
}

/// Checks a value of `--host`.
fn check(host: &str) -> Result<(), String> {
    if host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok() {
        let address = if host.parse::<SocketAddr>().is_ok() { host } else { "127.0.0.1:8080" };
        return Err(format!(
            "--host {host}: is an address, and --host is the name that requests have in their \
             field Host; an address to listen on is given with its port as --listen {address}"
        ));
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = !name.is_empty()
        && name.bytes().all(fits)
        && !name.starts_with('.')
        && !name.ends_with('.');
    if is_name || host == "*" {
        Ok(())
    } else {
        Err(format!(
            "--host \"{}\": is not the name of a host, such as shop.example, *.shop.example for \
             all names below it, or * for all others",
            host.escape_debug()
        ))
    }
}

/// Removes the sandbox of each application.
fn remove_sandboxes(document: &mut Value) {
    let applications = document.get_mut("applications").and_then(Value::as_object_mut);
    for application in applications.into_iter().flat_map(|all| all.values_mut()) {
        let isolation = application.get_mut("isolation").and_then(Value::as_object_mut);
        if let Some(isolation) = isolation {
            isolation.shift_remove("sandbox");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        let mut arguments = Serve::default();
        let mut directories = Vec::new();
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--host" => arguments.host.extend(words.next().map(str::to_owned)),
                directory => directories.push(PathBuf::from(directory)),
            }
        }
        let mut directories = directories.into_iter();
        arguments.dir = directories.next();
        arguments.others = directories.collect();
        arguments
    }

    #[test]
    fn each_directory_has_its_host_in_their_order() {
        let sites = pairs(&serve("--host A.example /a /b --host *.b.example")).unwrap();
        let expected =
            [("a.example", "/a"), ("*.b.example", "/b")].map(|(h, d)| (h.to_owned(), d.into()));
        assert_eq!(sites, expected);
    }

    #[test]
    fn a_version_of_php_that_one_directory_asks_for_in_vain_keeps_no_other_from_its_site() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["a", "b"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("index.html"), name).unwrap();
        }
        std::fs::write(at("a/.php-version"), "many\n").unwrap();
        let line = format!("--host a.example {0}/a --host b.example {0}/b", place.path().display());
        let plan = plan(&serve(&line)).unwrap();
        assert!(plan.explanation.iter().any(|line| {
            line.starts_with("a.example: ") && line.contains("\"many\" is not a version of PHP")
        }));
        assert_eq!(plan.directories.len(), 2);
    }

    #[test]
    fn sites_of_different_hosts_have_different_names() {
        let mut named = Map::new();
        for (host, expected) in [
            ("*.shop.example", "all.shop.example"),
            ("all.shop.example", "all.shop.example_"),
            ("all.shop.example_", "all.shop.example__"),
            ("default", "host-default"),
            ("host-default", "host-default_"),
            ("*", "all"),
            ("all", "all_"),
        ] {
            let name = name_of(host, &named);
            assert_eq!(name, expected);
            named.insert(name, Value::Null);
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (line, parts) in [
            ("/a /b", ["2 directories and 0 --hosts", EXAMPLE]),
            ("--host a.example", ["0 directories and 1 --host;", EXAMPLE]),
            ("--host a --host b /a", ["1 directory and 2 --hosts", EXAMPLE]),
            ("--host a --host A /a /b", ["--host a: /a and /b", "a host of its own"]),
            ("--host 127.0.0.1:80 /a", ["is an address", "--listen 127.0.0.1:80"]),
            ("--host 0.0.0.0 /a", ["is an address", "--listen 127.0.0.1:8080"]),
            ("--host a:80 /a", ["\"a:80\"", "shop.example"]),
            ("--host http://a /a", ["\"http://a\"", "shop.example"]),
        ] {
            let problem = pairs(&serve(line)).unwrap_err();
            assert!(parts.iter().all(|part| problem.contains(part)), "{line}: {problem}");
        }
    }
}
