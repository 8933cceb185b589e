//! Reads files into a tree of directives, as Apache does.
//!
//! 1. Lines are joined and their variables replaced.
//! 2. `Include` is replaced by the directives of its files, `Use` by those of its macro.
//! 3. Conditions that Apache decides when it reads (`<IfModule>`, `<IfDefine>`, …) are decided: the
//!    directives of a section that is left out have their place in the report alone.
//! 4. Other sections become nodes with children.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::{Error, Id, Report, Source, Status};

use super::environment::Environment;
use super::lines::{self, Line};
use super::modules::Modules;
use super::tree::Node;
use super::words;

/// Deepest nesting of sections, included files and macros.
const MAX_DEPTH: usize = 60;

/// Deepest nesting of included files.
const MAX_INCLUDES: usize = 20;

/// Maximum number of directives, with those of included files and macros each time.
const MAX_DIRECTIVES: usize = 300_000;

/// Maximum size of a line of a macro with its arguments.
const MAX_LINE_BYTES: usize = 1 << 16;

/// Maximum size of the lines of all macros, each time that one is used.
const MAX_EXPANDED_BYTES: usize = 32 << 20;

/// The version for `<IfVersion>`.
const VERSION: [u32; 3] = [2, 4, 66];

/// Reads the files of a configuration.
pub struct Reader<'a> {
    pub source: &'a mut Source,
    pub report: &'a mut Report,
    pub environment: Environment,
    pub modules: Modules,
    /// Directory of relative paths, on this machine.
    pub server_root: PathBuf,
    /// Directory of relative paths, as the configuration has it.
    pub written_root: String,
    /// Directives that have their place in the report.
    known: HashMap<(Rc<Path>, u32), Id>,
    macros: BTreeMap<String, Macro>,
    /// Files that are being read.
    open: Vec<PathBuf>,
    directives: usize,
    /// Bytes of the lines of used macros.
    expanded: usize,
}

/// A macro of mod_macro.
#[derive(Debug, Clone)]
struct Macro {
    parameters: Vec<String>,
    body: Vec<Line>,
    id: Option<Id>,
    is_used: bool,
}

/// Lines that are left to read.
type Lines = std::vec::IntoIter<Line>;

