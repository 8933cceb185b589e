//! The listing as HTML.

use howdah_text::date::Date;
use howdah_text::{date, hex, percent};

use super::entries::{Entry, View, find, read};
use super::turns::let_others_run;
use super::{
    ADD_ALT_CLASS, Config, Directory, FANCY, ICONS_ARE_LINKS, IGNORE_CLIENT, Insert,
    SUPPRESS_DESCRIPTION, SUPPRESS_ICON, SUPPRESS_LAST_MODIFIED, SUPPRESS_PREAMBLE, SUPPRESS_RULES,
    SUPPRESS_SIZE, SUPPRESS_SORTING, TABLE, TRACK_MODIFIED, VERSION_SORT, Width, XHTML,
};
use crate::record::Record;
use crate::support::{escape_html, escape_path, lossy};
use crate::world::{Level, World};

/// Answers a request for a directory with its listing. `is_enabled` is `Options Indexes`. Sets the
/// content type, and `Last-Modified` with `TrackModified`. The error is the status of the answer.
pub async fn handle(
    record: &mut Record,
    world: &dyn World,
    server: &dyn Directory,
    is_enabled: bool,
) -> Result<Vec<u8>, u16> {
    if !is_enabled {
        let message = format!(
            "Cannot serve directory {}: No matching DirectoryIndex ({}) found, and \
             server-generated directory index forbidden by Options directive",
            lossy(&record.filename),
            record.notes.get(b"dir-index-names").map_or_else(|| "none".into(), lossy)
        );
        world.log(Level::Error, &message);
        return Err(403);
    }
    if !record.filename.ends_with(b"/") {
        record.filename.push(b'/');
    }
    let directory = record.filename.clone();
    let Ok(names) = world.list(&directory).await else {
        world.log(Level::Error, &format!("Can't open directory for index: {}", lossy(&directory)));
        return Err(403);
    };
    let whole = record.config.clone();
    let config = whole.of::<super::Config>();
    let content_type = config.content_type.as_deref().unwrap_or(b"text/html");
    let charset = config.charset.as_deref().unwrap_or(b"UTF-8");
    record.content_type = Some(if charset.is_empty() {
        content_type.to_vec()
    } else {
        [content_type, b";charset=", charset].concat()
    });
    if config.options & TRACK_MODIFIED != 0 {
        record.headers_out.set("Last-Modified", date::http(record.file.modified));
    }
    if record.method == b"HEAD" {
        return Ok(Vec::new());
    }
    let view = View::new(config, record.args.as_deref().unwrap_or_default());
    let mut page = Page { config, view: &view, text: Vec::new() };
    let mut title = escape_html(&record.uri);
    while title.len() > 1 && title.ends_with(b"/") {
        title.pop();
    }
    page.head(record, server, &title).await;
    let entries = read(config, &view, record, &directory, names, (world, server)).await?;
    match view.options {
        options if options & TABLE != 0 => page.table(&entries, world).await,
        options if options & FANCY != 0 => page.columns(&entries, world).await,
        _ => page.list(&entries, world).await,
    }
    page.tail(record, server).await;
    Ok(page.text)
}

impl View {
    fn new(config: &Config, query: &[u8]) -> View {
        let mut view = View {
            options: config.options,
            key: config.key.unwrap_or(b'N'),
            is_descending: config.is_descending.unwrap_or(false),
            pattern: None,
            arguments: Vec::new(),
        };
        if config.options & IGNORE_CLIENT != 0 {
            view.options |= SUPPRESS_SORTING;
            return view;
        }
        let (mut format, mut version, mut shown_pattern) = (Vec::new(), Vec::new(), Vec::new());
        for part in query.split(|byte| matches!(byte, b'&' | b';')) {
            match part {
                [b'C', b'=', key @ (b'N' | b'M' | b'S' | b'D')] => view.key = *key,
                [b'O', b'=', direction @ (b'A' | b'D')] => view.is_descending = *direction == b'D',
                [b'F', b'=', kind @ b'0'..=b'2'] => {
                    view.options &= !(FANCY | TABLE);
                    view.options |= match kind {
                        b'0' => 0,
                        b'1' => FANCY,
                        _ => FANCY | TABLE,
                    };
                    format = [b";F=".as_slice(), &[*kind]].concat();
                }
                [b'V', b'=', kind @ (b'0' | b'1')] => {
                    view.options &= !VERSION_SORT;
                    view.options |= if *kind == b'1' { VERSION_SORT } else { 0 };
                    version = [b";V=".as_slice(), &[*kind]].concat();
                }
                [b'P', b'=', pattern @ ..] => {
                    view.pattern = decoded(pattern).filter(|pattern| !pattern.is_empty());
                    if let Some(pattern) = &view.pattern {
                        shown_pattern = [b";P=".as_slice(), &escape_path(pattern, true)].concat();
                    }
                }
                // An argument that cannot be read ends the query.
                _ => break,
            }
        }
        view.arguments = [format, version, shown_pattern].concat();
        view
    }
}

