//! Entries of a listing: names, icons, descriptions, order.

use std::cmp::Ordering;

use howdah_text::wildcard::{self, Rules};

use super::compare::{matches, natural, sort};
use super::{
    By, Config, Directory, FANCY, FOLDERS_FIRST, IGNORE_CASE, Item, SCAN_HTML_TITLES,
    SHOW_FORBIDDEN, TABLE, VERSION_SORT,
};
use crate::modules::negotiation::Candidate;
use crate::modules::rewrite::adopt_cookies;
use crate::record::{FileKind, Record};
use crate::support::{lossy, without_parameters};
use crate::work;
use crate::world::{FileRule, Level, Reading, World};

/// Bytes at the start of a file in which its title is looked for.
const TITLE_BYTES: usize = 8191;

/// Rules of patterns for paths, and for media types and encodings.
const PLAIN: Rules =
    Rules { has_classes: false, has_escapes: false, is_path: false, ignores_case: false };
const ANY_CASE: Rules = Rules { ignores_case: true, ..PLAIN };

/// Line of a listing.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub icon: Option<Vec<u8>>,
    pub alternative: Option<Vec<u8>>,
    pub description: Option<Vec<u8>>,
    /// Bytes; `None` for directories.
    pub size: Option<u64>,
    /// Seconds since 1970.
    pub modified: Option<i64>,
    pub is_parent: bool,
    is_folder: bool,
}

/// Format and order, as the directives and the query say.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub options: u32,
    pub key: u8,
    pub is_descending: bool,
    /// Pattern of `P=`.
    pub pattern: Option<Vec<u8>>,
    /// The part of the query that links of columns keep.
    pub arguments: Vec<u8>,
}

/// Number of entries after which other requests have their turn.
const ENTRIES_BETWEEN_PAUSES: usize = 32;

/// Reads the entries of a directory, in order. Error: 500, if that takes more time than a request
/// may have. `directory` ends with a slash.
pub(super) async fn read(
    config: &Config,
    view: &View,
    record: &mut Record,
    directory: &[u8],
    names: Vec<Vec<u8>>,
    (world, server): (&dyn World, &dyn Directory),
) -> Result<Vec<Entry>, u16> {
    let mut entries: Vec<Entry> = parent(config, view, record, directory).into_iter().collect();
    for (number, name) in names.into_iter().enumerate() {
        if number % ENTRIES_BETWEEN_PAUSES == ENTRIES_BETWEEN_PAUSES - 1 || work::is_long() {
            world.pause().await;
            if work::is_spent() {
                let text = format!("Listing takes too long: {}", lossy(directory));
                world.log(Level::Error, &text);
                return Err(500);
            }
        }
        if matches!(name.as_slice(), b"." | b".." | b"") {
            continue;
        }
        if view.pattern.as_ref().is_some_and(|pattern| !matches(pattern, &name, true)) {
            continue;
        }
        let path = [directory, &name].concat();
        if is_ignored(config, &path) {
            continue;
        }
        let Some(candidate) = server.lookup(record, &name).await else { continue };
        adopt_cookies(record, &candidate.record);
        // A rule may have changed the file of the name: icons and descriptions are those of the
        // result.
        let own = &candidate.record.filename;
        let is_file = candidate.record.file.kind == FileKind::File;
        let path = if is_file && own.starts_with(b"redirect:") { own } else { &path };
        entries.extend(entry(config, view, &name, path, &candidate, world).await);
    }
    Ok(sort(entries, &|a, b| order(view, a, b), world).await)
}

fn parent(config: &Config, view: &View, record: &Record, directory: &[u8]) -> Option<Entry> {
    let uri = record.uri.strip_suffix(b"/").unwrap_or(&record.uri);
    let end = memchr::memrchr(b'/', uri)?;
    let name = uri.get(..=end)?.to_vec();
    let path = [directory, b".."].concat();
    if is_ignored(config, &path) {
        return None;
    }
    let mut entry = Entry { name, is_parent: true, ..Entry::default() };
    if view.options & FANCY != 0 {
        entry.icon = find(&config.icons, &path, None, true)
            .or_else(|| find(&config.icons, b"^^DIRECTORY^^", None, true));
        let alternative = find(&config.alternatives, &path, None, true)
            .or_else(|| find(&config.alternatives, b"^^DIRECTORY^^", None, true));
        entry.alternative = alternative.or_else(|| Some(b"PARENTDIR".to_vec()));
        entry.description = describe(config, &path);
    }
    Some(entry)
}

async fn entry(
    config: &Config,
    view: &View,
    name: &[u8],
    path: &[u8],
    candidate: &Candidate,
    world: &dyn World,
) -> Option<Entry> {
    let record = &candidate.record;
    let is_shown = matches!(candidate.status, 0 | 200..=399)
        || (view.options & SHOW_FORBIDDEN != 0 && matches!(candidate.status, 401 | 403));
    let is_directory = record.file.kind == FileKind::Directory;
    if !is_shown || (!is_directory && record.file.kind != FileKind::File) {
        return None;
    }
    let mut entry = Entry { name: name.to_vec(), ..Entry::default() };
    if is_directory {
        entry.name.push(b'/');
    }
    if view.options & (FANCY | TABLE) == 0 {
        return Some(entry);
    }
    entry.modified = Some(record.file.modified);
    if is_directory {
        entry.is_folder = view.options & FOLDERS_FIRST != 0;
        entry.icon = find(&config.icons, path, Some(record), true)
            .or_else(|| find(&config.icons, b"^^DIRECTORY^^", None, true));
        let alternative = find(&config.alternatives, path, Some(record), true)
            .or_else(|| find(&config.alternatives, b"^^DIRECTORY^^", None, true));
        entry.alternative = alternative.or_else(|| Some(b"DIR".to_vec()));
    } else {
        entry.icon = find(&config.icons, path, Some(record), false);
        entry.alternative = find(&config.alternatives, path, Some(record), false);
        entry.size = Some(record.file.size);
    }
    entry.description = describe(config, path);
    if entry.description.is_none()
        && view.options & SCAN_HTML_TITLES != 0
        && candidate.status == 200
    {
        entry.description = title(record, path, world).await;
    }
    Some(entry)
}