impl<'a> Reader<'a> {
    /// Prepares to read.
    pub fn new(source: &'a mut Source, report: &'a mut Report, modules: Modules) -> Reader<'a> {
        let environment = Environment::new(source);
        let server_root = source.locate(Path::new("/etc/apache2"), Path::new("/"));
        Reader {
            source,
            report,
            environment,
            modules,
            server_root,
            written_root: "/etc/apache2".to_owned(),
            known: HashMap::new(),
            macros: BTreeMap::new(),
            open: Vec::new(),
            directives: 0,
            expanded: 0,
        }
    }

    /// Reads a file.
    pub fn file(&mut self, path: &Path) -> Result<Vec<Node>, Error> {
        let text = self.source.read(path)?;
        let lines = lines::of(&text, Some(&Rc::from(path)));
        self.open.push(path.to_owned());
        let nodes = self.nodes(&mut lines.into_iter(), None, 0)?;
        self.open.pop();
        Ok(nodes)
    }

    /// Reads a text whose directives have no place in the report.
    pub fn text(&mut self, text: &str) -> Result<Vec<Node>, Error> {
        self.nodes(&mut lines::of(text, None).into_iter(), None, 0)
    }

    /// Marks macros that are never used.
    pub fn finish(&mut self) {
        let unused: Vec<Macro> =
            self.macros.values().filter(|found| !found.is_used).cloned().collect();
        for found in unused {
            self.leave_out(&found.body, "no directive uses the macro that it is in");
            self.not_needed(found.id, "no directive uses the macro");
        }
    }

    fn not_needed(&mut self, id: Option<Id>, reason: impl Into<String>) {
        if let Some(id) = id {
            self.report.mark(id, Status::NotNeeded, reason);
        }
    }

    fn converted(&mut self, id: Option<Id>) {
        if let Some(id) = id {
            self.report.converted(id);
        }
    }

    /// Gives a directive its place in the report, once.
    fn place(&mut self, line: &Line, text: &str) -> Option<Id> {
        let file = line.file.clone()?;
        let report = &mut *self.report;
        let key = (Rc::clone(&file), line.number);
        Some(*self.known.entry(key).or_insert_with(|| report.add(&file, line.number, text)))
    }

    /// Reads directives up to the end of a section.
    fn nodes(
        &mut self,
        lines: &mut Lines,
        section: Option<&Node>,
        depth: usize,
    ) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        while let Some(line) = lines.next() {
            let text = self.environment.resolved(&line.text);
            let (written, arguments) = words::take(&text);
            if let Some(end) = written.strip_prefix("</") {
                return match section {
                    Some(section) if is_end(end, &section.name) => Ok(nodes),
                    Some(section) => Err(error(
                        &line,
                        format!(
                            "</{end} does not end {}>, which begins on line {}; write </{}> first",
                            section.written,
                            section.line,
                            &section.written[1..]
                        ),
                    )),
                    None => Err(error(&line, format!("</{end} ends a section that was not begun"))),
                };
            }
            self.directives += 1;
            if self.directives > MAX_DIRECTIVES || depth > MAX_DEPTH {
                let problem = if depth > MAX_DEPTH {
                    format!("sections are nested more than {MAX_DEPTH} deep")
                } else {
                    format!("the configuration has more than {MAX_DIRECTIVES} directives")
                };
                return Err(error(&line, problem));
            }
            let node = self.node(&line, &written, arguments)?;
            self.add(node, &line, lines, depth, &mut nodes)?;
        }
        match section {
            None => Ok(nodes),
            Some(section) => Err(Error {
                file: section.file.as_deref().unwrap_or(Path::new("")).to_owned(),
                line: Some(section.line),
                message: format!("{}> has no </{}>", section.written, &section.written[1..]),
            }),
        }
    }

    fn node(&mut self, line: &Line, written: &str, arguments: &str) -> Result<Node, Error> {
        let mut written = written.to_owned();
        let mut arguments = arguments.trim_end().to_owned();
        if written.starts_with('<') {
            if let Some(bare) = written.strip_suffix('>') {
                written = bare.to_owned();
            } else if let Some(bare) = arguments.strip_suffix('>') {
                arguments = bare.trim_end().to_owned();
            } else {
                return Err(error(line, format!("{written} has no > at the end of its line")));
            }
            if written.len() == 1 {
                return Err(error(line, "the name of the section is missing behind <"));
            }
        }
        let close = if written.starts_with('<') { ">" } else { "" };
        let blank = if arguments.is_empty() { "" } else { " " };
        let id = self.place(line, &format!("{written}{blank}{arguments}{close}"));
        Ok(Node {
            name: written.to_ascii_lowercase(),
            written,
            arguments,
            children: Vec::new(),
            id,
            file: line.file.clone(),
            line: line.number,
        })
    }

    /// Adds a directive, or those that it stands for.
    fn add(
        &mut self,
        mut node: Node,
        line: &Line,
        lines: &mut Lines,
        depth: usize,
        nodes: &mut Vec<Node>,
    ) -> Result<(), Error> {
        match node.name.as_str() {
            "<ifmodule" | "<ifdefine" | "<ifversion" | "<iffile" | "<ifdirective"
            | "<ifsection" => {
                let (holds, reason) = self.condition(&node, line)?;
                self.not_needed(node.id, reason.clone());
                if holds {
                    nodes.extend(self.nodes(lines, Some(&node), depth + 1)?);
                } else {
                    let body = self.body(lines, &node)?;
                    self.leave_out(&body, &reason);
                }
            }
            "<macro" => self.add_macro(&node, line, lines)?,
            "undefmacro" => {
                if let Some(found) = self.macros.remove(&node.first().to_ascii_lowercase())
                    && !found.is_used
                {
                    self.leave_out(&found.body, "no directive uses the macro that it is in");
                }
                self.converted(node.id);
            }
            "use" => nodes.extend(self.use_macro(&node, line, depth)?),
            "include" | "includeoptional" => nodes.extend(self.include(&node, line, depth)?),
            "define" | "undefine" => self.define(&node, line)?,
            "loadmodule" => {
                let words = node.words();
                let [identifier, _] = words.as_slice() else {
                    return Err(error(line, "LoadModule takes the name of a module and its file"));
                };
                self.modules.load(identifier);
                nodes.push(node);
            }
            "serverroot" => {
                let root = node.first();
                self.server_root = self.source.locate(Path::new(&root), Path::new("/"));
                self.written_root = root.trim_end_matches('/').to_owned();
                self.not_needed(node.id, "relative paths have been read below this directory");
            }
            "error" => {
                return Err(error(line, format!("Error: {}", node.arguments)));
            }
            "warning" => self.not_needed(node.id, "it only prints a warning at the start"),
            _ => {
                if node.is_section() {
                    node.children = self.nodes(lines, Some(&node), depth + 1)?;
                }
                nodes.push(node);
            }
        }
        Ok(())
    }

    /// Decides a condition. Returns a reason for the report, too.
    fn condition(&mut self, node: &Node, line: &Line) -> Result<(bool, String), Error> {
        let all = node.words();
        let Some(word) = all.first() else {
            return Err(error(line, format!("{}> needs an argument", node.written)));
        };
        let (is_negated, name) = match word.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, word.as_str()),
        };
        let holds = match node.name.as_str() {
            "<ifmodule" => self.modules.has(name),
            "<ifdefine" => self.environment.is_defined(name),
            "<iffile" => {
                let path = self.source.locate(Path::new(name), &self.server_root);
                self.source.exists(&path)
            }
            "<ifdirective" | "<ifsection" => !howdah_htaccess::registry::find(name).is_empty(),
            _ => {
                let holds = version_holds(&all).ok_or_else(|| {
                    error(line, "<IfVersion> takes a comparison and a version, as in >= 2.4")
                })?;
                let text = if holds { "true" } else { "not true" };
                return Ok((holds, format!("the condition is {text} for Apache 2.4")));
            }
        };
        let noun = match node.name.as_str() {
            "<ifmodule" => "the module",
            "<ifdefine" => "the name",
            "<iffile" => "the file",
            _ => "the directive",
        };
        let state = match (node.name.as_str(), holds) {
            ("<ifmodule", true) => "loaded",
            ("<ifmodule", false) => "not loaded",
            ("<ifdefine", true) => "defined",
            ("<ifdefine", false) => "not defined",
            (_, true) => "there",
            (_, false) => "not there",
        };
        let holds = holds != is_negated;
        let effect = if holds { "the directives inside hold" } else { "the section is left out" };
        Ok((holds, format!("{noun} {name} is {state}: {effect}")))
    }

    /// Takes the lines of a section as they are.
    fn body(&mut self, lines: &mut Lines, section: &Node) -> Result<Vec<Line>, Error> {
        let mut body: Vec<Line> = Vec::new();
        let mut open: Vec<(String, Line)> = Vec::new();
        for line in lines.by_ref() {
            let (word, _) = words::take(&line.text);
            if let Some(end) = word.strip_prefix("</") {
                match open.last() {
                    None if is_end(end, &section.name) => return Ok(body),
                    Some((name, _)) if is_end(end, name) => {
                        open.pop();
                    }
                    Some((name, begun)) => {
                        return Err(error(
                            &line,
                            format!(
                                "</{end} does not end {name}>, which begins on line {}",
                                begun.number
                            ),
                        ));
                    }
                    None => {
                        return Err(error(
                            &line,
                            format!(
                                "</{end} does not end {}>, which begins on line {}",
                                section.written, section.line
                            ),
                        ));
                    }
                }
            } else if word.len() > 1 && word.starts_with('<') {
                open.push((word.trim_end_matches('>').to_ascii_lowercase(), line.clone()));
                if open.len() > MAX_DEPTH {
                    return Err(error(
                        &line,
                        format!("sections are nested more than {MAX_DEPTH} deep"),
                    ));
                }
            }
            body.push(line);
        }
        let (name, number) = match open.last() {
            Some((name, line)) => (name.clone(), line.number),
            None => (section.written.clone(), section.line),
        };
        Err(Error {
            file: section.file.as_deref().unwrap_or(Path::new("")).to_owned(),
            line: Some(number),
            message: format!("{name}> has no </{}>", name.trim_start_matches('<')),
        })
    }

    /// Gives lines their places in the report, as directives that have no effect.
    fn leave_out(&mut self, lines: &[Line], reason: &str) {
        for line in lines.iter().filter(|line| !line.text.starts_with("</")) {
            let id = self.place(line, &line.text);
            self.not_needed(id, reason);
        }
    }

    fn define(&mut self, node: &Node, line: &Line) -> Result<(), Error> {
        let words = node.words();
        match (node.name.as_str(), words.as_slice()) {
            ("define", [name]) => self.environment.define(name, None),
            ("define", [name, value]) => self.environment.define(name, Some(value.clone())),
            ("undefine", [name]) => self.environment.undefine(name),
            _ => {
                return Err(error(
                    line,
                    format!("{} has a wrong number of arguments", node.written),
                ));
            }
        }
        self.converted(node.id);
        Ok(())
    }

    fn add_macro(&mut self, node: &Node, line: &Line, lines: &mut Lines) -> Result<(), Error> {
        let mut all = node.words().into_iter();
        let Some(name) = all.next() else { return Err(error(line, "<Macro> needs a name")) };
        let body = self.body(lines, node)?;
        for line in body.iter().filter(|line| !line.text.starts_with("</")) {
            self.place(line, &line.text);
        }
        let found = Macro { parameters: all.collect(), body, id: node.id, is_used: false };
        self.macros.insert(name.to_ascii_lowercase(), found);
        Ok(())
    }

    fn use_macro(&mut self, node: &Node, line: &Line, depth: usize) -> Result<Vec<Node>, Error> {
        let mut values = node.words();
        if values.is_empty() {
            return Err(error(line, "Use needs the name of a macro"));
        }
        let name = values.remove(0);
        let Some(found) = self.macros.get_mut(&name.to_ascii_lowercase()) else {
            return Err(error(line, format!("there is no macro {name}")));
        };
        found.is_used = true;
        let id = found.id;
        if found.parameters.len() != values.len() {
            let count = found.parameters.len();
            return Err(error(line, format!("the macro {name} takes {count} arguments")));
        }
        if depth + 2 > MAX_DEPTH {
            return Err(error(line, "macros use each other without an end"));
        }
        // Of two parameters at one place, the longer one counts.
        let mut replacements: Vec<(String, String)> =
            found.parameters.iter().cloned().zip(values).collect();
        replacements.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut lines = found.body.clone();
        for own in &mut lines {
            own.text = replaced(&own.text, &replacements);
            self.expanded += own.text.len();
            if own.text.len() > MAX_LINE_BYTES || self.expanded > MAX_EXPANDED_BYTES {
                let mib = MAX_EXPANDED_BYTES >> 20;
                let problem = if own.text.len() > MAX_LINE_BYTES {
                    format!("a line of the macro {name} has more than {MAX_LINE_BYTES} bytes here")
                } else {
                    format!("the lines of all used macros have more than {mib} MiB")
                };
                return Err(error(line, problem));
            }
        }
        self.converted(id);
        self.converted(node.id);
        self.nodes(&mut lines.into_iter(), None, depth + 2)
    }

    fn include(&mut self, node: &Node, line: &Line, depth: usize) -> Result<Vec<Node>, Error> {
        let words = node.words();
        let [path] = words.as_slice() else {
            return Err(error(line, format!("{} takes one path", node.written)));
        };
        let is_optional = node.name == "includeoptional";
        let mut files = BTreeSet::new();
        let mut ordered = Vec::new();
        let is_pattern = path.contains(['*', '?', '[']);
        let found = if is_pattern {
            self.source.glob(path, &self.server_root)
        } else {
            let found = self.source.locate(Path::new(path), &self.server_root);
            if self.source.exists(&found) { vec![found] } else { Vec::new() }
        };
        if found.is_empty() && !is_optional {
            let problem = if is_pattern { "no file matches" } else { "there is no file" };
            return Err(error(
                line,
                format!("{problem} {path}; IncludeOptional would leave it out"),
            ));
        }
        for path in found {
            self.collect(&path, line, 0, &mut files, &mut ordered)?;
        }
        if ordered.is_empty() {
            self.not_needed(node.id, "no file matches");
        } else {
            self.converted(node.id);
        }
        let mut nodes = Vec::new();
        for path in ordered {
            if self.open.contains(&path) {
                return Err(error(line, format!("{} includes itself", path.display())));
            }
            if self.open.len() > MAX_INCLUDES {
                return Err(error(
                    line,
                    format!("files are included more than {MAX_INCLUDES} deep"),
                ));
            }
            let text = self.source.read(&path)?;
            let lines = lines::of(&text, Some(&Rc::from(path.as_path())));
            self.open.push(path);
            nodes.extend(self.nodes(&mut lines.into_iter(), None, depth + 1)?);
            self.open.pop();
        }
        Ok(nodes)
    }

    /// Collects a file, or the files of a directory and those below it.
    fn collect(
        &mut self,
        path: &Path,
        line: &Line,
        depth: usize,
        known: &mut BTreeSet<PathBuf>,
        files: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        if depth > MAX_INCLUDES {
            return Err(error(
                line,
                format!("directories are nested more than {MAX_INCLUDES} deep"),
            ));
        }
        if self.source.is_directory(path) {
            for entry in self.source.list(path) {
                self.collect(&entry, line, depth + 1, known, files)?;
            }
        } else if known.insert(path.to_owned()) || depth == 0 {
            files.push(path.to_owned());
        }
        Ok(())
    }
}

