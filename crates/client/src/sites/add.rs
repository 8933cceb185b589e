//! `howdah site add`.
//!
//! 1. What can be refused without a change is refused: the name, the hosts, the directory of sites.
//! 2. The user and the directory are made.
//! 3. The file is checked in a directory of its own, and is put to its place.
//! 4. The server reads its document again, and the site is asked for its first page.
//!
//! A failure takes everything back.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Component, Path, PathBuf};

use howdah_advice::detect;
use howdah_config::include::switch_on_https;
use howdah_questions::Versions;
use serde_json::{Value, json};

use super::document::{Document, name_of};
use super::user::{Made, obstacles};
use super::{Machine, answer, check, edit, file, text};
use crate::args::sites::{AddArgs, name as check_name, read_email};
use crate::failure::Failure;
use crate::output::{one_line, write_out};

pub(super) fn run(
    mut document: Document,
    args: &AddArgs,
    machine: &dyn Machine,
) -> Result<(), Failure> {
    let name = args.name.clone().unwrap_or_else(|| args.host.clone());
    if let Err(why) = check_name(&name) {
        let problem = format!(
            "\"{name}\" cannot be the name of the site: {why}; choose one with \
                               --name"
        );
        return Err(Failure::Failed(problem));
    }
    let site = document.new_file(&name)?;
    let is_known = document.sites.named.contains(&name);
    if is_known || document.sites.files.iter().any(|file| name_of(file) == name) {
        return Err(Failure::Failed(format!(
            "there is a site {name} already; howdah site edit {name} changes it, or choose another \
             name with --name"
        )));
    }
    let root = absolute(&args.root)?;
    let mut hosts = vec![&args.host];
    for alias in &args.alias {
        if !hosts.contains(&alias) {
            hosts.push(alias);
        }
    }
    let known = check::hosts_of_others(&document, &[]);
    for host in &hosts {
        if let Some(other) = known.get(*host) {
            return Err(Failure::Failed(format!(
                "the host {host} is that of the site {} ({}); remove it there first",
                name_of(other),
                other.display()
            )));
        }
    }
    if let (Some(wanted), Some(running)) = (&args.php, &document.server) {
        installed(wanted, &running.status.modules.php)?;
    }
    let email = match &args.email {
        Some(email) => Some(email.clone()),
        None if wants_email(&document) => ask_for_email()?,
        None => None,
    };
    if let Some(email) = &email {
        document.text = with_email(&document, email)?;
    }
    let mut made = Made::default();
    let added = make(&document, args, machine, (&name, &site, &root), &hosts, &mut made);
    let is_new = match added {
        Ok(is_new) => is_new,
        Err(failure) => {
            made.undo();
            return Err(failure);
        }
    };
    let former = std::fs::read(&document.file).unwrap_or_default();
    let put = file::create(&site, &of_args(args, &root, &hosts)).and_then(|()| {
        if email.is_some() { file::replace(&document.file, &document.text) } else { Ok(()) }
    });
    let problem = match put.and_then(|()| document.reload(&site)) {
        Ok(reloaded) => reloaded.and_then(|reloaded| reloaded.problem).map(Failure::Failed),
        Err(failure) => Some(failure),
    };
    if let Some(failure) = problem {
        let _ = file::remove(&site);
        if email.is_some() {
            let _ = file::replace(&document.file, &former);
        }
        let _ = document.reload(&site);
        made.undo();
        return Err(failure);
    }
    tell(&document, args, machine, (&name, &root, is_new), &hosts)
}

/// Checks that a version of PHP is installed. An empty directory has no PHP that a check would find.
fn installed(wanted: &str, versions: &Versions) -> Result<(), Failure> {
    let begins = format!("{wanted}.");
    let all: Vec<_> = versions.all().iter().map(|module| module.version.as_str()).collect();
    if all.iter().any(|version| *version == wanted || version.starts_with(&begins)) {
        return Ok(());
    }
    let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    Err(Failure::Failed(format!(
        "the server has no PHP {wanted} (it has: {there}); install the package howdah-php{wanted} \
         and run howdah upgrade"
    )))
}

