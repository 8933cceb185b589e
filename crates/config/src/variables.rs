//! `variables`: variables that a document defines from other variables (nginx's `map`, `geo`,
//! `split_clients` and `secure_link`).

mod uses;

use std::collections::HashMap;
use std::sync::Arc;

use howdah_template::geo_database::{GeoDatabase, GeoPath};
use howdah_template::networks::{self, Networks};
use howdah_template::{
    Defined, DefinedVariables, Groups, MAX_WEIGHT, Pattern, SecureLink, Subject, Table, Variable,
};

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, Scope, path};
use crate::templates;

/// A member of `variables`.
pub(crate) static VARIABLE: Shape = Shape {
    name: "variable",
    parts: &[&[
        Key::new("map", Kind::Text, "Text with variables that is looked up in `values`")
            .details("nginx's `map`")
            .kind(),
        Key::new(
            "geo",
            Kind::Text,
            "Text with variables that is an address, such as `\"$remote_addr\"`; `values` are \
             networks",
        )
        .details("nginx's `geo`")
        .kind(),
        Key::new(
            "split",
            Kind::Text,
            "Text with variables by which visitors are divided into shares",
        )
        .details(
            "The same text always has the same share, on every machine; nginx's `split_clients`",
        )
        .kind(),
        Key::new(
            "secure_link",
            Kind::Text,
            "Text with variables that is a signed link, such as `\"${arg_md5},$arg_expires\"`",
        )
        .details(
            "nginx's `secure_link`: a hash and, behind a comma, the second at which it expires. The \
             value is `1`, `0` if the link has expired, and empty if it is not authentic. See below",
        )
        .kind(),
        Key::new(
            "md5",
            Kind::Text,
            "Text with variables and a secret, whose MD5 in Base64 for URLs is the hash of a link",
        )
        .details("nginx's `secure_link_md5`; `$secure_link_expires` is the second in the link")
        .beside("secure_link"),
        Key::new(
            "secret",
            Kind::Text,
            "Secret of links `/PREFIX/HASH/LINK`, whose hash is the MD5 of `LINK` and the secret",
        )
        .details(
            "nginx's `secure_link_secret`, in place of `md5`; `secure_link` is `\"$request_uri\"`. \
             The value is `LINK` if the hash is right, otherwise empty",
        )
        .beside("secure_link"),
        Key::new("database", Kind::Text, "A MaxMind database (`.mmdb`) in place of `values`")
            .details("Such as GeoLite2's; nginx's third-party `geoip2`")
            .beside("geo"),
        Key::new(
            "path",
            Kind::Text,
            "Path of the value in a record of the `database`, such as `\"country.iso_code\"`",
        )
        .details(
            "Required with `database`. A number is a place in an array. Texts, numbers and truth \
             values (1 and 0) can be used",
        )
        .beside("database"),
        Key::new(
            "values",
            Kind::Either(&[Kind::Named(&Kind::Text), Kind::Named(&Kind::Number), Kind::Text]),
            "Values by text, pattern or network; with `split` the percentage of each value; or a \
             file with them",
        )
        .default("required, but with `database` or `secure_link`")
        .details(
            "With `map`: values by text, or by [pattern](routes.md#patterns); the text itself is \
             tried first, then patterns in order. Case does not count, except in regular \
             expressions, of whose groups the value has `$1` to `$9` and `$NAME`. With `geo`: \
             values by address or network; the smallest network that has the address counts. With \
             `split`: percentages by value",
        ),
        Key::new("default", Kind::Text, "Value for everything else").default("empty"),
    ]],
};

/// Reads `variables`. A definition can use those in front of it.
pub(crate) fn read(variables: &DefinedVariables, node: &Node<'_>) -> Result<(), Error> {
    let all = node.value;
    for (name, node) in node.members()? {
        let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(node.invalid("must have a name of letters and \"_\""));
        }
        if name == "dollar" || Variable::named(name).is_some() {
            let error = node.invalid("has the name of a variable that exists already");
            node.part::<()>(Err(error.with_hint("choose another name")))?;
            continue;
        }
        let definition = read_one(name, &node)
            .map_err(|error| uses::explain(error, name, all, |name| variables.get(name).is_some()));
        // The name is defined, also for the templates that use a definition with a mistake.
        let definition = node.part(definition)?.unwrap_or_else(|| Defined::empty(name));
        variables.insert(definition);
    }
    Ok(())
}

/// Returns the databases of variables, each with its place in the document.
pub(crate) fn databases(variables: &DefinedVariables) -> Vec<(String, Arc<GeoDatabase>)> {
    let all = variables.all();
    let databases = all.iter().filter_map(|defined| {
        let place = path(["variables", defined.name(), "database"]);
        Some((place, Arc::clone(defined.database()?)))
    });
    let mut databases: Vec<_> = databases.collect();
    databases.sort_by(|(one, _), (other, _)| one.cmp(other));
    databases
}

