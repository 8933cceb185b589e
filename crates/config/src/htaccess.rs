//! `htaccess`: files of Apache's directives in the directories of a site.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use howdah_template::{Part, Subject, Template, Variable};

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, default_of_reader};
use crate::patterns;
use crate::php::PhpTarget;

/// `htaccess` of an application or a share.
pub(crate) static HTACCESS: Shape = Shape {
    name: "htaccess",
    parts: &[&[
        Key::new(
            "allow",
            Kind::Texts,
            "Classes of directives that are allowed, as Apache's `AllowOverride`",
        )
        .default("\"All\"")
.details(
    "`AuthConfig`, `FileInfo`, `Indexes`, `Limit`, `Options`, `Options=Indexes,MultiViews`, \
     `Nonfatal=Override`. A directive of another class is an error, and requests below that \
     directory get 500"),
        Key::new("file", Kind::Text, "Name of the files").default("\".htaccess\"")
.details("Apache's `AccessFileName`"),
        Key::new("index", Kind::Texts, "Index files of directories, as Apache's `DirectoryIndex`")
            .default("[\"index.html\", \"index.php\"]"),
        Key::new("options", Kind::Texts, "Features of directories, as Apache's `Options`")
            .default("[\"Indexes\", \"FollowSymLinks\"]")
.details("`SymLinksIfOwnerMatch` is checked without the race that Apache has"),
        Key::new("scripts", Kind::Text, "Regular expression of the names of scripts")
            .default(r#""\\.ph(ar|p|tml)$""#)
.details("Apache's `FilesMatch` with `SetHandler` of Debian's mod_php"),
        Key::new(
            "closed",
            Kind::Texts,
            "Patterns of paths below the root: files are neither sent nor run",
        )
        .default("none")
.details(
    "[Patterns](configuration/routes.md#match), such as `/data/*`; 403. Apache's `Require all \
     denied` in a `<Directory>` or `<Files>` of the server"),
        Key::new(
            "without_scripts",
            Kind::Texts,
            "Patterns of paths below the root: files are not run",
        )
        .default("none")
.details(
    "Such as `/uploads/*`; 403. Apache's `php_admin_flag engine off` in a `<Directory>`. \
     `.htaccess` files in such a directory cannot change that"),
        Key::new(
            "directives",
            Kind::Texts,
            "Directives of the server's configuration for the site, one a line",
        )
        .default("none")
.details(
    "As in Apache's `<VirtualHost>`: all that `.htaccess` files may have, and `php_admin_value` and \
     `php_admin_flag`. Rules of mod_rewrite and redirects see the path of the URL, before a file is \
     looked for"),
        Key::new(
            "sections",
            Kind::Array(&Kind::Object(&SECTION)),
            "Directives for directories and for paths of URLs, as Apache's `<Directory>` and \
             `<Location>`",
        )
        .default("none"),
        Key::new(
            "aliases",
            Kind::Array(&Kind::Object(&ALIAS)),
            "Paths of URLs that lead to files elsewhere, as Apache's `Alias`",
        )
        .default("none"),
        Key::new(
            "maps",
            Kind::Named(&Kind::Either(&[Kind::Text, Kind::Named(&Kind::Texts)])),
            "Maps by name, in which rules look values up with `${NAME:KEY|DEFAULT}`, as Apache's \
             `RewriteMap`",
        )
        .default("none")
.details(
    "An object has a value for each key, or several that requests get in turns (`txt:`, `rnd:`). A \
     string is one of Apache's functions (`int:`): `tolower`, `toupper`, `escape` or `unescape`"),
    ]],
};

/// A member of `sections`.
static SECTION: Shape = Shape {
    name: "htaccess_section",
    parts: &[&[
        Key::new("directory", Kind::Text, "Directory, for it and those below it").details(
            "May have `*`, `?` and `[…]`; one of this key and the three following ones is required",
        ),
        Key::new("directory_match", Kind::Text, "Regular expression of the paths of directories"),
        Key::new("location", Kind::Text, "Path of URLs, for it and those below it")
            .details("May have `*`, `?` and `[…]`"),
        Key::new("location_match", Kind::Text, "Regular expression of paths of URLs"),
        Key::new("directives", Kind::Texts, "Directives, one a line").default("none"),
        Key::new(
            "files",
            Kind::Switch,
            "Reads the `.htaccess` files of the directory and of those below it",
        )
        .default("as above the directory")
        .details("`false` is Apache's `AllowOverride None`"),
        Key::new(
            "allow",
            Kind::Texts,
            "Classes of directives that these files may have, as `allow` of the site",
        )
        .default("as above the directory")
        .details("Only beside `directory`"),
    ]],
};

/// A member of `aliases`.
static ALIAS: Shape = Shape {
    name: "htaccess_alias",
    parts: &[&[
        Key::new("path", Kind::Text, "Path of URLs, for it and those below it")
            .details("One of this key and `match` is required"),
        Key::new(
            "match",
            Kind::Text,
            "Regular expression of paths of URLs, as Apache's `AliasMatch`",
        ),
        Key::new("target", Kind::Text, "Absolute path of the files")
            .required()
            .details("Behind `match` with `$1` to `$9`"),
    ]],
};

/// Words of `allow`: Apache's `AllowOverride`, without `None`.
const CLASSES: [&str; 7] =
    ["All", "AuthConfig", "FileInfo", "Indexes", "Limit", "Options", "Nonfatal"];

/// Words of `options`: those of Apache's `Options` that have a meaning here, or are ignored.
const OPTIONS: [&str; 9] = [
    "All",
    "None",
    "ExecCGI",
    "FollowSymLinks",
    "Includes",
    "IncludesNOEXEC",
    "Indexes",
    "MultiViews",
    "SymLinksIfOwnerMatch",
];

/// Settings for `.htaccess` files. The defaults are those of Debian's Apache with `AllowOverride
/// All`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Htaccess {
    /// Directives that the files may have, as Apache's `AllowOverride`.
    pub allow: Vec<String>,
    /// Name of the files.
    pub file: String,
    /// Index files of directories, as Apache's `DirectoryIndex`.
    pub index: Vec<String>,
    /// Features of directories, as Apache's `Options`.
    pub options: Vec<String>,
    /// Regular expression of the names of files that PHP runs.
    pub scripts: String,
    /// Patterns of paths below the root: files that are neither sent nor run.
    pub closed: Vec<String>,
    /// Patterns of paths below the root: files that are not run.
    pub without_scripts: Vec<String>,
    /// Directives of the server's configuration for the site.
    pub directives: Vec<String>,
    /// Directives for directories and for paths of URLs, in their order.
    pub sections: Vec<HtaccessSection>,
    /// Paths of URLs that lead to files elsewhere, in their order.
    pub aliases: Vec<HtaccessAlias>,
    /// Maps of rules by name.
    pub maps: BTreeMap<String, HtaccessMap>,
}

