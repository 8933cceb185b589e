//! The format of a line, compiled to pieces of text and variables.

use howdah_config::{FpmPart, LogFormat, LogValue, Part, Template, Variable};
use howdah_http::exchange::RequestRecord;
use howdah_http::mask::{is_masked, mask_cookies, mask_query};
use howdah_http::variables::VariableSource;

use super::{escape, php_fpm};

/// A compiled format.
#[derive(Debug)]
pub struct Format {
    pieces: Vec<Piece>,
    is_json: bool,
    /// Text for a variable without a value, escaped.
    absent: Vec<u8>,
    /// Names of query arguments whose values are hidden.
    mask: Vec<String>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Variable(Variable),
    /// A variable as a number of JSON.
    Number(Variable),
    /// A code of PHP-FPM's log.
    PhpFpm(FpmPart),
}

impl Format {
    /// Compiles a format. A line in JSON has its members in the order of the document.
    pub fn new(config: &LogFormat, absent: &str, mask: &[String]) -> Self {
        let is_json = matches!(config, LogFormat::Json(_));
        let mut absent = absent.as_bytes().to_vec();
        if is_json {
            escape::json(&mut absent, 0);
        }
        let mut format = Format { pieces: Vec::new(), is_json, absent, mask: mask.to_vec() };
        match config {
            LogFormat::Text(template) => format.template(template),
            LogFormat::Json(members) => {
                format.text("{");
                for (index, (name, value)) in members.iter().enumerate() {
                    format.text(if index == 0 { "\"" } else { ",\"" });
                    format.value(name);
                    format.text("\":");
                    match value {
                        LogValue::Number(variable) => {
                            format.pieces.push(Piece::Number(variable.clone()));
                        }
                        LogValue::Text(template) => {
                            format.text("\"");
                            format.template(template);
                            format.text("\"");
                        }
                    }
                }
                format.text("}");
            }
            LogFormat::PhpFpm(log) => {
                for part in log.format.parts() {
                    match part {
                        FpmPart::Literal(text) => format.text(text),
                        part => format.pieces.push(Piece::PhpFpm(part.clone())),
                    }
                }
            }
        }
        format.text("\n");
        format
    }

    /// Appends a line.
    pub fn line(
        &self,
        record: &RequestRecord<'_>,
        source: &VariableSource<'_>,
        line: &mut Vec<u8>,
    ) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.extend_from_slice(text),
                Piece::Variable(variable) => self.variable(variable, source, line),
                Piece::Number(variable) => {
                    let start = line.len();
                    if !source.write(variable, line) {
                        line.truncate(start);
                        line.extend_from_slice(b"null");
                    }
                    without_leading_zeros(line, start);
                }
                Piece::PhpFpm(part) => self.php_fpm(part, record, line),
            }
        }
    }

    fn variable(&self, variable: &Variable, source: &VariableSource<'_>, line: &mut Vec<u8>) {
        let start = line.len();
        if !source.write(variable, line) {
            line.truncate(start);
            line.extend_from_slice(&self.absent);
            return;
        }
        self.hide(variable, line, start);
        if self.is_json {
            escape::json(line, start);
        } else {
            // Fields of the response are the site's own; an ETag has its quotation marks.
            let quotes = !matches!(variable, Variable::ResponseHeader(_));
            escape::text(line, start, quotes);
        }
    }

    fn php_fpm(&self, part: &FpmPart, record: &RequestRecord<'_>, line: &mut Vec<u8>) {
        let start = line.len();
        if !php_fpm::write(part, record, line) {
            line.truncate(start);
            line.extend_from_slice(&self.absent);
            return;
        }
        match part {
            FpmPart::Query => self.hide(&Variable::Arguments, line, start),
            FpmPart::Parameter(name) if name == "QUERY_STRING" => {
                self.hide(&Variable::Arguments, line, start);
            }
            FpmPart::Parameter(name) if name == "HTTP_COOKIE" => {
                self.hide(&Variable::Header("cookie".to_owned()), line, start);
            }
            FpmPart::ResponseField(name) => {
                self.hide(&Variable::ResponseHeader(name.clone()), line, start);
            }
            _ => self.hide(&Variable::RequestUri, line, start),
        }
        escape::text(line, start, true);
    }

    /// Hides secrets in the value that begins at `start`.
    fn hide(&self, variable: &Variable, line: &mut Vec<u8>, start: usize) {
        match variable {
            _ if self.mask.is_empty() => {}
            Variable::Argument(name) | Variable::Cookie(name) => {
                if is_masked(name.as_bytes(), &self.mask) {
                    line.truncate(start);
                    line.extend_from_slice(b"***");
                }
            }
            Variable::Header(name) if name.eq_ignore_ascii_case("cookie") => {
                mask_cookies(line, start, &self.mask);
            }
            Variable::ResponseHeader(name) if name.eq_ignore_ascii_case("set-cookie") => {
                mask_cookies(line, start, &self.mask);
            }
            // A query without the mark that begins it.
            Variable::Arguments => {
                line.insert(start, b'?');
                mask_query(line, start, &self.mask);
                line.remove(start);
            }
            // Any of them may contain a URL.
            _ => mask_query(line, start, &self.mask),
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

/// Removes zeros that a number of JSON cannot begin with (a status is written with three digits).
fn without_leading_zeros(line: &mut Vec<u8>, start: usize) {
    while let [b'0', b'0'..=b'9', ..] = line.get(start..).unwrap_or_default() {
        line.remove(start);
    }
}
