//! Environment variables of applications.

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// The value of a variable of the server's environment.
pub(crate) static SERVER_VARIABLE: Shape =
    Shape { name: "server_variable", parts: &[&[ENV.required()]] };

/// The key of a value that is in the server's environment.
pub(crate) const ENV: Key = Key::new(
    "env",
    Kind::Text,
    "Name of a variable in the environment of the server; empty if it has none",
)
.details("PHP-FPM's `env[NAME] = $VARIABLE`; the value at the start of the server");

/// The value of an environment variable of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentSource {
    /// The variable of this name in the environment of the server.
    Server(String),
    /// This text.
    Text(String),
}

/// Reads `environment` of an application, in order.
pub(crate) fn read(node: &Node<'_>) -> Result<Vec<(String, EnvironmentSource)>, Error> {
    let mut environment = Vec::new();
    for (name, variable) in node.members()? {
        check_name(name, &variable)?;
        environment.push((name.to_owned(), read_value(&variable)?));
    }
    Ok(environment)
}

fn read_value(node: &Node<'_>) -> Result<EnvironmentSource, Error> {
    if node.value.is_object() {
        let object = node.object(&SERVER_VARIABLE)?;
        let name = read_env(&object.required("env")?)?;
        object.end()?;
        return Ok(EnvironmentSource::Server(name));
    }
    let value = node.string()?;
    if value.contains('\0') {
        return Err(node.invalid("must not contain a null character"));
    }
    Ok(EnvironmentSource::Text(value.to_owned()))
}

/// Reads the name of a variable of the server.
pub(crate) fn read_env(node: &Node<'_>) -> Result<String, Error> {
    let name = node.string()?;
    check_name(name, node)?;
    Ok(name.to_owned())
}

fn check_name(name: &str, node: &Node<'_>) -> Result<(), Error> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let message =
            "must have a name that is not empty and has neither \"=\" nor a null character";
        return Err(node.invalid(message));
    }
    Ok(())
}