/// Returns true if the text behind `</` ends a section of this name.
fn is_end(end: &str, section: &str) -> bool {
    end.trim_end_matches('>').trim_end().eq_ignore_ascii_case(section.trim_start_matches('<'))
}

/// Replaces names in a text, in one pass.
fn replaced(text: &str, replacements: &[(String, String)]) -> String {
    let mut result = String::new();
    let mut rest = text;
    'text: while let Some(c) = rest.chars().next() {
        for (name, value) in replacements {
            if !name.is_empty()
                && let Some(behind) = rest.strip_prefix(name.as_str())
            {
                result.push_str(value);
                rest = behind;
                continue 'text;
            }
        }
        result.push(c);
        rest = &rest[c.len_utf8()..];
    }
    result
}

/// Decides `<IfVersion>`; `None` if its arguments are not valid.
fn version_holds(words: &[String]) -> Option<bool> {
    let first = words.first()?;
    let (is_negated, first) = match first.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, first.as_str()),
    };
    let operator = first.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (operator, version) = match words.get(1) {
        Some(version) => (first, version.as_str()),
        None if operator.is_empty() => ("=", first),
        None => return None,
    };
    if operator == "~" || version.starts_with('/') {
        return Some(!is_negated);
    }
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let mut wanted = [0; 3];
    for place in &mut wanted {
        match parts.next() {
            Some(part) => *place = part?,
            None => break,
        }
    }
    let holds = match operator {
        "=" | "==" => VERSION == wanted,
        ">" => VERSION > wanted,
        ">=" => VERSION >= wanted,
        "<" => VERSION < wanted,
        "<=" => VERSION <= wanted,
        _ => return None,
    };
    Some(holds != is_negated)
}

fn error(line: &Line, message: impl Into<String>) -> Error {
    Error {
        file: line.file.as_deref().unwrap_or(Path::new("")).to_owned(),
        line: line.file.as_ref().map(|_| line.number),
        message: message.into(),
    }
}
