//! Texts with back-references and variables, divided into segments when the file is read.

use crate::expr::Variable;

/// A text such as `/index.php?page=$1&host=%{HTTP_HOST}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template {
    pub segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    Literal {
        text: Vec<u8>,
        /// True if a question mark stands in it that no backslash escapes.
        has_question_mark: bool,
    },
    /// `$1`: a group of the rule's pattern.
    RuleGroup(u8),
    /// `%1`: a group of the last condition's pattern.
    CondGroup(u8),
    Lookup(Lookup),
    /// `${map:key|default}`.
    Map {
        name: Vec<u8>,
        key: Template,
        default: Template,
    },
}

/// Content of `%{…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// A name without a meaning: always empty.
    Nothing,
    Variable(Variable),
    /// `ENV:name`: a note, a variable of the request or of the server.
    Env(Vec<u8>),
    Ssl(Vec<u8>),
    /// `HTTP:name`.
    Header(Vec<u8>),
    /// `LA-U:…`: the variable as it will be after a look-up of the URL.
    AheadUrl(Box<Lookup>),
    AheadFile(Box<Lookup>),
}

/// Maximum depth of maps in maps.
const MAX_DEPTH: u32 = 8;

impl Template {
    /// Divides a text into segments.
    pub fn parse(text: &[u8]) -> Template {
        Template::parse_at(text, 0)
    }

    fn parse_at(text: &[u8], depth: u32) -> Template {
        let mut template = Template::default();
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            match (byte, tail) {
                (b'\\', [escaped, tail @ ..]) => {
                    template.push(*escaped, false);
                    rest = tail;
                }
                (b'$' | b'%', [b'{', inner @ ..]) => match closing(inner, b'}', true) {
                    Some(end) if *byte == b'%' => {
                        let lookup = Lookup::parse(&inner[..end], 0);
                        template.segments.push(Segment::Lookup(lookup));
                        rest = &inner[end + 1..];
                    }
                    Some(end) if depth < MAX_DEPTH && closing(inner, b':', false).is_some() => {
                        template.segments.push(map(&inner[..end], depth + 1));
                        rest = &inner[end + 1..];
                    }
                    _ => {
                        template.push(*byte, false);
                        template.push(b'{', false);
                        rest = inner;
                    }
                },
                (b'$', [digit @ b'0'..=b'9', tail @ ..]) => {
                    template.segments.push(Segment::RuleGroup(digit - b'0'));
                    rest = tail;
                }
                (b'%', [digit @ b'0'..=b'9', tail @ ..]) => {
                    template.segments.push(Segment::CondGroup(digit - b'0'));
                    rest = tail;
                }
                _ => {
                    template.push(*byte, true);
                    rest = tail;
                }
            }
        }
        template
    }

    fn push(&mut self, byte: u8, is_plain: bool) {
        let is_mark = is_plain && byte == b'?';
        match self.segments.last_mut() {
            Some(Segment::Literal { text, has_question_mark }) => {
                text.push(byte);
                *has_question_mark |= is_mark;
            }
            _ => self
                .segments
                .push(Segment::Literal { text: vec![byte], has_question_mark: is_mark }),
        }
    }

    /// Returns true if a segment, also within a map's key or default, has a property.
    pub fn any(&self, has: &impl Fn(&Segment) -> bool) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Map { key, default, .. } => key.any(has) || default.any(has),
            segment => has(segment),
        })
    }
}

/// Finds the brace that closes a text, or another character outside of inner braces.
fn closing(text: &[u8], wanted: u8, is_brace: bool) -> Option<usize> {
    let mut depth = 1usize;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            byte if !is_brace && *byte == wanted && depth == 1 => return Some(index),
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return is_brace.then_some(index);
                }
            }
            b'{' => depth += 1,
            _ => {}
        }
    }
    None
}

fn map(inner: &[u8], depth: u32) -> Segment {
    let colon = closing(inner, b':', false).unwrap_or(inner.len());
    let (name, key) = (&inner[..colon], inner.get(colon + 1..).unwrap_or_default());
    let (key, default) = match closing(key, b'|', false) {
        Some(bar) => (&key[..bar], &key[bar + 1..]),
        None => (key, [].as_slice()),
    };
    Segment::Map {
        name: name.to_vec(),
        key: Template::parse_at(key, depth),
        default: Template::parse_at(default, depth),
    }
}

impl Lookup {
    fn parse(name: &[u8], depth: u32) -> Lookup {
        if name.len() < 4 {
            return Lookup::Nothing;
        }
        let is = |prefix: &[u8]| {
            name.len() > prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix)
        };
        if name[3] == b':' {
            return match name {
                _ if is(b"ENV:") => Lookup::Env(name[4..].to_vec()),
                _ if is(b"SSL:") => Lookup::Ssl(name[4..].to_vec()),
                _ => Lookup::Nothing,
            };
        }
        if name.get(4) == Some(&b':') {
            return match name {
                _ if is(b"HTTP:") => Lookup::Header(name[5..].to_vec()),
                _ if is(b"LA-U:") && depth < 2 => {
                    Lookup::AheadUrl(Box::new(Lookup::parse(&name[5..], depth + 1)))
                }
                _ if is(b"LA-F:") && depth < 2 => {
                    Lookup::AheadFile(Box::new(Lookup::parse(&name[5..], depth + 1)))
                }
                _ => Lookup::Nothing,
            };
        }
        Variable::of_rule(name).map_or(Lookup::Nothing, Lookup::Variable)
    }
}
