//! `mod_autoindex`: listings of directories.
//!
//! [`handle`] is the handler of a directory without an index file, for `Options Indexes`. Entries
//! are looked at as sub-requests, header and readme are run as sub-requests: see [`Directory`].

mod compare;
mod entries;
mod page;
mod turns;

pub use page::handle;

use howdah_text::wildcard;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Apply, Arguments, Directive, Override, Place, is_on};
use crate::modules::negotiation::Lookup;
use crate::record::Record;
use crate::support::{atoi, has_prefix};
use crate::world::Later;

/// The functions of the server that a directory's listing needs.
pub trait Directory: Lookup {
    /// Runs a sub-request for the header or the readme (`uri` is relative to the request). It is
    /// used if its status is 200 and it names a regular file.
    fn insert<'a>(&'a self, record: &'a Record, uri: &'a [u8]) -> Later<'a, Insert>;

    /// Returns the text of `ServerSignature`; empty if it is off.
    fn signature(&self, record: &Record) -> Vec<u8>;
}

/// Text around a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Insert {
    /// No file, or none that can be shown.
    None,
    /// Body of an HTML response.
    Html(Vec<u8>),
    /// Content of a file of another type `text/*`.
    Plain(Vec<u8>),
}

/// Options and tables of listings.
#[derive(Debug, Clone)]
pub struct Config {
    is_set: bool,
    options: u32,
    added: u32,
    removed: u32,
    default_icon: Option<Vec<u8>>,
    style_sheet: Option<Vec<u8>>,
    head_insert: Option<Vec<u8>>,
    header: Option<Vec<u8>>,
    readme: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    charset: Option<Vec<u8>>,
    has_old_dates: bool,
    icon_width: i64,
    icon_height: i64,
    name_width: Width,
    description_width: Width,
    key: Option<u8>,
    is_descending: Option<bool>,
    icons: Vec<Item>,
    alternatives: Vec<Item>,
    descriptions: Vec<Description>,
    ignored: Vec<Item>,
    resets_ignored: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            is_set: false,
            options: UNSET,
            added: 0,
            removed: 0,
            default_icon: None,
            style_sheet: None,
            head_insert: None,
            header: None,
            readme: None,
            content_type: None,
            charset: None,
            has_old_dates: false,
            icon_width: 0,
            icon_height: 0,
            name_width: Width::Unset,
            description_width: Width::Unset,
            key: None,
            is_descending: None,
            icons: Vec::new(),
            alternatives: Vec::new(),
            descriptions: Vec::new(),
            ignored: Vec::new(),
            resets_ignored: false,
        }
    }
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Autoindex;

    fn merged(&self, child: &Config) -> Config {
        if !child.is_set {
            return self.clone();
        }
        let text =
            |own: &Option<Vec<u8>>, other: &Option<Vec<u8>>| own.clone().or_else(|| other.clone());
        let (mut options, mut added, mut removed) = (NO_OPTIONS, 0, 0);
        if child.options != NO_OPTIONS {
            options = child.options;
            if child.options == UNSET {
                added = (self.added | child.added) & !child.removed;
                removed = self.removed | child.removed;
                options = self.options & !NO_OPTIONS;
            }
            options = (options | added) & !removed;
        }
        let own_width = |own: Width, other: Width| if own == Width::Unset { other } else { own };
        let ignored = if child.resets_ignored {
            child.ignored.clone()
        } else {
            [child.ignored.as_slice(), &self.ignored].concat()
        };
        Config {
            is_set: true,
            options,
            added,
            removed,
            default_icon: text(&child.default_icon, &self.default_icon),
            style_sheet: text(&child.style_sheet, &self.style_sheet),
            head_insert: text(&child.head_insert, &self.head_insert),
            header: text(&child.header, &self.header),
            readme: text(&child.readme, &self.readme),
            content_type: text(&child.content_type, &self.content_type),
            charset: text(&child.charset, &self.charset),
            has_old_dates: child.has_old_dates || self.has_old_dates,
            icon_width: if child.icon_width != 0 { child.icon_width } else { self.icon_width },
            icon_height: if child.icon_height != 0 { child.icon_height } else { self.icon_height },
            name_width: own_width(child.name_width, self.name_width),
            description_width: own_width(child.description_width, self.description_width),
            key: child.key.or(self.key),
            is_descending: child.is_descending.or(self.is_descending),
            icons: [child.icons.as_slice(), &self.icons].concat(),
            alternatives: [child.alternatives.as_slice(), &self.alternatives].concat(),
            descriptions: [child.descriptions.as_slice(), &self.descriptions].concat(),
            ignored,
            resets_ignored: false,
        }
    }
}

