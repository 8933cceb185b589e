//! The tree of directives: files, includes and blocks.
//!
//! A file is parsed once, however often it is included, so that each of its directives has one
//! entry in the report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::dump::Dump;
use super::lexer::{Lexer, Token};
use crate::source::is_pattern;
use crate::{Error, Id, Report, Source};

/// A directive with its place in the tree.
#[derive(Debug, Clone)]
pub struct Directive {
    /// Entry of the directive in the report.
    pub id: Id,
    /// The file as it was read.
    pub file: Rc<Path>,
    /// Line on which the directive begins, from 1.
    pub line: u32,
    /// Name of the directive, such as `listen`.
    pub name: String,
    /// Arguments of the directive, without quotation marks.
    pub args: Vec<String>,
    /// Directives in the block; `None` for a directive that ends with a semicolon.
    pub block: Option<Vec<Directive>>,
}

/// Maximum depth of blocks, and of includes.
const MAX_DEPTH: usize = 32;

/// Maximum number of directives, each counted as often as its file is included.
const MAX_DIRECTIVES: usize = 100_000;

/// Blocks whose entries are no directives.
pub const DATA_BLOCKS: [&str; 5] = ["map", "geo", "types", "split_clients", "charset_map"];

impl Directive {
    /// An error in the line of the directive.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.file, self.line, message)
    }

    /// Returns the argument at a place, or an empty text.
    pub fn arg(&self, place: usize) -> &str {
        self.args.get(place).map_or("", String::as_str)
    }

    /// Returns the directives in the block.
    pub fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// The block around a directive.
#[derive(Debug, Clone, Copy)]
struct Parent<'p> {
    name: &'p str,
    id: Id,
    /// The line of its `{`; none if it is in the file that includes this one.
    line: Option<u32>,
}

/// Reads files of a configuration.
pub struct Reader<'a> {
    source: &'a mut Source,
    report: &'a mut Report,
    /// The directories of relative includes, the first of which that has the file counts.
    directories: Vec<PathBuf>,
    dump: Option<Dump>,
    parsed: BTreeMap<(PathBuf, bool), Rc<Vec<Directive>>>,
    /// The files that are being included.
    open: Vec<PathBuf>,
    directives: usize,
}

impl<'a> Reader<'a> {
    /// A reader of this machine's files.
    pub fn new(source: &'a mut Source, report: &'a mut Report, directory: PathBuf) -> Self {
        Self {
            source,
            report,
            directories: vec![directory],
            dump: None,
            parsed: BTreeMap::new(),
            open: Vec::new(),
            directives: 0,
        }
    }

    /// Reads a main file and all that it includes. The text may be the output of `nginx -T`.
    pub fn read(&mut self, file: &Path) -> Result<Vec<Directive>, Error> {
        let text = self.source.read(file)?;
        let main = match Dump::parse(file, &text) {
            Some(dump) => {
                let main = dump.main();
                self.dump = Some(dump);
                main
            }
            None => {
                let tree = self.parse(file, &text, 1, None)?;
                self.parsed.insert((file.to_owned(), false), Rc::new(tree));
                file.to_owned()
            }
        };
        if self.parsed.get(&(main.clone(), false)).is_some_and(|tree| is_part_of_http(tree)) {
            // A file of sites-available; what it includes is relative to the directory above.
            let own = self.directories.clone();
            let above = own.first().and_then(|own| own.parent()).map(Path::to_owned);
            let usual = self.source.locate(Path::new("/etc/nginx"), Path::new("/"));
            self.directories = above.into_iter().chain(own).chain([usual]).collect();
        }
        self.open_file(&main, None, None)
    }

    /// Returns the directives of a file with those that it includes.
    fn open_file(
        &mut self,
        path: &Path,
        from: Option<&Directive>,
        table: Option<(&str, Id)>,
    ) -> Result<Vec<Directive>, Error> {
        let failed = |message: String| match from {
            Some(include) => include.error(message),
            None => Error::file(path, message),
        };
        if self.open.iter().any(|open| open == path) {
            return Err(failed(format!("{} includes itself", path.display())));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(failed(format!("files are included more than {MAX_DEPTH} deep")));
        }
        let key = (path.to_owned(), table.is_some());
        let tree = match self.parsed.get(&key) {
            Some(tree) => Rc::clone(tree),
            None => {
                let tree = match self.dump.as_ref().and_then(|dump| dump.file(path)) {
                    Some((text, line)) => {
                        let file = self.dump.as_ref().map(|dump| dump.path.clone());
                        self.parse(&file.unwrap_or_default(), &text, line, table)?
                    }
                    None => {
                        let text = self.source.read(path).map_err(|error| match error.line {
                            None => failed(format!(
                                "cannot include {}: {}",
                                path.display(),
                                error.message
                            )),
                            Some(_) => error,
                        })?;
                        self.parse(path, &text, 1, table)?
                    }
                };
                let tree = Rc::new(tree);
                self.parsed.insert(key, Rc::clone(&tree));
                tree
            }
        };
        self.open.push(path.to_owned());
        let expanded = self.expand(&tree, table);
        self.open.pop();
        expanded
    }

    /// Puts the directives of included files behind each `include`.
    fn expand(
        &mut self,
        tree: &[Directive],
        table: Option<(&str, Id)>,
    ) -> Result<Vec<Directive>, Error> {
        let mut found = Vec::new();
        for directive in tree {
            self.directives += 1;
            if self.directives > MAX_DIRECTIVES {
                return Err(directive.error(format!(
                    "the configuration has more than {MAX_DIRECTIVES} directives"
                )));
            }
            let mut copy = directive.clone();
            if let Some(block) = &directive.block {
                let is_table = DATA_BLOCKS.contains(&directive.name.as_str());
                let inner = is_table.then_some((directive.name.as_str(), directive.id));
                copy.block = Some(self.expand(block, inner)?);
            }
            found.push(copy);
            if directive.name == "include" && directive.block.is_none() {
                let pattern = match directive.args.as_slice() {
                    [pattern] if !pattern.is_empty() => pattern.clone(),
                    _ => return Err(directive.error("\"include\" must have one argument")),
                };
                self.report.converted(directive.id);
                for path in self.included(directive, &pattern)? {
                    found.extend(self.open_file(&path, Some(directive), table)?);
                }
            }
        }
        Ok(found)
    }

