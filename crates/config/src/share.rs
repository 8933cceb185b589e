//! Parts of a `share` action: file names, `try`, `index`, `chroot` and `follow_symlinks`.

use howdah_template::{Part, Template, Variable};

use crate::error::Error;
use crate::htaccess::HTACCESS;
use crate::key::{Key, Kind};
use crate::node::{Node, Object};
use crate::rewrite::Rewrite;
use crate::templates;

/// Keys of an action with `share`.
pub(crate) static KEYS: &[Key] = &[
    Key::new(
        "share",
        Kind::Texts,
        "Names of files to try in order, with variables, such as `\"/www$uri\"`",
    )
    .details(
        "See [Variables](variables.md). A directory is requested with a slash at the end; without \
         the slash, the response is a redirect, as in Unit",
    )
    .kind()
    .unit(),
    Key::new("try", Kind::Texts, "Paths to try in order in place of the request's, with variables")
        .default("the request's path")
        .details("See below")
        .beside("share"),
    Key::new(
        "prefix",
        Kind::Text,
        "Path that is removed from the front of the request's path before files are looked up",
    )
    .default("none")
    .details("nginx's `alias`, Apache's `Alias`, see below")
    .beside("share"),
    Key::new(
        "index",
        Kind::Texts,
        "Index files of directories, tried in order; an empty string for none",
    )
    .default("\"index.html\"")
    .details("An array of names is **Howdah's**")
    .beside("share")
    .unit(),
    Key::new(
        "listing",
        Kind::Either(&[Kind::Switch, Kind::Word(&["html", "json"])]),
        "Lists the files of directories without an index file, as a page or as JSON",
    )
    .default("false")
    .details(
        "`true` is `\"html\"`; `\"json\"` is nginx's `autoindex_format json`. See \
         [below](#directory-listings)",
    )
    .beside("share"),
    Key::new("types", Kind::Texts, "Patterns of the media types of files that may be sent")
        .default("everything")
        .beside("share")
        .unit(),
    Key::new("chroot", Kind::Text, "Directory that must contain the files, with variables")
        .default("none")
        .details(
            "Symbolic links are resolved first. `\"\"` for none; if variables result in an empty \
             value, the response is 403",
        )
        .beside("share")
        .unit(),
    Key::new(
        "follow_symlinks",
        Kind::Switch,
        "Follows all symbolic links, or none; by default those that stay in the document root, \
         and of others those of root and those to files of the link's owner",
    )
    .default("by owner")
    .details("See [Symbolic links](#symbolic-links). The default is **Howdah's**")
    .beside("share")
    .unit(),
    Key::switch("traverse_mounts", true, "Crosses mount points").beside("share").unit(),
    Key::new(
        "scripts",
        Kind::Text,
        "The application that runs the PHP scripts among the files, such as \
         `\"applications/NAME\"`",
    )
    .default("none")
    .details("See below")
    .beside("share"),
    Key::new(
        "htaccess",
        Kind::Either(&[Kind::Switch, Kind::Object(&HTACCESS)]),
        "Handles requests under the `.htaccess` files of the directories, as Apache does",
    )
    .default("false")
    .details(
        "See [`.htaccess`](../htaccess.md). `share` must end with `$uri`; `try`, \
         `index`, `listing`, `types`, `chroot` and `follow_symlinks` cannot stand beside it",
    )
    .beside("share"),
    Key::new("fallback", Kind::Recursive("action"), "The action for requests that match no file")
        .default("403, 404 or 405")
        .details(
            "Itself a `pass`, `return`, `share` or `proxy`. **Howdah:** not for a file that may \
             not be read, which is 403 and a line in the log",
        )
        .beside("share")
        .unit(),
];

/// Symbolic links of a share that are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Without `follow_symlinks`: links that lead to a place inside the document root, links of
    /// root, and links whose target belongs to the owner of the link.
    #[default]
    OwnerMatch,
    /// `true`: all links.
    All,
    /// `false`: no link.
    None,
}

