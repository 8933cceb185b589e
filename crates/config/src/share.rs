//! `share`: files, and the PHP scripts among them.

use crate::action::Action;
use crate::error::Error;
use crate::node::{Node, Object};
use crate::pattern::{Patterns, Subject};
use crate::target::Target;
use crate::template::{Part, Template, Variable};

/// Files that answer requests.
#[derive(Debug, Clone)]
pub struct Share {
    /// File names to try in order; the first that exists answers.
    pub paths: Vec<Template>,
    /// Paths that take the place of the request's in `paths`, in order, until one is found; none for
    /// the request's own alone.
    pub candidates: Vec<Candidate>,
    /// Names to try in order in a directory.
    pub index: Vec<String>,
    /// Media types that may be served; anything else is answered with 403, or by the fallback.
    pub types: Option<Patterns>,
    /// A directory that the file must be in, symbolic links resolved.
    pub chroot: Option<Template>,
    /// Which symbolic links are followed (`follow_symlinks`).
    pub symlinks: Symlinks,
    /// Whether mount points are crossed.
    pub traverse_mounts: bool,
    /// Who runs a PHP script that is found; without it, scripts are refused.
    pub scripts: Option<Target>,
    /// What to do when there is no such file.
    pub fallback: Option<Action>,
}

/// Which symbolic links of a share are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Without `follow_symlinks`: links that lead to a place inside the document root, links of root,
    /// and links whose target belongs to the owner of the link.
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
    /// The path, written as that of a `rewrite`.
    pub path: Template,
    /// Whether it is a directory, whose index is meant, and not a file.
    pub directory: bool,
}

impl Share {
    pub(crate) fn read(object: &Object<'_>) -> Result<Share, Error> {
        let paths = read_paths(&object.required("share")?)?;
        let read = |node: &Node<'_>| Candidate::read_all(node, &paths);
        let candidates = object.read("try", read)?.unwrap_or_default();
        let index = object.read("index", read_index)?;
        let types = object.read("types", |types| Patterns::read(types, Subject::MimeType))?;
        Ok(Share {
            paths,
            candidates,
            index: index.unwrap_or_else(|| vec!["index.html".to_owned()]),
            types,
            chroot: object.read("chroot", read_chroot)?.flatten(),
            symlinks: match object.boolean("follow_symlinks")? {
                None => Symlinks::OwnerMatch,
                Some(true) => Symlinks::All,
                Some(false) => Symlinks::None,
            },
            traverse_mounts: object.boolean("traverse_mounts")?.unwrap_or(true),
            scripts: object.read("scripts", Target::read_scripts)?,
            fallback: object.read("fallback", Action::read)?,
        })
    }
}

impl Candidate {
    /// Reads `try` of a share with these paths.
    fn read_all(node: &Node<'_>, paths: &[Template]) -> Result<Vec<Candidate>, Error> {
        if !paths.iter().all(|path| path.parts().contains(&Part::Variable(Variable::Uri))) {
            let error = node.invalid("takes the place of \"$uri\" in \"share\", which has none");
            return Err(error.with_hint("write \"share\": \"/www$uri\""));
        }
        let list: Vec<_> =
            node.strings()?.map(|path| Candidate::read(&path)).collect::<Result<_, _>>()?;
        match list.is_empty() {
            true => Err(node.invalid("must have at least one element")),
            false => Ok(list),
        }
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
        if text.contains('?') {
            let error = node.invalid("must not have a query");
            return Err(error.with_hint("leave it out: scripts get the query of the request"));
        }
        Ok(Candidate { path: Template::read(node)?, directory: text.ends_with('/') })
    }
}

fn read_paths(node: &Node<'_>) -> Result<Vec<Template>, Error> {
    let paths: Vec<Template> =
        node.strings()?.map(|path| Template::read_file(&path)).collect::<Result<_, _>>()?;
    match paths.is_empty() {
        true => Err(node.invalid("must have at least one element")),
        false => Ok(paths),
    }
}

fn read_chroot(node: &Node<'_>) -> Result<Option<Template>, Error> {
    // Unit's way to have none.
    match node.value == "" {
        true => Ok(None),
        false => Template::read_file(node).map(Some),
    }
}

fn read_index(node: &Node<'_>) -> Result<Vec<String>, Error> {
    // Unit's way to have no index.
    if node.value == "" {
        return Ok(Vec::new());
    }
    let read = |name: Node<'_>| {
        let text = name.text()?;
        if text.contains('$') {
            return Err(name.invalid("must not contain \"$\", as variables mean nothing here"));
        }
        match text.split('/').any(|segment| segment == "..") {
            true => Err(name.invalid("must not lead out of the directory with \"..\"")),
            false => Ok(text.to_owned()),
        }
    };
    node.strings()?.map(read).collect()
}
