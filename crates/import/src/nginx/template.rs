//! Texts with variables, in Howdah's grammar.

/// A text with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// A variable, by its name without `$`.
    Variable(String),
}

impl Template {
    /// A template without variables.
    pub fn text(text: &str) -> Self {
        let mut template = Self::default();
        template.push_text(text);
        template
    }

    /// A template that is one variable.
    pub fn variable(name: &str) -> Self {
        Self { pieces: vec![Piece::Variable(name.to_owned())] }
    }

    /// Appends text.
    pub fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Appends another template.
    pub fn push(&mut self, other: &Template) {
        for piece in &other.pieces {
            match piece {
                Piece::Text(text) => self.push_text(text),
                Piece::Variable(_) => self.pieces.push(piece.clone()),
            }
        }
    }

    /// Returns this template with another one behind it.
    pub fn with(mut self, other: &Template) -> Self {
        self.push(other);
        self
    }

    /// Returns its text if it has no variables.
    pub fn constant(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the variable that is the whole template.
    pub fn only_variable(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Variable(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns its parts.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the names of its variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Returns the text in front of the first variable.
    pub fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the template without the text in front of the first variable.
    pub fn without_beginning(&self) -> Template {
        let skip = usize::from(matches!(self.pieces.first(), Some(Piece::Text(_))));
        Template { pieces: self.pieces[skip..].to_vec() }
    }

    /// Returns the template without a text at its end.
    pub fn strip_suffix(&self, suffix: &str) -> Option<Template> {
        let mut pieces = self.pieces.clone();
        let Some(Piece::Text(last)) = pieces.last_mut() else { return None };
        let rest = last.strip_suffix(suffix)?.to_owned();
        pieces.pop();
        let mut template = Template { pieces };
        template.push_text(&rest);
        Some(template)
    }

    /// Returns the template without a variable at its end.
    pub fn strip_variable(&self, name: &str) -> Option<Template> {
        match self.pieces.split_last() {
            Some((Piece::Variable(last), rest)) if last == name => {
                Some(Template { pieces: rest.to_vec() })
            }
            _ => None,
        }
    }

    /// Splits at the first occurrence of a character in its texts.
    pub fn split_once(&self, at: char) -> Option<(Template, Template)> {
        for (place, piece) in self.pieces.iter().enumerate() {
            let Piece::Text(text) = piece else { continue };
            if let Some((front, back)) = text.split_once(at) {
                let mut first = Template { pieces: self.pieces[..place].to_vec() };
                first.push_text(front);
                let mut second = Template::text(back);
                second.push(&Template { pieces: self.pieces[place + 1..].to_vec() });
                return Some((first, second));
            }
        }
        None
    }

    /// Returns the template with each text changed.
    pub fn map_texts(&self, change: impl Fn(&str) -> String) -> Template {
        let mut changed = Template::default();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => changed.push_text(&change(text)),
                Piece::Variable(_) => changed.pieces.push(piece.clone()),
            }
        }
        changed
    }

    /// Writes the template in the grammar of a document.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (place, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => out.push_str(&text.replace('$', "${dollar}")),
                Piece::Variable(name) => {
                    let is_followed = match self.pieces.get(place + 1) {
                        Some(Piece::Text(text)) => {
                            text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                        }
                        _ => false,
                    };
                    // A name with digits is written in braces; a number is that of a group.
                    let has_digits =
                        name.len() > 1 && name.bytes().any(|byte| byte.is_ascii_digit());
                    if is_followed || has_digits {
                        out.push_str(&format!("${{{name}}}"));
                    } else {
                        out.push_str(&format!("${name}"));
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_braces_in_front_of_letters() {
        let mut template = Template::text("/a$");
        template.push(&Template::variable("uri"));
        template.push_text("b");
        assert_eq!(template.render(), "/a${dollar}${uri}b");
        assert_eq!(Template::variable("uri").render(), "$uri");
        assert_eq!(Template::variable("arg_md5").render(), "${arg_md5}");
        assert_eq!(Template::variable("1").render(), "$1");
    }

    #[test]
    fn templates_are_split_at_texts() {
        let template = Template::text("/a?").with(&Template::variable("args"));
        let (path, query) = template.split_once('?').unwrap();
        assert_eq!((path.render(), query.render()), ("/a".into(), "$args".into()));
    }
}