/// An element of `try`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The path and the query.
    pub target: Rewrite,
    /// True if the path ends with a slash and so stands for the index of a directory.
    pub directory: bool,
}

impl Symlinks {
    pub(crate) fn read(object: &Object<'_>) -> Result<Symlinks, Error> {
        Ok(match object.boolean("follow_symlinks")? {
            None => Symlinks::OwnerMatch,
            Some(true) => Symlinks::All,
            Some(false) => Symlinks::None,
        })
    }
}

impl Candidate {
    /// Reads `try` of a share with these paths.
    pub(crate) fn read_all(node: &Node<'_>, paths: &[Template]) -> Result<Vec<Candidate>, Error> {
        if !paths.iter().all(|path| path.parts().contains(&Part::Variable(Variable::Uri))) {
            let error = node.invalid("takes the place of \"$uri\" in \"share\", which has none");
            return Err(error.with_hint("write \"share\": \"/www$uri\""));
        }
        let list: Vec<_> =
            node.strings()?.map(|path| Candidate::read(&path)).collect::<Result<_, _>>()?;
        if list.is_empty() { Err(node.invalid("must have at least one element")) } else { Ok(list) }
    }

    fn read(node: &Node<'_>) -> Result<Candidate, Error> {
        let text = node.text()?;
        if !text.starts_with(['/', '$']) {
            let error = node.invalid("must be a path that starts with \"/\" or a variable");
            return Err(error.with_hint(
                "for nginx's \"=404\" and \"@name\" write \"fallback\", as in \
                 \"fallback\": {\"return\": 404} or {\"pass\": \"routes/name\"}",
            ));
        }
        let target = Rewrite::read_candidate(node)?;
        let directory = match target.path.parts().last() {
            Some(Part::Literal(text)) => text.ends_with('/'),
            _ => false,
        };
        Ok(Candidate { target, directory })
    }
}

pub(crate) fn read_paths(node: &Node<'_>) -> Result<Vec<Template>, Error> {
    let paths: Vec<Template> =
        node.strings()?.map(|path| templates::read_file(&path)).collect::<Result<_, _>>()?;
    if paths.is_empty() { Err(node.invalid("must have at least one element")) } else { Ok(paths) }
}

pub(crate) fn read_chroot(node: &Node<'_>) -> Result<Option<Template>, Error> {
    // As in Unit, an empty string disables it.
    if node.value == "" { Ok(None) } else { templates::read_file(node).map(Some) }
}

pub(crate) fn read_index(node: &Node<'_>) -> Result<Vec<String>, Error> {
    // As in Unit, an empty string disables it.
    if node.value == "" {
        return Ok(Vec::new());
    }
    let read = |name: Node<'_>| {
        let text = name.text()?;
        if text.contains('$') {
            return Err(name.invalid("must not contain \"$\", as variables have no effect here"));
        }
        if text.split('/').any(|segment| segment == "..") {
            Err(name.invalid(
                "must not lead out \
            of the directory with \"..\"",
            ))
        } else {
            Ok(text.to_owned())
        }
    };
    node.strings()?.map(read).collect()
}

/// Formats of listings of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListingFormat {
    /// A page.
    Html,
    /// nginx's `autoindex_format json`.
    Json,
}

impl ListingFormat {
    /// Reads `listing`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Option<ListingFormat>, Error> {
        match node.value {
            serde_json::Value::Bool(true) => Ok(Some(ListingFormat::Html)),
            serde_json::Value::Bool(false) => Ok(None),
            serde_json::Value::String(text) if text == "html" => Ok(Some(ListingFormat::Html)),
            serde_json::Value::String(text) if text == "json" => Ok(Some(ListingFormat::Json)),
            _ => Err(node.wrong_type("true, false, \"html\" or \"json\"")),
        }
    }
}
