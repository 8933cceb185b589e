//! Conditions on files: whether a name is that of a file or directory.
//!
//! Names are looked up each time, as in nginx. Symbolic links are followed under the rules of
//! shares. A name that leaves the directory in front of its first variable names no file.

use howdah_config::{FileCondition, FileTest, Part, Template};
use howdah_files::{FileKind, FileLocation, Inspected};
use howdah_http::message::Request;
use howdah_http::variables::VariableSource;

use super::Routing;

impl Routing<'_> {
    /// Returns true if all conditions hold.
    pub(super) fn files_hold(&self, conditions: &[FileCondition], request: &Request) -> bool {
        conditions.iter().all(|condition| {
            condition.holds(|name| {
                let found = self.inspect(name, request);
                found.is_some_and(|found| passes(condition.test, &found))
            })
        })
    }

    fn inspect(&self, name: &Template, request: &Request) -> Option<Inspected> {
        let expanded = VariableSource::of(request, self.started_at).expand(name);
        let fixed = match name.parts().first() {
            Some(Part::Literal(literal)) => literal.len(),
            _ => 0,
        };
        let place = FileLocation::split(&expanded, fixed, None, b"")?;
        self.files.inspect_name(place, request).ok()
    }
}

fn passes(test: FileTest, found: &Inspected) -> bool {
    /// Permission of the owner to execute a file or to enter a directory.
    const OWNER_EXECUTES: u32 = 0o100;
    match test {
        FileTest::Directory => found.kind == FileKind::Directory,
        FileTest::Executable => found.mode & OWNER_EXECUTES != 0,
        FileTest::Exists => true,
        FileTest::Regular => found.kind == FileKind::File,
    }
}