const ALT_USAGE: &str = "alternate descriptive text followed by one or more filenames";

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    each("AddIcon", "an icon URL followed by one or more filenames", |c, p, a| {
        icon(c, p, a, By::Path)
    }),
    each("AddIconByType", "an icon URL followed by one or more MIME types", |c, p, a| {
        icon(c, p, a, By::Type)
    }),
    each(
        "AddIconByEncoding",
        "an icon URL followed by one or more content encodings",
        |c, p, a| icon(c, p, a, By::Encoding),
    ),
    each("AddAlt", ALT_USAGE, |c, p, a| alternative(c, p, a, By::Path)),
    each(
        "AddAltByType",
        "alternate descriptive text followed by one or more MIME types",
        |c, p, a| alternative(c, p, a, By::Type),
    ),
    each(
        "AddAltByEncoding",
        "alternate descriptive text followed by one or more content encodings",
        |c, p, a| alternative(c, p, a, By::Encoding),
    ),
    directive("IndexOptions", Arguments::Words, "one or more index options [+|-][]", options),
    directive(
        "IndexOrderDefault",
        Arguments::Two,
        "{Ascending,Descending} {Name,Size,Description,Date}",
        default_order,
    ),
    directive(
        "IndexIgnore",
        Arguments::Each,
        "one or more file extensions",
        |config, place, arguments| {
            config.of_mut::<Config>().is_set = true;
            for name in arguments {
                config.of_mut::<Config>().ignored.push(Item::new(None, name, place, b""));
            }
            Ok(())
        },
    ),
    directive(
        "IndexIgnoreReset",
        Arguments::Flag,
        "Reset the inherited list of IndexIgnore filenames",
        |config, _, arguments| {
            config.of_mut::<Config>().is_set = true;
            config.of_mut::<Config>().resets_ignored = is_on(arguments);
            Ok(())
        },
    ),
    each("AddDescription", "Descriptive text followed by one or more filenames", description),
    directive("HeaderName", Arguments::One, "a filename", |c, _, a| {
        set(c, a, |index| &mut index.header)
    }),
    directive("ReadmeName", Arguments::One, "a filename", |c, _, a| {
        set(c, a, |index| &mut index.readme)
    }),
    directive("DefaultIcon", Arguments::One, "an icon URL", |c, _, a| {
        set(c, a, |index| &mut index.default_icon)
    }),
    directive("IndexStyleSheet", Arguments::One, "URL to style sheet", |c, _, a| {
        set(c, a, |index| &mut index.style_sheet)
    }),
    directive(
        "IndexHeadInsert",
        Arguments::One,
        "String to insert in HTML HEAD section",
        |c, _, a| set(c, a, |index| &mut index.head_insert),
    ),
];

const NO_OPTIONS: u32 = 1;
const UNSET: u32 = 1 << 1;
const ICONS_ARE_LINKS: u32 = 1 << 2;
const SCAN_HTML_TITLES: u32 = 1 << 3;
const SUPPRESS_ICON: u32 = 1 << 4;
const SUPPRESS_LAST_MODIFIED: u32 = 1 << 5;
const SUPPRESS_SIZE: u32 = 1 << 6;
const SUPPRESS_DESCRIPTION: u32 = 1 << 7;
const SUPPRESS_PREAMBLE: u32 = 1 << 8;
const SUPPRESS_SORTING: u32 = 1 << 9;
const SUPPRESS_RULES: u32 = 1 << 10;
const FOLDERS_FIRST: u32 = 1 << 11;
const VERSION_SORT: u32 = 1 << 12;
const TRACK_MODIFIED: u32 = 1 << 13;
const FANCY: u32 = 1 << 14;
const TABLE: u32 = 1 << 15;
const IGNORE_CLIENT: u32 = 1 << 16;
const IGNORE_CASE: u32 = 1 << 17;
const XHTML: u32 = 1 << 18;
const SHOW_FORBIDDEN: u32 = 1 << 19;
const ADD_ALT_CLASS: u32 = 1 << 20;

const OPTIONS: &[(&str, u32)] = &[
    ("FancyIndexing", FANCY),
    ("FoldersFirst", FOLDERS_FIRST),
    ("HTMLTable", TABLE),
    ("IconsAreLinks", ICONS_ARE_LINKS),
    ("IgnoreCase", IGNORE_CASE),
    ("IgnoreClient", IGNORE_CLIENT),
    ("ScanHTMLTitles", SCAN_HTML_TITLES),
    ("SuppressColumnSorting", SUPPRESS_SORTING),
    ("SuppressDescription", SUPPRESS_DESCRIPTION),
    ("SuppressHTMLPreamble", SUPPRESS_PREAMBLE),
    ("SuppressIcon", SUPPRESS_ICON),
    ("SuppressLastModified", SUPPRESS_LAST_MODIFIED),
    ("SuppressSize", SUPPRESS_SIZE),
    ("SuppressRules", SUPPRESS_RULES),
    ("TrackModified", TRACK_MODIFIED),
    ("VersionSort", VERSION_SORT),
    ("XHTML", XHTML),
    ("ShowForbidden", SHOW_FORBIDDEN),
    ("AddAltClass", ADD_ALT_CLASS),
];