fn read_one(name: &str, node: &Node<'_>) -> Result<Defined, Error> {
    let object = node.object(&VARIABLE)?;
    // The caller explains the first error with the names of all definitions.
    let read = |key| object.optional(key).map(|node| templates::read(&node)).transpose();
    let kinds = ["map", "geo", "split", "secure_link"];
    let mut found = kinds.into_iter().filter(|kind| object.has(kind));
    let (source, table) = match (found.next(), found.next()) {
        (None, _) => return Err(object.missing(&kinds)),
        (_, Some(_)) => {
            return Err(node
                .invalid("must have just one of \"map\", \"geo\", \"split\" or \"secure_link\""));
        }
        (Some(kind), None) => {
            let source = read(kind)?.unwrap_or_default();
            let table = match kind {
                "map" => read_map(&object)?,
                "geo" => read_geo(&object)?,
                "split" => read_split(&object)?,
                _ => read_secure_link(&object)?,
            };
            (source, table)
        }
    };
    let default = read("default")?.unwrap_or_default();
    object.end()?;
    Defined::new(name, node.value.to_string(), source, table, default).ok_or_else(|| {
        node.invalid(format_args!(
            "leads to more than {MAX_WEIGHT} variables by the definitions in front of it"
        ))
    })
}

fn read_map(object: &Object<'_>) -> Result<Table, Error> {
    let (mut texts, mut patterns) = (HashMap::new(), Vec::new());
    let node = object.required("values")?;
    for (key, value) in node.members()? {
        let pattern = if key.starts_with(['~', '!']) || key.contains('*') {
            let pattern = Pattern::parse(key, Subject::Header);
            Some(pattern.map_err(|error| value.invalid(error))?)
        } else {
            None
        };
        let groups = Groups::of_map(pattern.as_ref());
        let template = templates::read(&value.within(&Scope { groups: &groups, ..*value.scope }))?;
        match pattern {
            Some(pattern) => patterns.push((pattern, template)),
            None => {
                let text = key.as_bytes().to_ascii_lowercase();
                texts.insert(text.into_boxed_slice(), template);
            }
        }
    }
    Ok(Table::Map { texts, patterns })
}

fn read_secure_link(object: &Object<'_>) -> Result<Table, Error> {
    if let Some(values) = object.optional("values") {
        return Err(values.invalid("must not stand beside \"secure_link\""));
    }
    let check = match (object.optional("md5"), object.optional("secret")) {
        (Some(md5), None) => {
            let groups = SecureLink::groups();
            let scope = Scope { groups: &groups, ..*md5.scope };
            SecureLink::Md5(templates::read(&md5.within(&scope))?)
        }
        (None, Some(secret)) => SecureLink::Secret(secret.text()?.to_owned()),
        (None, None) => return Err(object.missing(&["md5", "secret"])),
        (Some(_), Some(secret)) => {
            return Err(secret.invalid("must not stand beside \"md5\""));
        }
    };
    Ok(Table::SecureLink(check))
}

fn read_geo(object: &Object<'_>) -> Result<Table, Error> {
    let database = object.read("database", |node| {
        let file = node.file()?;
        if file.is_absolute() && file.file_name().is_some() {
            Ok(GeoDatabase::at(&file))
        } else {
            Err(node.invalid("must be the name of a file that starts with \"/\""))
        }
    })?;
    if let Some(database) = database {
        if let Some(values) = object.optional("values") {
            return Err(values.invalid("must not stand beside \"database\""));
        }
        let path = object.required("path")?;
        let found = GeoPath::parse(path.text()?).ok_or_else(|| {
            let error = path.invalid("must be names with dots between them");
            error.with_hint("write \"country.iso_code\"")
        })?;
        return Ok(Table::Database(database, found));
    }
    let mut networks = Vec::new();
    let node = object.required("values")?;
    for (key, value) in node.members()? {
        let Some(network) = networks::parse(key) else {
            let error = value.invalid("must be named after an address or a network");
            return Err(error.with_hint("write \"10.0.0.0/8\", \"192.0.2.1\" or \"fd00::/8\""));
        };
        networks.push((network, templates::read(&value)?));
    }
    Ok(Table::Geo(Networks::new(networks)))
}

fn read_split(object: &Object<'_>) -> Result<Table, Error> {
    let (mut shares, mut sum) = (Vec::new(), 0.0);
    let node = object.required("values")?;
    for (key, share) in node.members()? {
        let percent = share.value.as_f64().filter(|percent| (0.0..=100.0).contains(percent));
        let Some(percent) = percent else {
            let error = share.wrong_type("a number of percent from 0 to 100");
            return Err(error.with_hint("write {\"one\": 50, \"other\": 50}"));
        };
        sum += percent;
        if sum > 100.0 + 1e-6 {
            return Err(share.invalid("makes all shares together more than 100 percent"));
        }
        let end = (sum / 100.0 * 4_294_967_296.0).round();
        // At most 2³², which a number of this type has exactly.
        shares.push((end as u64, templates::read_text(&share, key)?));
    }
    Ok(Table::Split(shares))
}

#[cfg(test)]
mod tests;