/// A member of `maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HtaccessMap {
    /// Name of one of Apache's functions.
    Function(String),
    /// Values by key.
    Values(BTreeMap<String, Vec<String>>),
}

/// A member of `sections`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtaccessSection {
    /// Key of the pattern: `directory`, `directory_match`, `location` or `location_match`.
    pub kind: &'static str,
    /// Path, or a regular expression for the keys with `_match`.
    pub pattern: String,
    /// Directives of Apache, a line each.
    pub directives: Vec<String>,
    /// True if `.htaccess` files are read, false if not; `None` leaves the setting of the directory above.
    pub files: Option<bool>,
    /// Directives that these files may have; `None` leaves the setting of the directory above.
    pub allow: Option<Vec<String>>,
}

/// A member of `aliases`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtaccessAlias {
    /// Path of URLs, or a regular expression of such paths.
    pub path: String,
    /// True if `path` is a regular expression.
    pub is_expression: bool,
    /// Absolute path of the files.
    pub target: String,
}

default_of_reader!(Htaccess, Htaccess::read_object);

impl HtaccessAlias {
    /// Returns true if the target is a file by its name: the path, which is none of directories, has
    /// the same ending. Names of directories, such as `/srv/example.org`, may have dots, too.
    fn is_file(&self) -> bool {
        fn ending(path: &str) -> Option<&str> {
            Some(path.rsplit('/').next()?.rsplit_once('.')?.1)
        }
        let path = self.path.strip_suffix('$').unwrap_or(&self.path);
        ending(&self.target).is_some_and(|own| ending(path) == Some(own))
    }