/// Returns the icon or text of a path. Paths with a caret at the start are names of Apache's own.
pub(super) fn find(
    items: &[Item],
    path: &[u8],
    record: Option<&Record>,
    path_only: bool,
) -> Option<Vec<u8>> {
    let is_special = path.first() == Some(&b'^');
    let encoding = record.and_then(|record| record.content_encoding.as_deref());
    let content_type = record.and_then(|record| record.content_type.as_deref());
    let fits = |item: &&Item| {
        // Entries of the server are for all paths.
        let is_here = is_special || item.path == b"/*";
        if !is_here && !wildcard::matches(&item.path, path, PLAIN) {
            return false;
        }
        if item.name.is_empty() {
            return true;
        }
        match item.by {
            _ if is_special => wildcard::matches(&item.name, path, PLAIN),
            Some(By::Path) => wildcard::matches(&item.name, path, PLAIN),
            _ if path_only => false,
            Some(By::Type) => {
                let content_type =
                    content_type.filter(|_| encoding.is_none()).map(without_parameters);
                content_type.is_some_and(|name| wildcard::matches(&item.name, name, ANY_CASE))
            }
            Some(By::Encoding) => {
                encoding.is_some_and(|name| wildcard::matches(&item.name, name, ANY_CASE))
            }
            None => false,
        }
    };
    items.iter().find(fits).map(|item| item.value.clone())
}

fn describe(config: &Config, path: &[u8]) -> Option<Vec<u8>> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let found = config.descriptions.iter().find(|description| {
        let subject = if description.is_full_path { path } else { name };
        if description.has_wildcards {
            matches(&description.pattern, subject, false)
        } else {
            memchr::memmem::find(subject, &description.pattern).is_some()
        }
    });
    found.map(|description| description.text.clone())
}

fn is_ignored(config: &Config, path: &[u8]) -> bool {
    let last = |path: &'_ [u8]| memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = path.get(last(path)..).unwrap_or_default();
    config.ignored.iter().any(|item| {
        let pattern = item.name.get(last(&item.name)..).unwrap_or_default();
        wildcard::matches(&item.path, path, PLAIN) && wildcard::matches(pattern, name, PLAIN)
    })
}

/// Finds the title of an HTML file.
async fn title(record: &Record, path: &[u8], world: &dyn World) -> Option<Vec<u8>> {
    let content_type = without_parameters(record.content_type.as_deref()?).to_ascii_lowercase();
    let is_html = matches!(
        content_type.as_slice(),
        b"text/html" | b"application/xhtml+xml" | b"text/x-server-parsed-html"
    );
    let is_closed = || matches!(world.rule(path), FileRule::Closed | FileRule::Hidden);
    if !is_html || record.content_encoding.is_some() || world.is_source(path) || is_closed() {
        return None;
    }
    let head = world.read(path, Reading::Start(TITLE_BYTES)).await.ok()?;
    let head = head.split(|&byte| byte == 0).next()?;
    let start = memchr::memmem::find(&head.to_ascii_lowercase(), b"<title>")? + 7;
    let text = head.get(start..)?;
    let text = text.get(..memchr::memchr(b'<', text).unwrap_or(text.len()))?;
    let skipped = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let text = text.get(skipped..)?.iter();
    Some(text.map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect())
}

fn order(view: &View, a: &Entry, b: &Entry) -> Ordering {
    if a.is_parent || b.is_parent {
        return b.is_parent.cmp(&a.is_parent);
    }
    if a.is_folder != b.is_folder {
        return b.is_folder.cmp(&a.is_folder);
    }
    let (a, b) = if view.is_descending { (b, a) } else { (a, b) };
    let is_version = view.options & VERSION_SORT != 0;
    let ignore_case = view.options & IGNORE_CASE != 0;
    let description = |entry: &Entry| entry.description.clone().unwrap_or_default();
    let by_key = match view.key {
        b'M' => a.modified.unwrap_or(0).cmp(&b.modified.unwrap_or(0)),
        b'S' => a.size.cmp(&b.size),
        b'D' if is_version => natural(&description(a), &description(b), false),
        b'D' => description(a).cmp(&description(b)),
        _ => Ordering::Equal,
    };
    let by_version = || match (is_version, ignore_case) {
        (true, true) => {
            natural(&a.name, &b.name, true).then_with(|| natural(&a.name, &b.name, false))
        }
        (true, false) => natural(&a.name, &b.name, false),
        _ => Ordering::Equal,
    };
    let by_case = || {
        if ignore_case {
            a.name.to_ascii_lowercase().cmp(&b.name.to_ascii_lowercase())
        } else {
            Ordering::Equal
        }
    };
    by_key.then_with(by_version).then_with(by_case).then_with(|| a.name.cmp(&b.name))
}