/// Decodes `%xx`; `None` if it is malformed, has a slash or a NUL.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let is_bad = |(at, _): (usize, _)| matches!(hex::byte(&text[at + 1..]), Some(0 | b'/'));
    let mut escapes = text.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if escapes.any(is_bad) { None } else { percent::decode(text) }
}

struct Page<'a> {
    config: &'a Config,
    view: &'a View,
    text: Vec<u8>,
}

impl Page<'_> {
    fn has(&self, option: u32) -> bool {
        self.view.options & option != 0
    }

    fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
    }

    /// Returns a class with a style sheet, else another attribute.
    fn class(&self, name: &str, otherwise: &str) -> Vec<u8> {
        match self.config.style_sheet {
            Some(_) => format!(" class=\"{name}\">").into_bytes(),
            None => format!("{otherwise}>").into_bytes(),
        }
    }

    fn preamble(&mut self, title: &[u8]) {
        let is_xhtml = self.has(XHTML);
        if is_xhtml {
            self.push(&[b"<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
                  \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
                  <html xmlns=\"http://www.w3.org/1999/xhtml\">\n <head>\n  <title>Index of "]);
        } else {
            self.push(&[
                b"<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \
                  \"http://www.w3.org/TR/html4/strict.dtd\">\n<html>\n <head>\n  <title>Index of ",
            ]);
        }
        self.push(&[title, b"</title>\n"]);
        if let Some(sheet) = &self.config.style_sheet {
            let end: &[u8] = if is_xhtml { b" />\n" } else { b">\n" };
            self.push(&[
                b"  <link rel=\"stylesheet\" href=\"",
                sheet,
                b"\" type=\"text/css\"",
                end,
            ]);
        }
        if let Some(insert) = &self.config.head_insert {
            self.push(&[insert]);
        }
        self.push(&[b" </head>\n <body>\n"]);
    }

    async fn head(&mut self, record: &Record, server: &dyn Directory, title: &[u8]) {
        let insert = match &self.config.header {
            Some(name) => {
                let uri = match &record.args {
                    Some(args) => [name.as_slice(), b"?", args].concat(),
                    None => name.clone(),
                };
                server.insert(record, &uri).await
            }
            None => Insert::None,
        };
        match insert {
            Insert::Html(body) => {
                if !self.has(SUPPRESS_PREAMBLE) {
                    self.preamble(title);
                }
                self.push(&[&body]);
            }
            Insert::Plain(content) => {
                self.preamble(title);
                self.plain(&content);
            }
            Insert::None => {
                self.preamble(title);
                match self.config.style_sheet {
                    Some(_) => {
                        self.push(&[b"  <h1 id=\"indextitle\">Index of ", title, b"</h1>\n"])
                    }
                    None => self.push(&[b"<h1>Index of ", title, b"</h1>\n"]),
                }
            }
        }
    }

    async fn tail(&mut self, record: &Record, server: &dyn Directory) {
        let insert = match &self.config.readme {
            Some(name) => server.insert(record, name).await,
            None => Insert::None,
        };
        let mut has_end = true;
        match insert {
            Insert::Html(body) => {
                self.push(&[&body]);
                has_end = !self.has(SUPPRESS_PREAMBLE);
            }
            Insert::Plain(content) => self.plain(&content),
            Insert::None => self.push(&[&server.signature(record)]),
        }
        if has_end {
            self.push(&[b"</body></html>\n"]);
        }
    }

    fn plain(&mut self, content: &[u8]) {
        self.push(&[b"<pre>\n"]);
        for &byte in content {
            match byte {
                b'<' => self.push(&[b"&lt;"]),
                b'>' => self.push(&[b"&gt;"]),
                b'&' => self.push(&[b"&amp;"]),
                _ => self.text.push(byte),
            }
        }
        self.push(&[b"</pre>\n"]);
    }

    /// Heading of a column: a link that sorts by it.
    fn link(&mut self, name: &str, key: u8) {
        if self.has(SUPPRESS_SORTING) {
            return self.push(&[name.as_bytes()]);
        }
        let is_reverse = self.view.key == key && !self.view.is_descending;
        let direction: &[u8] = if is_reverse { b"D" } else { b"A" };
        let arguments = escape_html(&self.view.arguments);
        self.push(&[
            b"<a href=\"?C=",
            &[key],
            b";O=",
            direction,
            &arguments,
            b"\">",
            name.as_bytes(),
            b"</a>",
        ]);
    }

    fn image(&mut self, icon: &[u8], alternative: &[u8]) {
        self.push(&[b"<img src=\"", &escape_html(icon), b"\" alt=\"", alternative, b"\""]);
        for (name, value) in
            [("width", self.config.icon_width), ("height", self.config.icon_height)]
        {
            if value != 0 {
                self.push(&[format!(" {name}=\"{value}\"").as_bytes()]);
            }
        }
        if self.has(XHTML) {
            self.push(&[b" /"]);
        }
        self.push(&[b">"]);
    }

    fn icon(&mut self, entry: &Entry, otherwise: &[u8]) {
        match entry.icon.as_ref().or(self.config.default_icon.as_ref()) {
            Some(icon) => {
                let alternative = entry.alternative.as_deref().unwrap_or(b"   ");
                self.image(icon, &[b"[", alternative, b"]"].concat());
            }
            None => self.push(&[otherwise]),
        }
    }

    async fn table(&mut self, entries: &[Entry], world: &dyn World) {
        let is_styled = self.config.style_sheet.is_some();
        self.push(&[if is_styled {
            b"  <table id=\"indexlist\">\n   <tr class=\"indexhead\">".as_slice()
        } else {
            b"  <table>\n   <tr>"
        }]);
        let mut columns = 1;
        if !self.has(SUPPRESS_ICON) {
            let class = self.class("indexcolicon", " valign=\"top\"");
            self.push(&[b"<th", &class]);
            match find(&self.config.icons, b"^^BLANKICON^^", None, true) {
                Some(icon) => self.image(&icon, b"[ICO]"),
                None => self.push(&[b"&nbsp;"]),
            }
            self.push(&[b"</th>"]);
            columns += 1;
        }
        let class = self.class("indexcolname", "");
        self.push(&[b"<th", &class]);
        self.link("Name", b'N');
        for (option, class, name, key) in [
            (SUPPRESS_LAST_MODIFIED, "indexcollastmod", "Last modified", b'M'),
            (SUPPRESS_SIZE, "indexcolsize", "Size", b'S'),
            (SUPPRESS_DESCRIPTION, "indexcoldesc", "Description", b'D'),
        ] {
            if !self.has(option) {
                let class = self.class(class, "");
                self.push(&[b"</th><th", &class]);
                self.link(name, key);
                columns += 1;
            }
        }
        let mut rule = Vec::new();
        if !self.has(SUPPRESS_RULES) {
            let class = if is_styled { " class=\"indexbreakrow\"" } else { "" };
            let end = if self.has(XHTML) { " /" } else { "" };
            rule = format!("   <tr{class}><th colspan=\"{columns}\"><hr{end}></th></tr>\n")
                .into_bytes();
        }
        self.push(&[b"</th></tr>\n", &rule]);
        for (index, entry) in entries.iter().enumerate() {
            self.row(entry, index);
            let_others_run(world).await;
        }
        self.push(&[&rule, b"</table>\n"]);
    }

    fn row(&mut self, entry: &Entry, index: usize) {
        let parity: &[u8] = if index % 2 == 1 { b"odd" } else { b"even" };
        match (&self.config.style_sheet, &entry.alternative) {
            (None, _) => self.push(&[b"<tr>"]),
            (Some(_), Some(alternative)) if self.has(ADD_ALT_CLASS) => {
                self.push(&[
                    b"   <tr class=\"",
                    parity,
                    b"-",
                    &alternative.to_ascii_lowercase(),
                    b"\">",
                ]);
            }
            _ => self.push(&[b"   <tr class=\"", parity, b"\">"]),
        }
        let (anchor, shown) = names(entry);
        if !self.has(SUPPRESS_ICON) {
            let class = self.class("indexcolicon", " valign=\"top\"");
            self.push(&[b"<td", &class]);
            if self.has(ICONS_ARE_LINKS) {
                self.push(&[b"<a href=\"", &anchor, b"\">"]);
            }
            self.icon(entry, b"&nbsp;");
            if self.has(ICONS_ARE_LINKS) {
                self.push(&[b"</a>"]);
            }
            self.push(&[b"</td>"]);
        }
        let class = self.class("indexcolname", "");
        let (shown, padding) = match self.config.name_width {
            Width::Adjusted => (shown, Vec::new()),
            width => cut(&shown, width.columns()),
        };
        self.push(&[
            b"<td",
            &class,
            b"<a href=\"",
            &anchor,
            b"\">",
            &escape_html(&shown),
            b"</a>",
            &padding,
        ]);
        if !self.has(SUPPRESS_LAST_MODIFIED) {
            match entry.modified {
                Some(modified) => {
                    let class = self.class("indexcollastmod", " align=\"right\"");
                    let date = self.date(modified);
                    self.push(&[b"</td><td", &class, date.as_bytes(), b"  "]);
                }
                None => {
                    let class = self.class("indexcollastmod", "");
                    self.push(&[b"</td><td", &class, b"&nbsp;"]);
                }
            }
        }
        if !self.has(SUPPRESS_SIZE) {
            let class = self.class("indexcolsize", " align=\"right\"");
            self.push(&[b"</td><td", &class, size(entry.size).as_bytes()]);
        }
        if !self.has(SUPPRESS_DESCRIPTION) {
            let class = self.class("indexcoldesc", "");
            let text = match &entry.description {
                Some(text) if self.config.description_width == Width::Adjusted => text.clone(),
                Some(text) => self.cut_description(text, self.config.description_width.columns()),
                None => b"&nbsp;".to_vec(),
            };
            self.push(&[b"</td><td", &class, &text]);
        }
        self.push(&[b"</td></tr>\n"]);
    }

    async fn columns(&mut self, entries: &[Entry], world: &dyn World) {
        let widest = |all: &mut dyn Iterator<Item = usize>, width: Width| match width {
            Width::Adjusted => all.max().unwrap_or(0).max(width.columns()),
            width => width.columns(),
        };
        let name_width =
            widest(&mut entries.iter().map(|entry| entry.name.len()), self.config.name_width);
        let mut lengths =
            entries.iter().filter_map(|entry| entry.description.as_ref().map(Vec::len));
        let description_width = widest(&mut lengths, self.config.description_width);
        self.push(&[b"<pre>"]);
        if !self.has(SUPPRESS_ICON) {
            match find(&self.config.icons, b"^^BLANKICON^^", None, true) {
                Some(icon) => {
                    self.image(&icon, b"Icon ");
                    self.push(&[b" "]);
                }
                None => self.push(&[b"      "]),
            }
        }
        self.link("Name", b'N');
        self.push(&[&vec![b' '; name_width.saturating_sub(4)], b" "]);
        if !self.has(SUPPRESS_LAST_MODIFIED) {
            self.link("Last modified", b'M');
            self.push(&[b"      "]);
        }
        if !self.has(SUPPRESS_SIZE) {
            self.link("Size", b'S');
            self.push(&[b"  "]);
        }
        if !self.has(SUPPRESS_DESCRIPTION) {
            self.link("Description", b'D');
        }
        let rule: &[u8] = if self.has(XHTML) { b"<hr />" } else { b"<hr>" };
        let rule = if self.has(SUPPRESS_RULES) { b"" } else { rule };
        self.push(&[if rule.is_empty() { b"\n" } else { rule }]);
        for entry in entries {
            self.line(entry, name_width, description_width);
            let_others_run(world).await;
        }
        self.push(&[rule, b"</pre>\n"]);
    }

    fn line(&mut self, entry: &Entry, name_width: usize, description_width: usize) {
        let (anchor, shown) = names(entry);
        if !self.has(SUPPRESS_ICON) {
            if self.has(ICONS_ARE_LINKS) {
                self.push(&[b"<a href=\"", &anchor, b"\">"]);
            }
            self.icon(entry, b"     ");
            let end: &[u8] = if self.has(ICONS_ARE_LINKS) { b"</a> " } else { b" " };
            self.push(&[end]);
        }
        let (shown, padding) = cut(&shown, name_width);
        self.push(&[b"<a href=\"", &anchor, b"\">", &escape_html(&shown), b"</a>", &padding, b" "]);
        if !self.has(SUPPRESS_LAST_MODIFIED) {
            let date =
                entry.modified.map_or_else(|| " ".repeat(17), |modified| self.date(modified));
            self.push(&[date.as_bytes(), b"  "]);
        }
        if !self.has(SUPPRESS_SIZE) {
            self.push(&[size(entry.size).as_bytes(), b"  "]);
        }
        if !self.has(SUPPRESS_DESCRIPTION)
            && let Some(text) = &entry.description
        {
            let text = self.cut_description(text, description_width);
            self.push(&[&text]);
        }
        self.push(&[b"\n"]);
    }

    async fn list(&mut self, entries: &[Entry], world: &dyn World) {
        self.push(&[b"<ul>"]);
        for entry in entries {
            let (anchor, shown) = names(entry);
            self.push(&[b"<li><a href=\"", &anchor, b"\"> ", &escape_html(&shown), b"</a></li>\n"]);
            let_others_run(world).await;
        }
        self.push(&[b"</ul>\n"]);
    }

    fn date(&self, seconds: i64) -> String {
        let date = Date::of(seconds);
        let Date { year, month, day, hour, minute, .. } = date;
        if self.config.has_old_dates {
            format!("{day:02}-{}-{year:04} {hour:02}:{minute:02}", date.month_name())
        } else {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
        }
    }

    /// Cuts a description that is too wide. Tags have no width, entities that of a character.
    fn cut_description(&self, text: &[u8], width: usize) -> Vec<u8> {
        let mut left = width;
        if self.config.description_width == Width::Unset {
            let wider = [(SUPPRESS_ICON, 6), (SUPPRESS_LAST_MODIFIED, 19), (SUPPRESS_SIZE, 7)];
            left += wider
                .iter()
                .filter(|(option, _)| self.has(*option))
                .map(|(_, width)| width)
                .sum::<usize>();
        }
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if left == 0 && byte != b'<' {
                break;
            }
            let rest = text.get(at..).unwrap_or_default();
            let end = match byte {
                b'<' => memchr::memchr(b'>', rest),
                b'&' => memchr::memchr(b';', rest),
                _ => Some(0),
            };
            left -= usize::from(byte != b'<' && left > 0);
            match end {
                Some(end) => at += end + 1,
                None => return text.to_vec(),
            }
        }
        let mut cut = text.get(..at).unwrap_or_default().to_vec();
        if at < text.len()
            && let Some(last) = cut.last_mut()
        {
            *last = b'>';
        }
        cut
    }
}

