//! Links of a page, for a crawl.

/// Attributes that name another page or file.
const ATTRIBUTES: [&str; 3] = ["href", "src", "action"];

/// Returns the targets on the same host that a page of this target links to: paths with queries,
/// without what stands behind `#`.
pub(crate) fn links(page: &str, target: &str, host: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in ATTRIBUTES {
        for (at, _) in page.match_indices(attribute) {
            let before = page[..at].chars().next_back();
            if !before.is_some_and(|one| one.is_ascii_whitespace()) {
                continue;
            }
            let rest = page[at + attribute.len()..].trim_start();
            let Some(value) = rest.strip_prefix('=').map(str::trim_start) else { continue };
            let value = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
                _ => value.split([' ', '>', '\n', '\t']).next(),
            };
            found.extend(value.and_then(|value| resolved(value.trim(), target, host)));
        }
    }
    found
}

/// Returns the target of a reference on a page; `None` for another host or scheme.
fn resolved(reference: &str, target: &str, host: &str) -> Option<String> {
    let reference = reference.split('#').next()?.replace("&amp;", "&");
    let is_safe = reference.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if reference.is_empty() || !is_safe {
        return None;
    }
    let path = target.split('?').next()?;
    if let Some((scheme, rest)) = reference
        .split_once("//")
        .filter(|(before, _)| before.is_empty() || matches!(*before, "http:" | "https:"))
    {
        let _ = scheme;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, inside) = rest.split_at(end);
        let is_same = authority.split(':').next()?.eq_ignore_ascii_case(host.split(':').next()?);
        return is_same.then(|| plain(if inside.is_empty() { "/" } else { inside }));
    }
    if let Some(query) = reference.strip_prefix('?') {
        return Some(format!("{path}?{query}"));
    }
    if reference.starts_with('/') {
        return Some(plain(&reference));
    }
    // Another scheme, such as `mailto:`.
    if reference.split(['/', '?']).next()?.contains(':') {
        return None;
    }
    let directory = &path[..=path.rfind('/')?];
    Some(plain(&format!("{directory}{reference}")))
}

/// Returns a target without `.` and `..` in its path.
fn plain(target: &str) -> String {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(usize::from(path.starts_with('/'))) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let ends_in_directory = path.ends_with("/.") || path.ends_with("/..");
    let slash = if ends_in_directory && parts.last().is_some_and(|last| !last.is_empty()) {
        "/"
    } else {
        ""
    };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{slash}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn links_of_the_same_host_are_followed() {
        let page = r##"<a href="/a?b&amp;c#d"> <a href='e'> <a href=../f/> <img src="http://HOST/g">
            <a href="https://other/h"> <a href="mailto:i"> <a href="#j"> <a data-href="/k">
            <a href="?l"> <a href="//host:8080/m">"##;
        let mut found = links(page, "/x/y?z", "host");
        found.sort();
        assert_eq!(found, ["/a?b&c", "/f/", "/g", "/m", "/x/e", "/x/y?l"]);
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "[ a-z<>=\"'/.?#&é:]{0,80}", target in "/[a-z/?]{0,9}") {
            for attribute in ["href", "src"] {
                links(&format!(" {attribute}={page}"), &target, "host");
            }
        }
    }
}