    /// Returns the directory that all files of the alias are in, or its file, without a slash at the
    /// end; empty for the root directory.
    pub fn root(&self) -> &str {
        let fixed = match self.target.find('$').filter(|_| self.is_expression) {
            // The last segment may be a part of a name.
            Some(end) => &self.target[..self.target[..end].rfind('/').unwrap_or(0)],
            None => &self.target,
        };
        fixed.trim_end_matches('/')
    }
}

impl Htaccess {
    /// Returns the files of passwords and groups that directives of the server's configuration name.
    pub fn password_files(&self) -> impl Iterator<Item = &str> {
        let lines = self.sections.iter().flat_map(|section| &section.directives);
        lines.chain(&self.directives).filter_map(|line| {
            let (name, path) = line.trim().split_once(char::is_whitespace)?;
            let is_one = name.eq_ignore_ascii_case("AuthUserFile")
                || name.eq_ignore_ascii_case("AuthGroupFile");
            let path = path.trim().trim_matches(['"', '\'']);
            (is_one && path.starts_with('/')).then_some(path)
        })
    }

    /// Returns the files and directories outside of the root that the document names. True stands
    /// for a directory.
    pub(crate) fn elsewhere(&self) -> Vec<(PathBuf, bool)> {
        let files = self.password_files().map(|file| (file.into(), false));
        let aliases = self.aliases.iter().map(|alias| {
            let root = alias.root();
            (if root.is_empty() { "/".into() } else { root.into() }, !alias.is_file())
        });
        files.chain(aliases).collect()
    }

    /// Reads `htaccess` of an application with these targets.
    pub(crate) fn of_application(
        application: &Object<'_>,
        targets: &[PhpTarget],
    ) -> Result<Option<Htaccess>, Error> {
        let Some(node) = application.optional("htaccess") else { return Ok(None) };
        let htaccess = Htaccess::read(&node)?;
        if htaccess.is_some() && targets.iter().any(|target| target.script.is_some()) {
            let error = node.invalid("must not stand beside a \"script\" for all requests");
            return Err(error.with_hint("leave the script out: the rules of the files lead to it"));
        }
        if htaccess.is_some() && targets.iter().any(|target| target.prefix.is_some()) {
            let error = node.invalid("must not stand beside a \"prefix\"");
            return Err(error.with_hint(
                "write a \"share\" with \"prefix\", \"htaccess\" and the application as \"scripts\"",
            ));
        }
        Ok(htaccess)
    }