/// Returns the link of an entry and the name to show.
fn names(entry: &Entry) -> (Vec<u8>, Vec<u8>) {
    let anchor = escape_html(&escape_path(&entry.name, false));
    if entry.is_parent {
        (anchor, b"Parent Directory".to_vec())
    } else {
        (anchor, entry.name.clone())
    }
}

/// Cuts a name that is too wide; returns the padding of a shorter one.
fn cut(name: &[u8], width: usize) -> (Vec<u8>, Vec<u8>) {
    match name.len().checked_sub(width) {
        None | Some(0) => (name.to_vec(), vec![b' '; width.saturating_sub(name.len())]),
        Some(_) => {
            let start = name.get(..width.saturating_sub(3)).unwrap_or_default();
            ([start, b"..>"].concat(), Vec::new())
        }
    }
}

/// Writes a size in four columns, as Apache's `apr_strfsize`.
fn size(bytes: Option<u64>) -> String {
    let Some(mut size) = bytes else { return "  - ".into() };
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in ['K', 'M', 'G', 'T', 'P', 'E'] {
        let mut rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || (size == 9 && rest < 973) {
            rest = (rest * 5 + 256) / 512;
            if rest >= 10 {
                size += 1;
                rest = 0;
            }
            return format!("{size}.{rest}{unit}");
        }
        return format!("{:3}{unit}", size + u64::from(rest >= 512));
    }
    "****".into()
}
