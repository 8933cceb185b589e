//! Limits of the document and of PHP that contradict each other, and directories of sessions that
//! sites share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use howdah_config::{Action, ActionKind, Application, Config, Pass, Target, path};
use howdah_supervisor::check::PhpSettings;

/// Names and values of settings of PHP, by the names of applications.
pub(super) type Settings = BTreeMap<String, Rc<PhpSettings>>;

/// Maximum number of applications that a line names.
const MAX_NAMES: usize = 3;

/// Maximum length of a `.user.ini` that is read, in bytes.
const MAX_USER_INI: u64 = 64 << 10;

/// Memory that PHP maps beside that of scripts and of OPcache, in bytes.
const MAPPED_BY_PHP: u64 = 256 << 20;

/// PHP's own defaults.
const USUAL: [(&str, &str); 3] =
    [("memory_limit", "128M"), ("opcache.enable", "1"), ("opcache.memory_consumption", "128")];

/// A setting of PHP with its value as written and in bytes.
struct Size {
    name: &'static str,
    text: String,
    bytes: u64,
}

/// Returns notes, each with its path in the document.
pub(super) fn contradictions(config: &Config, settings: &Settings) -> Vec<(String, String)> {
    let mut notes = Notes::default();
    let limits = Limits::of(config);
    let mut directories: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for application in &config.applications {
        let values = settings.get(&application.name).map_or(&[][..], |values| values.as_slice());
        let values = with_user_ini(application, values);
        let size = |name| Size::find(name, &values);
        uploads(
            &limits,
            application,
            [size("post_max_size"), size("upload_max_filesize"), size("memory_limit")],
            &mut notes,
        );
        address_space(application, &values, &mut notes);
    }
    for application in config.applications.iter().filter(|one| one.isolation.rootfs.is_none()) {
        let Some(values) = settings.get(&application.name) else { continue };
        let value =
            |name| values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let user = application.user.as_deref().unwrap_or_default();
        if !values.is_empty() && value("session.save_handler") == Some("files") {
            let directory = value("session.save_path").unwrap_or_default();
            directories.entry((user, directory)).or_default().push(&application.name);
        }
    }
    for ((_, directory), names) in directories.into_iter().filter(|(_, names)| names.len() > 1) {
        let directory = match directory {
            "" => "the directory for temporary files (session.save_path is empty)".to_owned(),
            directory => directory.to_owned(),
        };
        let message = format!(
            "the applications {} have one user and keep their sessions in {directory}: a session \
             of one is valid in the others; set session.save_path in \"options\"/\"admin\" of each",
            list(&names)
        );
        notes.0.push(("/applications".to_owned(), message, Vec::new()));
    }
    notes.lines()
}

/// Compares the limits of bodies: of the document, of PHP for all of a body, for a file, and for
/// memory.
fn uploads(
    limits: &Limits<'_>,
    application: &Application,
    sizes: [Option<Size>; 3],
    notes: &mut Notes,
) {
    let [post, file, memory] = sizes;
    if let (Some(post), Some(file)) = (&post, &file)
        && file.bytes > post.bytes
    {
        let message = format!(
            "files end at {post}, below {file}: PHP drops a body that is larger; raise \
             post_max_size above it"
        );
        notes.add("/applications", application, message);
    }
    if let (Some(post), Some(memory)) = (&post, &memory)
        && memory.bytes < post.bytes
    {
        let message = format!(
            "{memory} is below {post}: a request whose body is no upload of files can fail for \
             lack of memory"
        );
        notes.add("/applications", application, message);
    }
    // The largest file that a form can send, or the largest body of another kind.
    let Some(largest) = post.as_ref() else { return };
    for (key, limit, is_written) in limits.of_application(&application.name) {
        if limit < largest.bytes {
            let message = format!(
                "uploads end at {} by {}, below PHP's {largest}: larger bodies get 413",
                shown(limit),
                key.trim_start_matches('/')
            );
            notes.add(&key, application, message);
        } else if is_written && limit > largest.bytes {
            let message = format!(
                "uploads end at PHP's {largest}, below {} by {}: scripts get no larger body",
                shown(limit),
                key.trim_start_matches('/')
            );
            notes.add(&key, application, message);
        }
    }
}

/// Limits of bodies of requests.
struct Limits<'c> {
    config: &'c Config,
    /// A limit of an action that passes to routes holds for actions of these, and is not followed.
    is_inherited: bool,
    /// The actions that lead to each application.
    actions: BTreeMap<&'c str, Vec<&'c Action>>,
}

impl<'c> Limits<'c> {
    fn of(config: &'c Config) -> Self {
        let (mut is_inherited, mut actions) = (false, BTreeMap::<_, Vec<_>>::new());
        for (_, action) in config.actions() {
            let to_route = matches!(&action.kind, ActionKind::Pass(Pass::Fixed(Target::Route(_))));
            is_inherited |= to_route && action.options.max_body_size.is_some();
            if let Some(name) = application_of(action) {
                actions.entry(name).or_default().push(action);
            }
        }
        Limits { config, is_inherited, actions }
    }

    /// Returns the limits of requests that an application gets, each with its key, and whether the
    /// document has it.
    fn of_application(&self, name: &str) -> Vec<(String, u64, bool)> {
        let Limits { config, is_inherited, actions } = self;
        let default = || {
            let written = config.document.pointer("/settings/http/max_body_size").is_some();
            let key = "/settings/http/max_body_size".to_owned();
            (key, config.settings.http.max_body_size, written)
        };
        let mut all = Vec::new();
        let mut add = |limit| {
            if !all.contains(&limit) {
                all.push(limit);
            }
        };
        for action in actions.get(name).into_iter().flatten() {
            match &action.options.max_body_size {
                Some(limit) => add((format!("/{}", limit.key), limit.bytes, true)),
                None if *is_inherited => {}
                None => add(default()),
            }
        }
        if config.listeners.iter().any(|listener| listener.pass.application() == Some(name)) {
            add(default());
        }
        all
    }
}

