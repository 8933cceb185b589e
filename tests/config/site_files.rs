//! Servers whose sites are files of their own, for the tests of such sites.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use harness::{Server, Site, merge, programs};
use serde_json::{Value, json};

/// A site without sites, with a control socket and a state directory, `kept`.
pub fn without_sites() -> Site {
    let site = Site::new();
    let control = format!("unix:{}", site.control_socket().display());
    let state = site.root().with_file_name("kept");
    fs::create_dir(&state).unwrap();
    fs::create_dir(site.root().with_file_name("sites")).unwrap();
    site.argument("--control").argument(&control).argument("--state").argument(&path(&state))
}

/// Adds the document that names the files to a site.
pub fn with_document(site: Site, address: &str, defaults: Value) -> Site {
    let mut all = json!({"listen": address});
    merge(&mut all, defaults);
    site.with(json!({
        "sites": "sites/*.json",
        "defaults": all,
        "routes": {},
        "listeners": {address: {"pass": "routes/sites"}},
    }))
}

fn path(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The file of a site.
pub fn file(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name("sites").join(format!("{name}.json"))
}

pub fn write(site: &Site, name: &str, value: &Value) {
    fs::write(file(site, name), format!("{value:#}")).unwrap();
}

/// Runs a command with the address of the server's control API.
pub fn command(server: &Server, words: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.args(&words[..1]).args(["--control", &control]).args(&words[1..]).output().unwrap()
}