    /// Reads `htaccess` of a share with these paths.
    pub(crate) fn of_share(
        share: &Object<'_>,
        paths: &[Template],
    ) -> Result<Option<Htaccess>, Error> {
        let Some(node) = share.optional("htaccess") else { return Ok(None) };
        let htaccess = Htaccess::read(&node)?;
        if htaccess.is_none() {
            return Ok(None);
        }
        let [path] = paths else {
            return Err(node.invalid("must not stand beside several paths in \"share\""));
        };
        if path.parts().last() != Some(&Part::Variable(Variable::Uri)) {
            let error = node.invalid("needs a \"share\" that ends with \"$uri\"");
            return Err(error.with_hint("write \"share\": \"/www$uri\""));
        }
        let replaced = [
            ("try", "rewrite rules"),
            ("index", "\"index\" in \"htaccess\", or DirectoryIndex"),
            ("listing", "\"options\": \"Indexes\" in \"htaccess\", or Options"),
            ("types", "FilesMatch"),
            ("chroot", "\"isolation\" of the application"),
            ("follow_symlinks", "\"options\" in \"htaccess\", or Options"),
        ];
        for (key, instead) in replaced {
            if let Some(other) = share.optional(key) {
                let error = other.invalid("must not stand beside \"htaccess\"");
                return Err(error.with_hint(format!("use {instead}")));
            }
        }
        Ok(htaccess)
    }

    /// Reads `htaccess`: a boolean or an object. `None` for `false`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Option<Htaccess>, Error> {
        if let Some(is_on) = node.value.as_bool() {
            return Ok(is_on.then(Htaccess::default));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("a boolean or an object"));
        }
        Htaccess::read_object(node).map(Some)
    }

    fn read_object(node: &Node<'_>) -> Result<Htaccess, Error> {
        let object = node.object(&HTACCESS)?;
        let htaccess = Htaccess {
            allow: object.read_or_default("allow", read_classes)?,
            file: object.read_or_default("file", read_name)?,
            index: object.read_or_default("index", read_names)?,
            options: object.read_or_default("options", read_options)?,
            scripts: object.read_or_default("scripts", read_expression)?,
            closed: object.read("closed", read_patterns)?.unwrap_or_default(),
            without_scripts: object.read("without_scripts", read_patterns)?.unwrap_or_default(),
            directives: object.read("directives", read_lines)?.unwrap_or_default(),
            sections: object.read("sections", read_sections)?.unwrap_or_default(),
            aliases: object.read("aliases", read_aliases)?.unwrap_or_default(),
            maps: object.read("maps", read_maps)?.unwrap_or_default(),
        };
        object.end()?;
        Ok(htaccess)
    }
}

fn read_classes(node: &Node<'_>) -> Result<Vec<String>, Error> {
    read_words(node, &CLASSES, |text| text.split_once('=').map_or(text, |(class, _)| class))
}

fn read_options(node: &Node<'_>) -> Result<Vec<String>, Error> {
    read_words(node, &OPTIONS, |text| text)
}

/// Reads one or several words of a list; `name` is the part of each that the list has.
fn read_words(
    node: &Node<'_>,
    known: &[&str],
    name: fn(&str) -> &str,
) -> Result<Vec<String>, Error> {
    let read = |word: Node<'_>| {
        let text = word.text()?;
        if known.iter().any(|known| known.eq_ignore_ascii_case(name(text))) {
            Ok(text.to_owned())
        } else {
            Err(word.invalid(format_args!("must be one of {}", known.join(", "))))
        }
    };
    node.strings()?.map(read).collect()
}

fn read_name(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    if text.is_empty() || text.contains('/') || matches!(text, "." | "..") {
        Err(node.invalid("must be the name of a file, without \"/\""))
    } else {
        Ok(text.to_owned())
    }
}

fn read_expression(node: &Node<'_>) -> Result<String, Error> {
    thread_local! {
        /// The last valid expression. Sites often repeat it.
        static LAST_VALID: RefCell<String> = const { RefCell::new(String::new()) };
    }
    let text = node.text()?;
    if LAST_VALID.with_borrow(|valid| valid == text) {
        return Ok(text.to_owned());
    }
    match regex_syntax::Parser::new().parse(text) {
        Ok(_) => {
            LAST_VALID.with_borrow_mut(|valid| text.clone_into(valid));
            Ok(text.to_owned())
        }
        Err(error) => Err(node.invalid(format_args!(
            "is not a regular expression: {}",
            error.to_string().replace('\n', " ")
        ))),
    }
}