    /// Returns the files that an `include` names.
    fn included(&self, directive: &Directive, pattern: &str) -> Result<Vec<PathBuf>, Error> {
        if let Some(dump) = &self.dump {
            let found = dump.included(pattern);
            if found.is_empty() && !is_pattern(pattern) {
                return Err(directive.error(format!("the output has no file {pattern}")));
            }
            return Ok(found);
        }
        let mut missing = String::new();
        for directory in &self.directories {
            if is_pattern(pattern) {
                let mut found = self.source.glob(pattern, directory);
                found.retain(|path| !self.source.is_directory(path));
                if !found.is_empty() {
                    return Ok(found);
                }
                continue;
            }
            let path = self.source.locate(Path::new(pattern), directory);
            if self.source.exists(&path) {
                return Ok(vec![path]);
            }
            if missing.is_empty() {
                missing = path.display().to_string();
            }
        }
        if is_pattern(pattern) {
            return Ok(Vec::new());
        }
        Err(directive.error(format!("there is no file {missing}")))
    }

    /// Parses a text that begins at a line of a file.
    fn parse(
        &mut self,
        file: &Path,
        text: &str,
        line: u32,
        table: Option<(&str, Id)>,
    ) -> Result<Vec<Directive>, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lexer = Lexer::new(file, text, line);
        let file: Rc<Path> = Rc::from(file);
        let parent = table.map(|(name, id)| Parent { name, id, line: None });
        self.block(&mut lexer, &file, parent, 0)
    }

    /// Parses a block up to its `}`, or a file up to its end.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        file: &Rc<Path>,
        parent: Option<Parent<'_>>,
        depth: usize,
    ) -> Result<Vec<Directive>, Error> {
        let mut found: Vec<Directive> = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut start = 0;
        loop {
            let (token, line) = lexer.next()?;
            let at = |message: String| Error::at(file, line, message);
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        start = line;
                    }
                    words.push(word);
                    if words.len() > MAX_DIRECTIVES {
                        return Err(at("the directive has too many arguments".to_owned()));
                    }
                }
                Token::Semicolon if words.is_empty() => {
                    return Err(at("unexpected \";\"".to_owned()));
                }
                Token::Open if words.is_empty() => return Err(at("unexpected \"{\"".to_owned())),
                Token::Semicolon => {
                    let args = words.split_off(1);
                    let name = words.pop().unwrap_or_default();
                    found.push(self.directive(file, start, name, args, parent));
                }
                Token::Open => {
                    let args = words.split_off(1);
                    let name = words.pop().unwrap_or_default();
                    let mut directive = self.directive(file, start, name, args, parent);
                    if depth >= MAX_DEPTH {
                        return Err(at(format!("blocks are more than {MAX_DEPTH} deep")));
                    }
                    let block = if directive.name.ends_with("_by_lua_block") {
                        lexer.skip_foreign_block(start)?;
                        Vec::new()
                    } else {
                        let own =
                            Parent { name: &directive.name, id: directive.id, line: Some(start) };
                        self.block(lexer, file, Some(own), depth + 1)?
                    };
                    directive.block = Some(block);
                    found.push(directive);
                }
                Token::Close if !words.is_empty() => {
                    return Err(at(
                        "unexpected \"}\"; the directive in front of it has no \";\"".to_owned()
                    ));
                }
                Token::Close if parent.is_none_or(|parent| parent.line.is_none()) => {
                    return Err(at("unexpected \"}\": no block is open".to_owned()));
                }
                Token::Close => return Ok(found),
                Token::End if !words.is_empty() => {
                    let message = "the file ends within this directive; it has no \";\"";
                    return Err(Error::at(file, start, message));
                }
                Token::End => {
                    return match parent.and_then(|parent| Some((parent.name, parent.line?))) {
                        Some((name, opened)) => Err(Error::at(
                            file,
                            opened,
                            format!("the block of \"{name}\" has no \"}}\""),
                        )),
                        None => Ok(found),
                    };
                }
            }
        }
    }

    /// Makes a directive, with an entry in the report unless it is an entry of a table.
    fn directive(
        &mut self,
        file: &Rc<Path>,
        line: u32,
        name: String,
        args: Vec<String>,
        parent: Option<Parent<'_>>,
    ) -> Directive {
        let id = match parent {
            Some(parent) if DATA_BLOCKS.contains(&parent.name) && name != "include" => parent.id,
            _ => self.report.add(file, line, shown(&name, &args)),
        };
        Directive { id, file: Rc::clone(file), line, name, args, block: None }
    }
}

/// Returns true if these directives stand within `http` of another file.
pub fn is_part_of_http(tree: &[Directive]) -> bool {
    let is_of_main = |directive: &Directive| {
        matches!(directive.name.as_str(), "http" | "events" | "stream" | "mail")
    };
    !tree.iter().any(is_of_main)
}

/// Returns the text of a directive for the report, on one line.
fn shown(name: &str, args: &[String]) -> String {
    /// Maximum length in characters.
    const MAX_SHOWN: usize = 200;
    let mut text = name.to_owned();
    for arg in args {
        text.push(' ');
        text.push_str(arg);
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
