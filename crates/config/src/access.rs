//! `allow`, `deny` and `basic_auth` of an action: access control.

use std::path::{Path, PathBuf};

use howdah_template::{Part, Template};

use crate::address_pattern::AddressPatterns;
use crate::condition::Condition;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object};
use crate::templates;

/// Keys of an action about its clients.
pub(crate) static KEYS: &[Key] = &[
    Key::new("allow", Kind::Texts, "Addresses of clients that are allowed; other clients get 403")
        .default("all clients")
        .details("[Address patterns](routes.md#address-patterns). An empty array allows no client"),
    Key::new("deny", Kind::Texts, "Addresses of clients that get 403, even if `allow` has them")
        .default("no client")
        .details("[Address patterns](routes.md#address-patterns)"),
    Key::new(
        "basic_auth",
        Kind::Object(&BASIC_AUTH),
        "User names and passwords (Basic authentication)",
    )
    .default("none")
    .details("See below"),
];

/// `basic_auth` of an action.
pub(crate) static BASIC_AUTH: Shape = Shape {
    name: "basic_auth",
    parts: &[&[
        Key::new(
            "users_file",
            Kind::Text,
            "File of users, in the format of `htpasswd`; parts below a directory may have variables",
        )
        .details(
            "Passwords: bcrypt (`htpasswd -B`, up to a cost of 14), apr1 (`-m`), SHA-1 \
             (`-s`), and DES (`-d`), `$1$`, `$5$`, `$6$` (up to 500,000 rounds) and `$y$` (up \
             to 32 MiB) of crypt(3); `{SSHA}` and `{PLAIN}` as in nginx. The server's user must \
             be able to read it. While its file system does not answer, its last content stays in \
             use. A name such as `\"/etc/htpasswd/$host\"` stays in its directory: a variable \
             that is empty or has a slash, or makes a part `.` or `..`, is answered with 403, as \
             is a missing file",
        )
        .required(),
        Key::new("realm", Kind::Text, "The realm, which browsers display, with variables")
            .default("\"Restricted\"")
            .details("Quotes in it are escaped, control characters of variables removed"),
        Key::new("if", Kind::Text, "Condition; requests for which it does not hold need no password")
            .default("all requests")
            .details("As [`if`](routes.md#match) of a step (nginx's `auth_basic $realm` with `off`)"),
        Key::new("users", Kind::Texts, "Names of the users that may enter; other users get 401")
            .default("all of the file")
            .details("Apache's `Require user`"),
        Key::new(
            "groups_file",
            Kind::Text,
            "File of groups, with a line such as `staff: ann bob` for each",
        )
        .default("none")
        .details("Apache's `AuthGroupFile`; beside `groups`"),
        Key::new(
            "groups",
            Kind::Texts,
            "Groups whose members may enter, in addition to `users`; other users get 401",
        )
        .default("none")
        .details("Apache's `Require group`; upper and lower case are the same")
        .beside("groups_file"),
    ]],
};

/// Rules about the clients that may use an action.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Client addresses that are allowed; all if `None`.
    pub allow: Option<AddressPatterns>,
    /// Client addresses that are denied, also if they are in `allow`.
    pub deny: Option<AddressPatterns>,
    /// Users and their passwords.
    pub basic_auth: Option<BasicAuth>,
}

/// Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The realm, which browsers display; its literal parts have no control characters.
    pub realm: Template,
    /// The file of users, in the format of `htpasswd`. With variables, it starts with a directory.
    pub users_file: Template,
    /// Requests that need a password; all if `None`.
    pub condition: Option<Condition>,
    /// Users that may enter; all if `None`.
    pub members: Option<Members>,
}

/// Users that may enter, of those whose password is right.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    /// Names of users that may enter whatever their groups.
    pub users: Vec<String>,
    /// File of groups, in Apache's format.
    pub groups_file: Option<PathBuf>,
    /// Groups whose members may enter, in lower case.
    pub groups: Vec<String>,
}

impl Access {
    pub(crate) fn read(object: &Object<'_>) -> Result<Access, Error> {
        Ok(Access {
            allow: object.read("allow", AddressPatterns::read)?,
            deny: object.read("deny", AddressPatterns::read)?,
            basic_auth: object.read("basic_auth", BasicAuth::read)?,
        })
    }
}

impl BasicAuth {
    /// Returns the file of users, or the directory that has all of them, and true for a directory.
    pub(crate) fn users_path(&self) -> (PathBuf, bool) {
        match (self.users_file.constant(), self.users_file.parts().first()) {
            (Some(file), _) => (file.into(), false),
            (None, Some(Part::Literal(start))) => {
                let directory = start.rsplit_once('/').map_or("", |(directory, _)| directory);
                (Path::new(if directory.is_empty() { "/" } else { directory }).into(), true)
            }
            (None, _) => ("/".into(), true),
        }
    }

    fn read(node: &Node<'_>) -> Result<BasicAuth, Error> {
        let object = node.object(&BASIC_AUTH)?;
        let realm = object.read("realm", read_realm)?;
        let users_file = read_users_file(&object.required("users_file")?)?;
        let condition = object.read("if", Condition::read)?;
        let users = object.read("users", read_names)?;
        let groups_file = object.file("groups_file")?;
        let groups = object.read("groups", read_names)?;
        if let (Some(_), None) = (&groups_file, &groups) {
            return Err(object.missing(&["groups"]));
        }
        object.end()?;
        let members = (users.is_some() || groups.is_some()).then(|| Members {
            users: users.unwrap_or_default(),
            groups_file,
            groups: groups.unwrap_or_default().iter().map(|it| it.to_ascii_lowercase()).collect(),
        });
        let realm = realm.unwrap_or_else(|| Template::literal("Restricted"));
        Ok(BasicAuth { realm, users_file, condition, members })
    }
}

fn read_realm(node: &Node<'_>) -> Result<Template, Error> {
    if node.text()?.chars().any(char::is_control) {
        return Err(node.invalid("must not contain control characters"));
    }
    templates::read(node)
}

fn read_users_file(node: &Node<'_>) -> Result<Template, Error> {
    let file = templates::read_file(node)?;
    let is_below_directory = match file.parts() {
        [Part::Literal(start), ..] => start.starts_with('/'),
        _ => false,
    };
    if file.constant().is_some() || is_below_directory {
        return Ok(file);
    }
    let error = node.invalid("may have variables only below a directory");
    Err(error.with_hint("write a name such as \"/etc/htpasswd/$host\""))
}

fn read_names(node: &Node<'_>) -> Result<Vec<String>, Error> {
    node.strings()?.map(|name| name.text().map(str::to_owned)).collect()
}
