//! Type maps.

use std::sync::Arc;

use super::accept;
use super::variant::{MAX_VARIANTS, Variant};
use crate::record::Record;
use crate::support::{is_space, lossy, skip_space, trimmed};
use crate::world::{Level, Reading, World};

/// Largest type map in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Largest content of a variant inside of a map, as in Apache.
const MAX_BODY_BYTES: usize = 8191;

/// Reads the variants of a type map. The error is the status of the answer.
pub(super) async fn variants(
    path: &[u8],
    record: &Record,
    world: &dyn World,
) -> Result<(Vec<Variant>, Arc<[u8]>), u16> {
    let content = world.read(path, Reading::All(MAX_FILE_BYTES)).await.map_err(|error| {
        world.log(Level::Error, &format!("cannot access type map file: {}", lossy(path)));
        if error.kind() == std::io::ErrorKind::NotFound { 404u16 } else { 403 }
    })?;
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut reader = Reader { content: &content, at: 0 };
    let (mut all, mut variant, mut has_content) = (Vec::new(), Variant::new(), false);
    loop {
        let field = match reader.next() {
            Some(Line::Field(field)) => field,
            end => {
                if !variant.name.is_empty() && has_content && all.len() < MAX_VARIANTS {
                    all.push(std::mem::replace(&mut variant, Variant::new()));
                }
                variant = Variant::new();
                has_content = false;
                match end {
                    None => break,
                    _ => continue,
                }
            }
        };
        let Some((name_of_field, value)) = divided(&field) else {
            let file = lossy(&record.filename);
            world
                .log(Level::Error, &format!("Syntax error in type map, {file}: {}", lossy(&field)));
            return Err(500);
        };
        let mut rest = value.as_slice();
        match name_of_field.as_slice() {
            b"uri" => variant.name = accept::token(&mut rest, false).to_vec(),
            b"content-type" => {
                variant.set_type(rest);
                has_content = true;
            }
            b"content-length" => {
                let length = accept::token(&mut rest, false);
                let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
                let number = std::str::from_utf8(length).ok().filter(|_| is_number);
                let Some(bytes) = number.and_then(|number| number.parse().ok()) else {
                    let length = lossy(length);
                    let message =
                        format!("Parse error in type map, Content-Length: '{length}' is invalid.");
                    world.log(Level::Error, &message);
                    break;
                };
                variant.bytes = Some(bytes);
                has_content = true;
            }
            b"content-language" => {
                variant.languages = accept::languages(rest);
                has_content = true;
            }
            b"content-encoding" => {
                variant.encoding = Some(accept::token(&mut rest, false).to_vec());
                has_content = true;
            }
            b"description" => {
                let text = rest.strip_suffix(b"\n").unwrap_or(rest);
                variant.description =
                    text.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
            }
            b"body" => {
                let tag = trimmed(rest);
                let Some((start, length)) = reader.body(tag) else {
                    let tag = lossy(tag);
                    let message = format!(
                        "Syntax error in type map, no end tag '{tag}' found for Body: content."
                    );
                    world.log(Level::Error, &message);
                    break;
                };
                variant.body = Some((start, length));
                variant.bytes = Some(length as u64);
                variant.name = name.to_vec();
            }
            _ => {}
        }
    }
    Ok((all, content))
}

enum Line {
    /// A header field with its continuation lines.
    Field(Vec<u8>),
    Separator,
}

struct Reader<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.content.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        self.at += end;
        rest.get(..end)
    }

    fn next(&mut self) -> Option<Line> {
        let mut line = self.line()?;
        while line.first() == Some(&b'#') {
            line = self.line()?;
        }
        if skip_space(line).is_empty() {
            return Some(Line::Separator);
        }
        let mut field = line.to_vec();
        if crate::support::has_prefix(&field, b"body:") {
            return Some(Line::Field(field));
        }
        loop {
            let before = self.at;
            match self.line() {
                Some(comment) if comment.first() == Some(&b'#') => {}
                Some(more) if more.first().is_some_and(|&byte| is_space(byte)) => {
                    let text = skip_space(more);
                    if text.is_empty() {
                        // The blank line separates variants.
                        self.at = before;
                        return Some(Line::Field(field));
                    }
                    field.extend_from_slice(text);
                }
                _ => {
                    self.at = before;
                    return Some(Line::Field(field));
                }
            }
        }
    }

    /// Takes content up to a line with the tag; returns start and length.
    fn body(&mut self, tag: &[u8]) -> Option<(usize, usize)> {
        let rest = self.content.get(self.at..)?;
        let length = memchr::memmem::find(rest.get(..rest.len().min(MAX_BODY_BYTES))?, tag)?;
        let start = self.at;
        self.at += length + tag.len();
        self.line();
        Some((start, length))
    }
}

/// Divides a field into a name in lower case and a value without comments.
fn divided(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = field.iter().position(|&byte| byte == b':')?;
    let (name, value) = field.split_at(colon);
    let value = skip_space(value.get(1..)?);
    if value.is_empty() {
        return None;
    }
    let mut is_comment = false;
    let value = value.iter().map(|&byte| {
        is_comment |= byte == b'(';
        let shown = if is_comment { b' ' } else { byte };
        is_comment &= byte != b')';
        shown
    });
    Some((name.to_ascii_lowercase(), value.collect()))
}
