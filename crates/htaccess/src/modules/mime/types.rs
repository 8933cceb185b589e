//! Media types by extension (`TypesConfig`).

use std::collections::HashMap;

use crate::support::{is_space, words};

/// Types of Debian's package `media-types`, for systems without the file.
const BUILT_IN: &str = include_str!("types.txt");

/// Media types by extension in lower case.
#[derive(Debug, Clone, Default)]
pub struct Types {
    by_extension: HashMap<Vec<u8>, Vec<u8>>,
}

impl Types {
    /// Returns the built-in types.
    pub fn built_in() -> Types {
        Types::parse(BUILT_IN.as_bytes())
    }

    /// Reads lines of a type and its extensions; a later line wins.
    pub fn parse(content: &[u8]) -> Types {
        let mut types = Types::default();
        for line in content.split(|&byte| byte == b'\n') {
            if line.first() == Some(&b'#') || line.iter().all(|&byte| is_space(byte)) {
                continue;
            }
            let mut words = words(line).into_iter();
            let Some(media_type) = words.next() else { continue };
            for extension in words {
                types.by_extension.insert(extension.to_ascii_lowercase(), media_type.clone());
            }
        }
        types
    }

    /// Returns the type of an extension in lower case, without its dot.
    pub fn get(&self, extension: &[u8]) -> Option<&[u8]> {
        self.by_extension.get(extension).map(Vec::as_slice)
    }
}