/// Makes the user and the directory, and checks the file. Returns true if the directory is new.
fn make(
    document: &Document,
    args: &AddArgs,
    machine: &dyn Machine,
    (name, site, root): (&str, &Path, &Path),
    hosts: &[&String],
    made: &mut Made,
) -> Result<bool, Failure> {
    let server = machine.server_user();
    let user = args.user.as_deref().map(|user| made.user(user, args.create_user)).transpose()?;
    let is_new = made.directory(root, user.as_ref(), server.as_ref())?;
    if let Some(directory) = site.parent() {
        file::make_directory(directory)?;
    }
    edit::checked(document, name, &of_args(args, root, hosts), Some(machine))?;
    Ok(is_new)
}

/// Returns the text of the file: a line for each key.
fn of_args(args: &AddArgs, root: &Path, hosts: &[&String]) -> Vec<u8> {
    let hosts: Vec<_> = hosts.iter().map(|host| json!(host).to_string()).collect();
    let mut lines = vec![("hosts", format!("[{}]", hosts.join(", ")))];
    lines.push(("root", json!(root).to_string()));
    let user = args.user.as_ref().map(|user| ("user", json!(user).to_string()));
    let php = args.php.as_ref().map(|php| ("php", format!("{{ \"version\": {} }}", json!(php))));
    let cache = args.preset.as_ref().map(|preset| ("cache", json!(preset).to_string()));
    lines.extend([user, php, cache].into_iter().flatten());
    let lines: Vec<_> =
        lines.iter().map(|(key, value)| format!("    \"{key}\": {value}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n")).into_bytes()
}

/// Returns the absolute path of a directory, without `..`.
fn absolute(root: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(root).map_err(|error| Failure::Failed(error.to_string()))?;
    let shown = path.display().to_string();
    if path.components().any(|part| part == Component::ParentDir) || path.to_str().is_none() {
        return Err(Failure::Failed(format!("--root {shown}: write the path without \"..\"")));
    }
    Ok(path.components().collect())
}

/// Returns true if HTTPS only waits for an e-mail address.
fn wants_email(document: &Document) -> bool {
    match document.sites.defaults.get("https") {
        None => true,
        Some(Value::String(_)) => true,
        Some(Value::Object(https)) => {
            !https.contains_key("email") && !https.contains_key("certificate")
        }
        Some(_) => false,
    }
}

/// Asks for the e-mail address for the authority, if there is a terminal.
fn ask_for_email() -> Result<Option<String>, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    eprint!(
        "HTTPS needs an e-mail address for the certificate authority, Let's Encrypt, to whose \
         terms you agree with it.\nE-mail address (empty: HTTP only): "
    );
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::Failed(format!("standard input: {error}")))?;
    match answer.trim() {
        "" => Ok(None),
        email => read_email(email)
            .map(Some)
            .map_err(|why| Failure::Failed(format!("\"{}\": {why}", one_line(email)))),
    }
}

/// Returns the text of the document with the e-mail address in its defaults.
fn with_email(document: &Document, email: &str) -> Result<Vec<u8>, Failure> {
    let defaults = &document.sites.defaults;
    let (plain, email) = (json!(email), json!(email).to_string());
    let changed = match (defaults, defaults.get("https")) {
        (Value::Null, _) => {
            let value = format!("{{ \"https\": {{ \"email\": {email} }} }}");
            text::set(&document.text, &[], "defaults", &value)
        }
        (_, None) => {
            let value = format!("{{ \"email\": {email} }}");
            text::set(&document.text, &["defaults"], "https", &value)
        }
        (_, Some(Value::Object(https))) if !https.contains_key("email") => {
            text::set(&document.text, &["defaults", "https"], "email", &email)
        }
        (_, Some(Value::Object(https))) if https.get("email") == Some(&plain) => {
            Some(document.text.clone())
        }
        _ => None,
    };
    changed.ok_or_else(|| {
        Failure::Failed(format!(
            "{}: --email cannot be added to \"defaults\", which says something else about HTTPS; \
             write \"defaults\": {{\"https\": {{\"email\": {email}}}}} there",
            document.file.display()
        ))
    })
}