/// Returns the application that an action leads to.
fn application_of(action: &Action) -> Option<&str> {
    match &action.kind {
        ActionKind::Pass(pass) => pass.application(),
        ActionKind::Share(share) => share.scripts.as_ref()?.application(),
        _ => None,
    }
}

/// Notes that the memory that a process may map is less than PHP needs.
fn address_space(application: &Application, values: &[(String, String)], notes: &mut Notes) {
    // With too little memory, PHP may not be loaded, and has no settings then.
    let usual = USUAL.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let values = if values.is_empty() { &usual } else { values };
    let limits = &application.limits.rlimits;
    let Some((_, Some(limit))) = limits.iter().find(|(name, _)| name == "as") else { return };
    let bytes = |name| Size::find(name, values).map_or(0, |size| size.bytes);
    let has_opcache = values.iter().any(|(name, value)| name == "opcache.enable" && value == "1");
    // `opcache.memory_consumption` is in MiB.
    let opcache = if has_opcache { bytes("opcache.memory_consumption") << 20 } else { 0 };
    let opcache = opcache.saturating_add(bytes("opcache.jit_buffer_size"));
    let needed = MAPPED_BY_PHP.saturating_add(opcache).saturating_add(bytes("memory_limit"));
    if *limit < needed {
        let place = path(["applications", application.name.as_str(), "limits", "rlimits", "as"]);
        let message = format!(
            "{} is too low: PHP maps about {}, OPcache and memory_limit included, and fails with \
             less; \"limits\"/\"memory\" limits the memory that a process uses",
            shown(*limit),
            shown(needed)
        );
        notes.0.push((place, message, Vec::new()));
    }
}

/// Returns the settings with those of the `.user.ini` in the document root, unless the application
/// locks them.
fn with_user_ini<'v>(
    application: &Application,
    values: &'v [(String, String)],
) -> Cow<'v, [(String, String)]> {
    let mut values = Cow::Borrowed(values);
    let name = values.iter().find(|(name, _)| name == "user_ini.filename");
    let Some((_, name)) = name.cloned().filter(|(_, name)| !name.contains('/')) else {
        return values;
    };
    let is_locked = |name: &str| application.options.admin.iter().any(|(known, _)| known == name);
    for target in application.targets.iter().filter(|_| application.isolation.rootfs.is_none()) {
        let file = target.root.join(&name);
        for (name, value) in settings_of(&file) {
            let known =
                ["post_max_size", "upload_max_filesize", "memory_limit"].contains(&name.as_str());
            if known && !is_locked(&name) {
                let values = values.to_mut();
                values.retain(|(other, _)| *other != name);
                values.push((name, value));
            }
        }
    }
    values
}

/// Reads the settings of a file in the syntax of `php.ini`, as far as they are a word. A link, a
/// long file, and anything but a regular file are left out: it may belong to a customer.
fn settings_of(file: &Path) -> Vec<(String, String)> {
    let is_usable = |found: fs::Metadata| found.is_file() && found.len() <= MAX_USER_INI;
    if !fs::symlink_metadata(file).is_ok_and(is_usable) {
        return Vec::new();
    }
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| line.split(';').next()?.split_once('='));
    lines
        .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        .collect()
}

impl Size {
    /// Reads a number of bytes, as in `128M`; `None` for no limit.
    fn find(name: &'static str, values: &[(String, String)]) -> Option<Size> {
        let (_, text) = values.iter().find(|(known, _)| known == name)?;
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text.get(..digits)?.parse().ok()?;
        let factor = match text.bytes().last()?.to_ascii_lowercase() {
            b'k' => 1 << 10,
            b'm' => 1 << 20,
            b'g' => 1 << 30,
            _ => 1,
        };
        let bytes = number.checked_mul(factor).filter(|bytes| *bytes > 0)?;
        // Control characters of a customer's file do not reach a terminal.
        let text = text.chars().filter(|c| !c.is_control()).take(20).collect();
        Some(Size { name, text, bytes })
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.text)
    }
}

/// Formats a number of bytes.
fn shown(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => {
            format!("{} GiB", bytes >> 30)
        }
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
            format!("{} KiB", bytes >> 10)
        }
        bytes => format!("{bytes} bytes"),
    }
}

/// Notes with the applications that each is about: a setting of php.ini is that of all.
#[derive(Default)]
struct Notes(Vec<(String, String, Vec<String>)>);

impl Notes {
    fn add(&mut self, key: &str, application: &Application, message: String) {
        let name = application.name.clone();
        match self.0.iter_mut().find(|(known, text, _)| known == key && *text == message) {
            Some((_, _, names)) => names.push(name),
            None => self.0.push((key.to_owned(), message, vec![name])),
        }
    }

    fn lines(self) -> Vec<(String, String)> {
        let line = |(key, message, names): (String, String, Vec<String>)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            match names.as_slice() {
                [] => (key, message),
                [name] if key == "/applications" => (path(["applications", name]), message),
                [name] => (key, format!("application \"{name}\": {message}")),
                names => (key, format!("applications {}: {message}", list(names))),
            }
        };
        self.0.into_iter().map(line).collect()
    }
}

/// Formats names: `"a", "b", "c" and 97 others`.
fn list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.split_at_checked(MAX_NAMES) {
        Some((first, [_, _, ..])) => {
            format!("{} and {} others", first.join(", "), names.len() - MAX_NAMES)
        }
        _ => match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{} and {last}", first.join(", ")),
            None => String::new(),
        },
    }
}