/// Default width of names and descriptions.
const DEFAULT_WIDTH: usize = 23;

/// Largest width that a directive may ask for.
const MAX_WIDTH: i64 = 4096;

/// Width of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Unset,
    /// As wide as the widest entry.
    Adjusted,
    Fixed(usize),
}

impl Width {
    fn columns(self) -> usize {
        match self {
            Width::Fixed(width) => width,
            _ => DEFAULT_WIDTH,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Path,
    Type,
    Encoding,
}

/// Value for names, types or encodings below a directory.
#[derive(Debug, Clone)]
struct Item {
    by: Option<By>,
    /// Pattern of the names.
    name: Vec<u8>,
    /// Pattern of the paths.
    path: Vec<u8>,
    value: Vec<u8>,
}

impl Item {
    fn new(by: Option<By>, name: &[u8], place: &Place<'_>, value: &[u8]) -> Item {
        let has_wildcard = name.iter().any(|byte| matches!(byte, b'*' | b'?'));
        let name = match by {
            Some(By::Path) if name == b"**DIRECTORY**" => b"*^^DIRECTORY^^".to_vec(),
            Some(By::Path) if !has_wildcard => [b"*", name].concat(),
            Some(By::Encoding) => name.to_ascii_lowercase(),
            _ => name.to_vec(),
        };
        // As in Apache, a section has a name of its own in place of a directory, and hardly ever
        // applies.
        let directory = place.section.unwrap_or(place.directory);
        Item { by, name, path: [directory, b"*"].concat(), value: value.to_vec() }
    }
}

#[derive(Debug, Clone)]
struct Description {
    pattern: Vec<u8>,
    text: Vec<u8>,
    is_full_path: bool,
    has_wildcards: bool,
}

const fn directive(
    name: &'static str,
    arguments: Arguments,
    usage: &'static str,
    apply: Apply,
) -> Directive {
    Directive { name, arguments, class: Override::INDEXES, usage, apply }
}

const fn each(name: &'static str, usage: &'static str, apply: Apply) -> Directive {
    directive(name, Arguments::EachAfterFirst, usage, apply)
}

fn set(
    config: &mut DirConfig,
    arguments: &[&[u8]],
    field: fn(&mut Config) -> &mut Option<Vec<u8>>,
) -> Result<(), String> {
    config.of_mut::<Config>().is_set = true;
    *field(config.of_mut::<Config>()) = arguments.first().map(|word| word.to_vec());
    Ok(())
}

fn icon(
    config: &mut DirConfig,
    place: &Place<'_>,
    arguments: &[&[u8]],
    by: By,
) -> Result<(), String> {
    let [first, names @ ..] = arguments else { return Ok(()) };
    config.of_mut::<Config>().is_set = true;
    let mut url = *first;
    let mut text = None;
    if let Some(inner) = first.strip_prefix(b"(") {
        let Some(end) = memchr::memchr(b')', inner) else {
            return Err("missing closing paren".into());
        };
        let comma = memchr::memchr(b',', inner).unwrap_or(inner.len());
        text = inner.get(..comma);
        let rest = inner.get(..end).unwrap_or_default();
        let rest = rest.get(comma..).unwrap_or_default();
        let start = rest.iter().position(|&byte| byte != b',').unwrap_or(rest.len());
        url = rest.get(start..).unwrap_or_default();
    }
    for name in names {
        if let Some(text) = text {
            config.of_mut::<Config>().alternatives.push(Item::new(Some(by), name, place, text));
        }
        config.of_mut::<Config>().icons.push(Item::new(Some(by), name, place, url));
    }
    Ok(())
}

fn alternative(
    config: &mut DirConfig,
    place: &Place<'_>,
    arguments: &[&[u8]],
    by: By,
) -> Result<(), String> {
    let [text, names @ ..] = arguments else { return Ok(()) };
    config.of_mut::<Config>().is_set = true;
    let items = names.iter().map(|name| Item::new(Some(by), name, place, text));
    config.of_mut::<Config>().alternatives.extend(items);
    Ok(())
}

fn description(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [text, names @ ..] = arguments else { return Ok(()) };
    config.of_mut::<Config>().is_set = true;
    for name in names {
        let is_full_path = name.contains(&b'/');
        let has_wildcards = is_full_path || wildcard::is_pattern(name);
        let pattern = match (has_wildcards, is_full_path) {
            (true, true) => [b"*/", *name, b"*"].concat(),
            (true, false) => [b"*", *name, b"*"].concat(),
            _ => name.to_vec(),
        };
        let text = text.to_vec();
        config.of_mut::<Config>().descriptions.push(Description {
            pattern,
            text,
            is_full_path,
            has_wildcards,
        });
    }
    Ok(())
}

fn default_order(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [direction, key] = arguments else { return Ok(()) };
    config.of_mut::<Config>().is_set = true;
    config.of_mut::<Config>().is_descending =
        Some(match direction.to_ascii_lowercase().as_slice() {
            b"ascending" => false,
            b"descending" => true,
            _ => return Err("First keyword must be 'Ascending' or 'Descending'".into()),
        });
    config.of_mut::<Config>().key = Some(match key.to_ascii_lowercase().as_slice() {
        b"name" => b'N',
        b"date" => b'M',
        b"size" => b'S',
        b"description" => b'D',
        _ => return Err("Second keyword must be 'Name', 'Date', 'Size', or 'Description'".into()),
    });
    Ok(())
}

fn options(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let config = config.of_mut::<Config>();
    let (mut options, mut added, mut removed) = (config.options, config.added, config.removed);
    for argument in arguments {
        let (action, word) = match argument.split_first() {
            Some((&action @ (b'+' | b'-'), word)) => (Some(action), word),
            _ => (None, *argument),
        };
        let is_minus = action == Some(b'-');
        let known = OPTIONS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        let option = known.map_or(0, |(_, option)| *option);
        if word.eq_ignore_ascii_case(b"None") {
            if action.is_some() {
                return Err("Cannot combine '+' or '-' with 'None' keyword".into());
            }
            (options, added, removed) = (NO_OPTIONS, 0, 0);
        } else if known.is_none() {
            config.set_value(word, is_minus)?;
        }
        match action {
            None => {
                options |= option;
                (added, removed) = (0, 0);
            }
            Some(b'+') => {
                added |= option;
                removed &= !option;
            }
            _ => {
                removed |= option;
                added &= !option;
            }
        }
    }
    if options & NO_OPTIONS != 0 && options & !NO_OPTIONS != 0 {
        return Err("Cannot combine other IndexOptions keywords with 'None'".into());
    }
    (config.options, config.added, config.removed) = (options, added, removed);
    config.is_set = true;
    Ok(())
}

impl Config {
    /// Sets an option that has a value.
    fn set_value(&mut self, word: &[u8], is_minus: bool) -> Result<(), String> {
        let (name, value) = match memchr::memchr(b'=', word) {
            Some(equals) => (word.get(..equals), word.get(equals + 1..)),
            None => (Some(word), None),
        };
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let refused = |name: &str| Err(format!("Cannot combine '-' with {name}=n"));
        match (name.as_slice(), value) {
            (b"iconwidth", None) => self.icon_width = if is_minus { 0 } else { 20 },
            (b"iconwidth", Some(_)) if is_minus => return refused("IconWidth"),
            (b"iconwidth", Some(value)) => self.icon_width = atoi(value),
            (b"iconheight", None) => self.icon_height = if is_minus { 0 } else { 22 },
            (b"iconheight", Some(_)) if is_minus => return refused("IconHeight"),
            (b"iconheight", Some(value)) => self.icon_height = atoi(value),
            (b"namewidth", None) if is_minus => self.name_width = Width::Fixed(DEFAULT_WIDTH),
            (b"namewidth", None) => {
                return Err("NameWidth with no value may only appear as '-NameWidth'".into());
            }
            (b"namewidth", Some(_)) if is_minus => return refused("NameWidth"),
            (b"namewidth", Some(value)) => self.name_width = width(value, "NameWidth", 5)?,
            (b"descriptionwidth", None) if is_minus => {
                self.description_width = Width::Fixed(DEFAULT_WIDTH);
            }
            (b"descriptionwidth", None) => {
                return Err(
                    "DescriptionWidth with no value may only appear as '-DescriptionWidth'".into(),
                );
            }
            (b"descriptionwidth", Some(_)) if is_minus => return refused("DescriptionWidth"),
            (b"descriptionwidth", Some(value)) => {
                self.description_width = width(value, "DescriptionWidth", 12)?;
            }
            (b"type", Some(value)) => self.content_type = Some(value.to_vec()),
            (b"charset", Some(value)) => self.charset = Some(value.to_vec()),
            (b"useolddateformat", None) => self.has_old_dates = true,
            _ => return Err("Invalid directory indexing option".into()),
        }
        Ok(())
    }
}

fn width(value: &[u8], name: &str, min: i64) -> Result<Width, String> {
    if has_prefix(value, b"*") {
        return Ok(Width::Adjusted);
    }
    let width = atoi(value);
    if width != 0 && width < min {
        return Err(format!("{name} value must be greater than {min}"));
    }
    Ok(Width::Fixed(usize::try_from(width.min(MAX_WIDTH)).unwrap_or(0)))
}

#[cfg(test)]
mod tests;
