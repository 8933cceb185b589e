//! `static` of the settings of HTTP: media types of files.

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, default_of_reader};

/// `static` of `http`.
pub(crate) static STATIC: Shape = Shape {
    name: "static",
    parts: &[&[
        Key::new(
            "mime_types",
            Kind::Either(&[
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Array(&Kind::Text), Kind::Null])),
                Kind::Text,
            ]),
            "Media types and their file extensions, or a file with them such as \
             `\"/etc/mime.types\"`",
        )
        .default("{}")
        .details(
            "They precede the built-in ones. **Howdah:** `null` in place of extensions takes a \
             built-in type away. **Howdah:** in a document that is [read from a \
             file](../configuration.md#several-files), it may also be the name of a list of \
             types, in the form of the system (Apache's `TypesConfig`) or of nginx",
        )
        .unit(),
        Key::switch(
            "builtin_types",
            true,
            "Uses the built-in media types in addition to those of `mime_types`",
        )
        .details("nginx's `types` replaces its list: `false`"),
        Key::new("default_type", Kind::Text, "Media type of files whose type is not known")
            .default("none"),
    ]],
};

/// Media types with their extensions, and built-in ones that are taken away.
#[derive(Default)]
pub(crate) struct MimeTypes {
    pub(crate) types: Vec<(String, Vec<String>)>,
    pub(crate) removed: Vec<String>,
}

/// Media types of files.
pub(crate) struct StaticTypes {
    pub(crate) mime_types: MimeTypes,
    pub(crate) builtin_types: bool,
    pub(crate) default_type: Option<String>,
}

default_of_reader!(StaticTypes, StaticTypes::read);

impl StaticTypes {
    pub(crate) fn read(node: &Node<'_>) -> Result<StaticTypes, Error> {
        let object = node.object(&STATIC)?;
        let types = StaticTypes {
            mime_types: object.read("mime_types", read_mime_types)?.unwrap_or_default(),
            builtin_types: object.switch("builtin_types")?,
            default_type: object.read("default_type", |node| {
                let name = node.text()?;
                check_type(name, node).map(|()| name.to_owned())
            })?,
        };
        object.end()?;
        Ok(types)
    }
}

fn check_type(name: &str, node: &Node<'_>) -> Result<(), Error> {
    if !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        Ok(())
    } else {
        Err(node.invalid("is no media type; write one such as \"text/html\""))
    }
}

/// Reads media types with an extension (`.html`) or a whole file name (`README`), or several.
fn read_mime_types(node: &Node<'_>) -> Result<MimeTypes, Error> {
    let mut taken = std::collections::HashMap::new();
    let (mut types, mut removed) = (Vec::new(), Vec::new());
    for (name, member) in node.members()? {
        check_type(name, &member)?;
        if member.value.is_null() {
            removed.push(name.to_owned());
            continue;
        }
        let mut extensions = Vec::new();
        for element in member.one_or_many() {
            let extension = element.text()?;
            // Unit compares extensions without regard to case.
            if let Some(other) = taken.insert(extension.to_ascii_lowercase(), name) {
                let message = format!("names an extension that \"{other}\" has already");
                return Err(element.invalid(message));
            }
            extensions.push(extension.to_owned());
        }
        types.push((name.to_owned(), extensions));
    }
    Ok(MimeTypes { types, removed })
}
