//! `socket` of a listener: who may connect to a unix socket.

use crate::address::Address;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object};

/// `socket` of a listener.
pub(crate) static SOCKET: Shape = Shape {
    name: "socket",
    parts: &[&[
        Key::new("user", Kind::Text, "User that owns the file of the socket")
            .default("that the server was started as")
            .details("As PHP-FPM's `listen.owner`"),
        Key::new("group", Kind::Text, "Group of the file").default("that of `user`").details(
            "As PHP-FPM's `listen.group`. Without `user`, with FastCGI: the group of the \
                 server's `--user`, such as `www-data`",
        ),
        Key::new("mode", Kind::Text, "Permissions of the file, in octal")
            .default("`\"0666\"`, for FastCGI `\"0660\"`")
            .details("As PHP-FPM's `listen.mode`: whoever may write can connect"),
    ]],
};

/// Default permissions: HTTP is for everyone, as over TCP.
const HTTP_MODE: u32 = 0o666;

/// Default permissions with FastCGI, whose clients choose the script and its settings.
const FASTCGI_MODE: u32 = 0o660;

/// Owner, group and permissions of the file of a listener's unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSocket {
    /// Name of the owner; `None`: the user that the server was started as.
    pub user: Option<String>,
    /// Name of the group; `None`: that of the owner if it has a name, otherwise that of the server.
    pub group: Option<String>,
    /// Permissions.
    pub mode: u32,
    /// It is for web servers that speak FastCGI, which are in the group of the router.
    pub is_for_fastcgi: bool,
}

impl ListenerSocket {
    /// Returns the default of a protocol.
    pub(crate) fn new(is_for_fastcgi: bool) -> ListenerSocket {
        let mode = if is_for_fastcgi { FASTCGI_MODE } else { HTTP_MODE };
        ListenerSocket { user: None, group: None, mode, is_for_fastcgi }
    }

    /// Reads the key of a listener.
    pub(crate) fn read(
        listener: &Object<'_>,
        address: &Address,
        is_for_fastcgi: bool,
    ) -> Result<ListenerSocket, Error> {
        let default = ListenerSocket::new(is_for_fastcgi);
        let Some(node) = listener.optional("socket") else { return Ok(default) };
        let object = node.object(&SOCKET)?;
        match address {
            Address::Unix(_) => {}
            Address::Abstract(_) => {
                return Err(node.invalid(
                    "has no meaning at an abstract address, which has no file: every user of the \
                     machine can connect",
                ));
            }
            _ => return Err(node.invalid("is for unix sockets (\"unix:/PATH\") only")),
        }
        let socket = ListenerSocket {
            user: object.text("user")?,
            group: object.text("group")?,
            mode: object.read("mode", read_mode)?.unwrap_or(default.mode),
            is_for_fastcgi,
        };
        object.end()?;
        Ok(socket)
    }
}

fn read_mode(node: &Node<'_>) -> Result<u32, Error> {
    let text = node.text()?;
    let is_octal =
        matches!(text.len(), 3 | 4) && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal && mode <= 0o777 => Ok(mode),
        _ => Err(node.invalid("must be the permissions of a file in octal, such as \"0660\"")),
    }
}
