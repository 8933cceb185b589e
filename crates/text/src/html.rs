//! Text in HTML and XML.

/// Returns the reference that stands for a character with a meaning in markup.
pub fn entity(character: char) -> Option<&'static str> {
    Some(match character {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

/// Appends a text so that it cannot be markup, in an element or in the value of an attribute.
pub fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match entity(character) {
            Some(entity) => out.push_str(entity),
            None => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_be_markup() {
        let mut out = String::new();
        escape("<a href=\"b\">'c' & d</a>", &mut out);
        assert_eq!(out, "&lt;a href=&quot;b&quot;&gt;&#39;c&#39; &amp; d&lt;/a&gt;");
    }
}
