//! `isolation.sandbox`: restrictions of an application's processes that the kernel enforces.

use std::path::{Component, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, default_of_reader};

/// `sandbox` of the isolation.
pub(crate) static SANDBOX: Shape = Shape {
    name: "sandbox",
    parts: &[&[
        Key::new(
            "read",
            Kind::Texts,
            "Additional files, and directories with all their content, that the processes may read",
        )
        .default("none"),
        Key::new(
            "write",
            Kind::Texts,
            "Additional files and directories that the processes may read, create, change and \
             remove",
        )
        .default("none"),
        Key::new(
            "execute",
            Kind::Texts,
            "Additional files and directories that the processes may read and execute",
        )
        .default("none"),
        Key::switch("required", true, "Refuses to run on kernels that cannot restrict files"),
    ]],
};

/// Restrictions of an application's processes, in addition to the permissions of its user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// No restrictions.
    Off,
    /// Processes can neither signal nor trace processes outside of the application.
    #[default]
    Processes,
    /// In addition, processes can use only their own files and those of the system that PHP needs.
    Files(SandboxFiles),
}

/// Files that an application may use beside its document roots and the system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxFiles {
    /// Files and directories that it may read.
    pub read: Vec<PathBuf>,
    /// Files and directories that it may read and change.
    pub write: Vec<PathBuf>,
    /// Files and directories that it may read and execute.
    pub execute: Vec<PathBuf>,
    /// True if the application must not run on kernels that cannot restrict files.
    pub required: bool,
}

impl Sandbox {
    pub(crate) fn read(node: &Node<'_>) -> Result<Sandbox, Error> {
        match node.value {
            Value::Bool(false) => Ok(Sandbox::Off),
            Value::Bool(true) => Ok(Sandbox::Files(SandboxFiles::default())),
            Value::Object(_) => SandboxFiles::read(node).map(Sandbox::Files),
            _ => Err(node.wrong_type("true, false or an object")),
        }
    }
}

default_of_reader!(SandboxFiles, SandboxFiles::read);

impl SandboxFiles {
    fn read(node: &Node<'_>) -> Result<SandboxFiles, Error> {
        let object = node.object(&SANDBOX)?;
        let paths = |key| Ok(object.read(key, read_paths)?.unwrap_or_default());
        let files = SandboxFiles {
            read: paths("read")?,
            write: paths("write")?,
            execute: paths("execute")?,
            required: object.switch("required")?,
        };
        object.end()?;
        Ok(files)
    }
}

/// Reads a string or an array of strings.
fn read_paths(node: &Node<'_>) -> Result<Vec<PathBuf>, Error> {
    node.strings()?.map(|path| read_path(&path)).collect()
}

fn read_path(node: &Node<'_>) -> Result<PathBuf, Error> {
    let normal: PathBuf = node.file()?.components().collect();
    if normal.is_absolute() && !normal.components().any(|part| part == Component::ParentDir) {
        Ok(normal)
    } else {
        Err(node.invalid("must be a path that starts with \"/\", without \"..\""))
    }
}
