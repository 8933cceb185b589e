//! `mod_auth_basic` and `mod_authn_core`: `AuthType`, `AuthName`, `AuthBasicProvider` and their
//! like.

use howdah_text::{base64, hex};
use md5::{Digest, Md5};

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place, is_on};
use crate::modules::authn_file::{self, Answer};
use crate::modules::pattern::Text;
use crate::modules::services::Services;
use crate::record::Record;
use crate::support::{lossy, until};
use crate::world::{Level, World};

/// Settings of basic authentication.
#[derive(Debug, Clone, Default)]
pub struct Config {
    auth_type: Option<Text>,
    auth_name: Option<Text>,
    authoritative: Option<bool>,
    /// `Some(None)` for `AuthBasicFake off`.
    fake: Option<Option<(Text, Text)>>,
    uses_digest: Option<bool>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::AuthBasic;

    fn merged(&self, child: &Config) -> Config {
        Config {
            auth_type: child.auth_type.clone().or_else(|| self.auth_type.clone()),
            auth_name: child.auth_name.clone().or_else(|| self.auth_name.clone()),
            authoritative: child.authoritative.or(self.authoritative),
            fake: child.fake.clone().or_else(|| self.fake.clone()),
            uses_digest: child.uses_digest.or(self.uses_digest),
        }
    }

    fn is_constant(&self) -> bool {
        self.auth_type.is_none() && self.fake.is_none()
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "AuthType",
        arguments: Arguments::One,
        class: Override::AUTH_CONFIG,
        usage: "an HTTP authorization type (e.g., \"Basic\")",
        apply: set_type,
    },
    Directive {
        name: "AuthName",
        arguments: Arguments::One,
        class: Override::AUTH_CONFIG,
        usage: "the authentication realm (e.g. \"Members Only\")",
        apply: set_name,
    },
    Directive {
        name: "AuthBasicProvider",
        arguments: Arguments::Each,
        class: Override::AUTH_CONFIG,
        usage: "specify the auth providers for a directory or location",
        apply: add_provider,
    },
    Directive {
        name: "AuthBasicAuthoritative",
        arguments: Arguments::Flag,
        class: Override::AUTH_CONFIG,
        usage: "Set to 'Off' to allow access control to be passed along to lower modules if the \
                UserID is not known to this module",
        apply: |config, _, arguments| {
            config.of_mut::<Config>().authoritative = Some(is_on(arguments));
            Ok(())
        },
    },
    Directive {
        name: "AuthBasicFake",
        arguments: Arguments::OneOrTwo,
        class: Override::AUTH_CONFIG,
        usage: "Fake basic authentication using the given expressions for username and password, \
                'off' to disable. Password defaults to 'password' if missing.",
        apply: set_fake,
    },
    Directive {
        name: "AuthBasicUseDigestAlgorithm",
        arguments: Arguments::One,
        class: Override::AUTH_CONFIG,
        usage: "Set to 'MD5' to use the auth provider's authentication check for digest auth, \
                using a hash of 'user:realm:pass'",
        apply: set_digest,
    },
];

/// Returns the type of authentication; `None` without one and for `AuthType None`.
pub fn auth_type(record: &Record, world: &dyn World, services: &dyn Services) -> Option<Vec<u8>> {
    let text = record.config.of::<Config>().auth_type.as_ref()?;
    let value = services.text(record, text).inspect_err(|error| {
        world.log(Level::Error, &format!("AuthType expression could not be evaluated: {error}"));
    });
    value.ok().filter(|value| !value.eq_ignore_ascii_case(b"None"))
}

/// Returns the realm.
fn auth_name(record: &Record, world: &dyn World, services: &dyn Services) -> Option<Vec<u8>> {
    let text = record.config.of::<Config>().auth_name.as_ref()?;
    let value = services.text(record, text).inspect_err(|error| {
        world.log(Level::Error, &format!("AuthName expression could not be evaluated: {error}"));
    });
    value.ok().map(|value| escape_quotes(&value))
}

