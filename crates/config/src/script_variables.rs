//! Variables for scripts: `params` of a FastCGI application, `environment` of an action.

use howdah_template::Template;

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// Reads an object of variables. Names are those of CGI variables, so that a value cannot pass for
/// two.
pub(crate) fn read(node: &Node<'_>) -> Result<Vec<(String, Template)>, Error> {
    let mut params = Vec::new();
    for (name, param) in node.members()? {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let message = "must have a name of letters, digits and underscores, as SCRIPT_FILENAME";
            return Err(param.invalid(message));
        }
        params.push((name.to_owned(), templates::read(&param)?));
    }
    Ok(params)
}

/// Reads the variables of an action. Those that select the script and its settings are refused.
pub(crate) fn read_of_action(node: &Node<'_>) -> Result<Vec<(String, Template)>, Error> {
    for (name, variable) in node.members()? {
        let hint = match name {
            "PHP_VALUE" => "write \"options\": {\"user\": {\"memory_limit\": \"512M\"}}",
            "PHP_ADMIN_VALUE" => "write \"options\": {\"admin\": {\"memory_limit\": \"512M\"}}",
            "SCRIPT_FILENAME" | "DOCUMENT_ROOT" => {
                "the application's \"root\" and \"script\", or a \"rewrite\", select the script"
            }
            "CONTENT_LENGTH" | "FCGI_ROLE" => "leave it out",
            _ => continue,
        };
        return Err(variable.invalid("cannot be set here").with_hint(hint));
    }
    read(node)
}