/// Waits until the site answers, and prints the URL and what is left to do.
fn tell(
    document: &Document,
    args: &AddArgs,
    machine: &dyn Machine,
    (name, root, is_new): (&str, &Path, bool),
    hosts: &[&String],
) -> Result<(), Failure> {
    let server = machine.server_user();
    let mut left = Vec::new();
    let found = detect::detect(root);
    if matches!(&found, Ok(found) if found.kind == detect::Kind::Empty) {
        left.push(format!(
            "files: {} is empty; put the site's files there, then: howdah reload",
            root.display()
        ));
    }
    let user = args.user.as_deref();
    let user = user.and_then(|user| howdah_sys::credentials::Credentials::look_up(user, None).ok());
    left.extend(obstacles(root, user.as_ref(), server.as_ref()));
    left.extend(inner_site(document, name, root));
    left.extend(hosts.iter().filter_map(|host| answer::dns(host)));
    let config = document.server.as_ref().map(|running| running.client.compiled());
    let listeners = config.and_then(Result::ok).map(|config| answer::listeners(&config));
    let listeners = listeners.unwrap_or_default();
    let is_encrypted = listeners.iter().any(|(_, is_encrypted)| *is_encrypted);
    if wants_email(document) && args.email.is_none() && !is_encrypted {
        left.push(format!("HTTP only: {}", switch_on_https(&document.file)));
    }
    let mut text = String::new();
    if is_new {
        text.push_str(&format!("{} was made.\n", root.display()));
    }
    let host = hosts.first().map_or("", |host| host.as_str());
    let url = url(host, &listeners);
    let mut outcome = Ok(());
    match (&document.server, listeners.first()) {
        (None, _) => text.push_str(&format!(
            "The site {name} is written. No server with {} runs; start it: systemctl start \
             howdah\n",
            document.file.display()
        )),
        (Some(_), None) => text.push_str(&format!("The site {name} is served.\n")),
        (Some(_), Some((address, _))) => match answer::wait(address, &host.replace('*', "www")) {
            Ok(503) => {
                outcome = Err(Failure::PartsOut(4));
                text.push_str(&format!(
                    "The site {name} is there, but {url} is answered with 503; howdah site show \
                     {name} says why.\n"
                ));
            }
            Ok(status) => text.push_str(&format!("{url} answers with {status}.\n")),
            Err(problem) => {
                outcome = Err(Failure::PartsOut(4));
                text.push_str(&format!("The site {name} is there, but {address}: {problem}.\n"));
            }
        },
    }
    if !left.is_empty() {
        text.push_str("Left to do:\n");
        left.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    write_out(&text)?;
    outcome
}

/// Returns a line about another site whose directory is in the directory of the new one.
fn inner_site(document: &Document, name: &str, root: &Path) -> Option<String> {
    let mut others = document.sites.files.iter().filter(|file| name_of(file) != name);
    let (other, inner) = others.find_map(|file| {
        let inner = document.read(file).get("root")?.as_str().map(PathBuf::from)?;
        (inner != root && inner.starts_with(root)).then(|| (name_of(file), inner))
    })?;
    Some(format!(
        "files: {} has those of the site {other} ({}), which this site sends, too; move one of \
         them, and change \"root\" (howdah site edit)",
        root.display(),
        inner.display()
    ))
}

/// Returns the URL of a site.
fn url(host: &str, listeners: &[(String, bool)]) -> String {
    let (address, is_encrypted) = listeners
        .iter()
        .rfind(|(_, is_encrypted)| *is_encrypted)
        .or(listeners.first())
        .map_or(("", false), |(address, is_encrypted)| (address.as_str(), *is_encrypted));
    let scheme = if is_encrypted { "https" } else { "http" };
    let usual = if is_encrypted { "443" } else { "80" };
    match address.rsplit_once(':') {
        Some((_, port)) if port != usual && !address.starts_with("unix:") => {
            format!("{scheme}://{host}:{port}/")
        }
        _ => format!("{scheme}://{host}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_has_the_scheme_and_the_port_of_the_listener() {
        let url = |all: &[(&str, bool)]| {
            let all: Vec<_> = all.iter().map(|(a, tls)| ((*a).to_owned(), *tls)).collect();
            url("a.example", &all)
        };
        assert_eq!(url(&[("*:80", false)]), "http://a.example/");
        assert_eq!(url(&[("*:80", false), ("*:443", true)]), "https://a.example/");
        assert_eq!(url(&[("127.0.0.1:8080", false)]), "http://a.example:8080/");
        assert_eq!(url(&[]), "http://a.example/");
    }

    #[test]
    fn the_directory_is_absolute_and_plain() {
        assert_eq!(absolute(Path::new("/srv/shop/")), Ok("/srv/shop".into()));
        assert!(absolute(Path::new("/srv/../etc")).is_err());
    }
}
