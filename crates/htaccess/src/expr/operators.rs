//! Operators with one operand.

use super::scope::Scope;
use super::tree::Test;
use crate::record::{FileKind, Record};

/// Execute permission of anybody.
const EXECUTE: u32 = 0o111;

pub(super) fn test(test: Test, text: &[u8], record: &Record, scope: &dyn Scope) -> bool {
    let world = scope.world();
    match test {
        Test::NotEmpty => !text.is_empty(),
        Test::Empty => text.is_empty(),
        Test::IsTrue => is_true(text),
        Test::Directory => world.stat(text).is_some_and(|file| file.kind == FileKind::Directory),
        Test::Exists => world.stat(text).is_some_and(|file| file.kind != FileKind::None),
        Test::File => world.stat(text).is_some_and(|file| file.kind == FileKind::File),
        Test::NotEmptyFile => {
            world.stat(text).is_some_and(|file| file.kind == FileKind::File && file.size > 0)
        }
        // A slash at the end follows the link.
        Test::Link => !text.ends_with(b"/") && world.lstat(text).is_some_and(|file| file.is_link),
        Test::Executable => world.lstat(text).is_some_and(|file| file.mode & EXECUTE != 0),
        Test::AllowedFile => {
            let found = scope.look_up_file(record, text);
            found.status < 300 && world.stat(&found.filename).is_some()
        }
        Test::AllowedUrl => {
            let is_recursive = scope.main_uri(record).is_some_and(|main| main == record.uri);
            !is_recursive && scope.look_up_uri(record, text).status < 400
        }
    }
}

fn is_true(text: &[u8]) -> bool {
    let is_false = |word: &&[u8]| text.eq_ignore_ascii_case(word);
    ![b"".as_slice(), b"0", b"off", b"no", b"false"].iter().any(is_false)
}