fn read_patterns(node: &Node<'_>) -> Result<Vec<String>, Error> {
    patterns::read(node, Subject::Uri)?;
    node.strings()?.map(|pattern| pattern.string().map(str::to_owned)).collect()
}

fn read_lines(node: &Node<'_>) -> Result<Vec<String>, Error> {
    node.strings()?.map(|line| line.string().map(str::to_owned)).collect()
}

/// Keys of sections, one of which names the kind.
const SECTION_KINDS: [&str; 4] = ["directory", "directory_match", "location", "location_match"];

fn read_sections(node: &Node<'_>) -> Result<Vec<HtaccessSection>, Error> {
    let read = |node: Node<'_>| {
        let object = node.object(&SECTION)?;
        let mut found = None;
        for kind in SECTION_KINDS {
            if let Some(pattern) = object.text(kind)? {
                if found.is_some() {
                    return Err(node.invalid(
                        "must have one of directory, directory_match, \
                                             location and location_match",
                    ));
                }
                found = Some((kind, pattern));
            }
        }
        let Some((kind, pattern)) = found else { return Err(object.missing(&SECTION_KINDS)) };
        let section = HtaccessSection {
            kind,
            pattern,
            directives: object.read("directives", read_lines)?.unwrap_or_default(),
            files: object.boolean("files")?,
            allow: object.read("allow", read_classes)?,
        };
        if section.allow.is_some() && kind != "directory" {
            return Err(node.invalid("has \"allow\", which stands beside \"directory\" alone"));
        }
        object.end()?;
        Ok(section)
    };
    node.elements()?.map(read).collect()
}

fn read_aliases(node: &Node<'_>) -> Result<Vec<HtaccessAlias>, Error> {
    let read = |node: Node<'_>| {
        let object = node.object(&ALIAS)?;
        let (path, is_expression) = match (object.text("path")?, object.text("match")?) {
            (Some(path), None) => (path, false),
            (None, Some(expression)) => (expression, true),
            (Some(_), Some(_)) => return Err(node.invalid("must have one of path and match")),
            (None, None) => return Err(object.missing(&["path", "match"])),
        };
        let target = object.required("target")?;
        let text = target.text()?;
        if !text.starts_with('/') {
            return Err(target.invalid("must be an absolute path"));
        }
        let alias = HtaccessAlias { path, is_expression, target: text.to_owned() };
        object.end()?;
        Ok(alias)
    };
    node.elements()?.map(read).collect()
}

/// Apache's functions for maps.
const FUNCTIONS: [&str; 4] = ["tolower", "toupper", "escape", "unescape"];

fn read_maps(node: &Node<'_>) -> Result<BTreeMap<String, HtaccessMap>, Error> {
    let read = |(name, node): (&str, Node<'_>)| {
        let is_name = !name.is_empty() && !name.contains([':', '|', '}', '{', '$', '%']);
        if !is_name {
            return Err(node.invalid("has a name with a character of \"${NAME:KEY|DEFAULT}\""));
        }
        let map = if node.value.is_object() {
            let values = node.members()?.map(|(key, node)| {
                let values = node.strings()?.map(|value| value.string().map(str::to_owned));
                Ok((key.to_owned(), values.collect::<Result<_, Error>>()?))
            });
            HtaccessMap::Values(values.collect::<Result<_, Error>>()?)
        } else {
            let function = node.text()?;
            if !FUNCTIONS.contains(&function) {
                let list = FUNCTIONS.join(", ");
                return Err(node.invalid(format_args!("must be an object or one of {list}")));
            }
            HtaccessMap::Function(function.to_owned())
        };
        Ok((name.to_owned(), map))
    };
    node.members()?.map(read).collect()
}

fn read_names(node: &Node<'_>) -> Result<Vec<String>, Error> {
    node.strings()?.map(|name| name.text().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
