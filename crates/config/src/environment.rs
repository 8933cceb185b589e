//! Environment variables of applications.

use std::path::PathBuf;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// The source of a variable's value, in place of the value itself.
pub(crate) static VARIABLE_SOURCE: Shape =
    Shape { name: "variable_source", parts: &[&[FILE, ENV, DEFAULT]] };

const FILE: Key = Key::new("file", Kind::Text, "File with the value")
    .details(
        "Read whenever the application starts, with the rights of the server; line feeds at its \
         end do not belong to the value. A link on the way must belong to the owner of what it \
         leads to",
    )
    .kind();

const ENV: Key = Key::new(
    "env",
    Kind::Either(&[Kind::Text, Kind::Switch]),
    "Name of a variable in the environment of the server, as it was when the server started; \
     `true` for the same name",
)
.details(
    "Without the variable the application does not run, unless there is a `default`. The name \
     `APP_*` beside `true` stands for all variables that begin with `APP_`, and `*` for all; \
     variables that are named themselves take precedence, and `HOWDAH_*` and those of the \
     service manager are not among them",
)
.kind();

const DEFAULT: Key = Key::new("default", Kind::Text, "Value if the server has no such variable")
    .beside("env")
    .details("PHP-FPM's `env[NAME] = $VARIABLE` is `{ \"env\": \"VARIABLE\", \"default\": \"\" }`");

/// The value of an environment variable of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentSource {
    /// The variable of this name in the environment of the server.
    Server {
        /// Its name.
        name: String,
        /// The value if there is no such variable.
        default: Option<String>,
    },
    /// All variables of the server whose names begin like this, in place of one.
    Beginning(String),
    /// The content of this file.
    File(PathBuf),
    /// This text.
    Text(String),
}

/// Reads `environment` of an application, in order.
pub(crate) fn read(node: &Node<'_>) -> Result<Vec<(String, EnvironmentSource)>, Error> {
    let mut environment = Vec::new();
    for (name, variable) in node.members()? {
        check_name(name, &variable)?;
        let source = if variable.value.is_object() {
            read_source(name, &variable)?
        } else {
            EnvironmentSource::Text(read_text(&variable)?)
        };
        environment.push((name.to_owned(), source));
    }
    Ok(environment)
}

/// Reads variables with texts, in order.
pub(crate) fn read_texts(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut environment = Vec::new();
    for (name, variable) in node.members()? {
        check_name(name, &variable)?;
        environment.push((name.to_owned(), read_text(&variable)?));
    }
    Ok(environment)
}

fn read_source(variable: &str, node: &Node<'_>) -> Result<EnvironmentSource, Error> {
    let object = node.object(&VARIABLE_SOURCE)?;
    let source = match (object.optional("file"), object.optional("env")) {
        (Some(file), None) => EnvironmentSource::File(file.file()?),
        (None, Some(name)) => {
            let default = object.read("default", read_text)?;
            read_env(variable, &name, default)?
        }
        (None, None) => return Err(object.missing(&["file", "env"])),
        (Some(_), Some(_)) => {
            return Err(node.invalid("must have only one of \"file\" and \"env\""));
        }
    };
    object.end()?;
    Ok(source)
}

fn read_env(
    variable: &str,
    node: &Node<'_>,
    default: Option<String>,
) -> Result<EnvironmentSource, Error> {
    if node.value.is_boolean() {
        if !node.boolean()? {
            return Err(node.invalid("must be the name of a variable, or true"));
        }
        let Some((beginning, rest)) = variable.split_once('*') else {
            return Ok(EnvironmentSource::Server { name: variable.to_owned(), default });
        };
        return match default {
            None if rest.is_empty() => Ok(EnvironmentSource::Beginning(beginning.to_owned())),
            Some(_) => Err(node.invalid("has no \"default\" beside a name with \"*\"")),
            None => Err(node.invalid("must be beside a name with \"*\" at its end alone")),
        };
    }
    let name = node.string()?;
    check_name(name, node)?;
    Ok(EnvironmentSource::Server { name: name.to_owned(), default })
}

fn read_text(node: &Node<'_>) -> Result<String, Error> {
    let value = node.string()?;
    if value.contains('\0') {
        return Err(node.invalid("must not contain a null character"));
    }
    Ok(value.to_owned())
}

fn check_name(name: &str, node: &Node<'_>) -> Result<(), Error> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message =
            "must have a name that is not empty and has neither \"=\" nor a null character";
        return Err(node.invalid(message));
    }
    Ok(())
}