/// Checks name and password of a request. The error is the status of the answer.
pub async fn authenticate(
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Result<(), u16> {
    let Some(auth_type) = auth_type(record, world, services) else { return Ok(()) };
    if !auth_type.eq_ignore_ascii_case(b"Basic") {
        let name = lossy(&auth_type);
        world
            .log(Level::Error, &format!("AuthType {name} configured without corresponding module"));
        return Err(500);
    }
    let Some(realm) = auth_name(record, world, services) else {
        world.log(Level::Error, &format!("need AuthName: {}", lossy(&record.uri)));
        return Err(500);
    };
    record.auth_type = Some(auth_type);
    let Some((user, password)) = credentials(record, world) else {
        note_failure(record, world, services);
        return Err(401);
    };
    record.user = Some(user.clone());
    let config = record.config.clone();
    let answer = match config.of::<Config>().uses_digest {
        Some(true) => match authn_file::stored(record, world, &user, Some(&realm)).await {
            Ok(Some(stored)) => {
                let clear = [user.as_slice(), &realm, &password].join(&b':');
                if hex::lower(&Md5::digest(&clear)).as_bytes() == stored {
                    Answer::Granted
                } else {
                    Answer::Denied
                }
            }
            Ok(None) => Answer::UserNotFound,
            Err(answer) => answer,
        },
        _ => authn_file::check(record, world, &user, &password).await,
    };
    let (name, uri) = (lossy(&user), lossy(&record.uri));
    match answer {
        Answer::Granted => return Ok(()),
        Answer::UserNotFound | Answer::Error
            if config.of::<Config>().authoritative == Some(false) =>
        {
            // Passed on; no other module knows the user.
            let name = config.of::<Config>().auth_type.as_ref().map_or(&b""[..], |_| b"Basic");
            let name = lossy(name);
            world.log(
                Level::Error,
                &format!("AuthType {name} configured without corresponding module"),
            );
            return Err(500);
        }
        Answer::Denied => {
            let message =
                format!("user {name}: authentication failure for \"{uri}\": Password Mismatch");
            world.log(Level::Error, &message);
        }
        Answer::UserNotFound => world.log(Level::Error, &format!("user {name} not found: {uri}")),
        Answer::Error => return Err(500),
        Answer::Busy => {
            let text = format!("{uri}: too many passwords of the site are being checked");
            world.log(Level::Error, &text);
            return Err(503);
        }
    }
    note_failure(record, world, services);
    Err(401)
}

/// Asks for a password in the answer.
pub fn note_failure(record: &mut Record, world: &dyn World, services: &dyn Services) {
    let is_basic =
        auth_type(record, world, services).is_some_and(|name| name.eq_ignore_ascii_case(b"Basic"));
    if !is_basic {
        return;
    }
    let realm = auth_name(record, world, services).unwrap_or_else(|| b"(null)".to_vec());
    record
        .err_headers_out
        .set("WWW-Authenticate", [b"Basic realm=\"", realm.as_slice(), b"\""].concat());
}

/// Replaces `Authorization` by that of `AuthBasicFake`: after the other fixups.
pub fn fixup(record: &mut Record, world: &dyn World, services: &dyn Services) -> Result<(), u16> {
    let config = record.config.clone();
    let Some(Some((user, password))) = &config.of::<Config>().fake else { return Ok(()) };
    let mut line = Vec::new();
    for text in [user, password] {
        let value = services.text(record, text).map_err(|error| {
            let uri = lossy(&record.uri);
            let message =
                format!("AuthBasicFake: could not evaluate expression for URI '{uri}': {error}");
            world.log(Level::Error, &message);
            500u16
        })?;
        if value.is_empty() {
            record.headers_in.unset(b"Authorization");
            return Ok(());
        }
        if !line.is_empty() {
            line.push(b':');
        }
        line.extend_from_slice(&value);
    }
    record
        .headers_in
        .set("Authorization", [b"Basic ".to_vec(), base64::encode(&line).into_bytes()].concat());
    Ok(())
}

fn credentials(record: &Record, world: &dyn World) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut line = record.headers_in.get(b"Authorization")?;
    if !until(&mut line, b' ').eq_ignore_ascii_case(b"Basic") {
        let uri = lossy(&record.uri);
        world.log(Level::Error, &format!("client used wrong authentication scheme: {uri}"));
        return None;
    }
    let start = line.iter().position(|&byte| !matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let mut decoded = base64::decode_prefix(line.get(start..).unwrap_or_default());
    if let Some(end) = decoded.iter().position(|&byte| byte == 0) {
        decoded.truncate(end);
    }
    let colon = decoded.iter().position(|&byte| byte == b':').unwrap_or(decoded.len());
    let (user, password) = decoded.split_at(colon);
    Some((user.to_vec(), password.get(1..).unwrap_or_default().to_vec()))
}

/// Escapes quotes that are not escaped.
fn escape_quotes(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'"' {
            escaped.push(b'\\');
        }
        escaped.push(byte);
        if byte == b'\\' {
            escaped.extend(bytes.next());
        }
    }
    escaped
}

fn set_type(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let word = arguments.first().copied().unwrap_or_default();
    let parsed = Text::parse(word);
    let parsed = parsed.map_err(|error| {
        format!("Cannot parse expression '{}' in AuthType: {error}", lossy(word))
    })?;
    config.of_mut::<Config>().auth_type = Some(parsed);
    Ok(())
}

fn set_name(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let word = arguments.first().copied().unwrap_or_default();
    let parsed = Text::parse(word);
    let parsed = parsed.map_err(|error| {
        format!("Cannot parse expression '{}' in AuthName: {error}", lossy(word))
    })?;
    config.of_mut::<Config>().auth_name = Some(parsed);
    Ok(())
}

/// The file is the only provider there is, and the default.
fn add_provider(_: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    for &name in arguments {
        if name != b"file" {
            return Err(format!("Unknown Authn provider: {}", lossy(name)));
        }
    }
    Ok(())
}

fn set_fake(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let user = arguments.first().copied().unwrap_or_default();
    if user.eq_ignore_ascii_case(b"off") {
        config.of_mut::<Config>().fake = Some(None);
        return Ok(());
    }
    let password = arguments.get(1).copied().unwrap_or(b"password");
    let name = lossy(user);
    let user = Text::parse(user)
        .map_err(|error| format!("Could not parse fake username expression '{name}': {error}"))?;
    let password = Text::parse(password).map_err(|error| {
        format!("Could not parse fake password expression associated to user '{name}': {error}")
    })?;
    config.of_mut::<Config>().fake = Some(Some((user, password)));
    Ok(())
}

fn set_digest(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let name = arguments.first().copied().unwrap_or_default();
    config.of_mut::<Config>().uses_digest = Some(match name.to_ascii_lowercase().as_slice() {
        b"off" => false,
        b"md5" => true,
        _ => {
            return Err(format!(
                "Invalid algorithm in AuthBasicUseDigestAlgorithm: {}",
                lossy(name)
            ));
        }
    });
    Ok(())
}
