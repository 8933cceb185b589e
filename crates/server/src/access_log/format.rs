//! The format of a line, compiled to pieces of text and variables.

use howdah_config::{LogFormat, Part, Template, Variable};
use howdah_http::variables::VariableSource;

use super::escape;

/// A compiled format.
#[derive(Debug)]
pub struct Format {
    pieces: Vec<Piece>,
    is_json: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Variable(Variable),
}

impl Format {
    /// Compiles a format. A line in JSON has its members in the order of the document.
    pub fn new(config: &LogFormat) -> Self {
        let mut format =
            Format { pieces: Vec::new(), is_json: matches!(config, LogFormat::Json(_)) };
        match config {
            LogFormat::Text(template) => format.template(template),
            LogFormat::Json(members) => {
                format.text("{");
                for (index, (name, value)) in members.iter().enumerate() {
                    format.text(if index == 0 { "\"" } else { ",\"" });
                    format.value(name);
                    format.text("\":\"");
                    format.template(value);
                    format.text("\"");
                }
                format.text("}");
            }
        }
        format.text("\n");
        format
    }

    /// Appends a line.
    pub fn line(&self, source: &VariableSource<'_>, line: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text),
                Piece::Variable(variable) => self.variable(variable, source, line),
            }
        }
    }

    fn variable(&self, variable: &Variable, source: &VariableSource<'_>, line: &mut Vec<u8>) {
        let start = line.len();
        if !source.write(variable, line) {
            line.truncate(start);
            line.push(b'-');
        } else if self.is_json {
            escape::json(line, start);
        } else {
            // Fields of the response are the site's own; an ETag has its quotation marks.
            let quotes = !matches!(variable, Variable::ResponseHeader(_));
            escape::text(line, start, quotes);
        }
    }

    fn template(&mut self, template: &Template) {
        for part in template.parts() {
            match part {
                Part::Literal(text) => self.value(text),
                Part::Variable(variable) => self.pieces.push(Piece::Variable(variable.clone())),
            }
        }
    }

    /// Adds text of the configuration, escaped as part of a string if lines are JSON.
    fn value(&mut self, text: &str) {
        let mut escaped = text.as_bytes().to_vec();
        if self.is_json {
            escape::json(&mut escaped, 0);
        }
        self.bytes(&escaped);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Text(bytes.to_vec())),
        }
    }
}
