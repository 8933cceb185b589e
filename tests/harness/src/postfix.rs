//! A real Postfix, with its queue in a directory of its own. It is reached over SMTP, and delivers
//! all mail for `example.org` to one file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{eventually, free_address, open_to_all, requirements};

/// User name that [`Tls`] accepts.
pub const USER: &str = "joe";

/// The password of [`USER`].
pub const PASSWORD: &str = "geheim";

/// Certificate and login of a server that takes mail only from clients that log in over TLS.
pub struct Tls {
    /// Certificate and key, PEM.
    pub certificate: (String, String),
    /// The only mechanism of authentication: `PLAIN` or `LOGIN`.
    pub mechanism: &'static str,
}

/// A running Postfix; stopped on drop.
pub struct Postfix {
    directory: TempDir,
    /// Port for SMTP.
    pub port: u16,
    /// Port on which TLS begins with the first byte.
    pub tls_port: u16,
}

impl Postfix {
    /// Starts a server, and waits until it answers. Returns `None`, and reports why, if there is no
    /// Postfix.
    pub fn start(tls: Option<Tls>) -> Option<Postfix> {
        if !requirements::root() {
            return None;
        }
        if !Path::new("/usr/sbin/postfix").exists() {
            requirements::skipped("there is no Postfix");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("howdah-postfix-").tempdir().unwrap();
        open_to_all(directory.path(), 0o755);
        let (port, tls_port) = (free_address().port(), free_address().port());
        let postfix = Postfix { directory, port, tls_port };
        postfix.configure(tls);
        let started = postfix.run("start");
        if !started.status.success() {
            let said = String::from_utf8_lossy(&started.stderr).into_owned();
            requirements::skipped(format!("Postfix does not start: {said}"));
            return None;
        }
        eventually("Postfix answers", || TcpStream::connect(("127.0.0.1", port)).ok());
        Some(postfix)
    }

    /// Returns all mail that was delivered.
    pub fn mails(&self) -> String {
        fs::read_to_string(self.directory.path().join("mail/box")).unwrap_or_default()
    }

    fn configure(&self, tls: Option<Tls>) {
        let path = |name: &str| self.directory.path().join(name);
        for name in ["config", "queue", "data", "mail"] {
            fs::create_dir(path(name)).unwrap();
        }
        for (user, name) in [("postfix", "data"), ("nobody", "mail")] {
            assert!(Command::new("chown").arg(user).arg(path(name)).status().unwrap().success());
        }
        let (at, port, tls_port) = (self.directory.path().display(), self.port, self.tls_port);
        let mut main = format!(
            "compatibility_level = 3.6\nqueue_directory = {at}/queue\ndata_directory = {at}/data\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmyhostname = postfix.test\n\
             mydestination =\nvirtual_mailbox_domains = example.org\nvirtual_mailbox_base = \
             {at}/mail\nvirtual_mailbox_maps = static:box\nvirtual_minimum_uid = \
             1\nvirtual_uid_maps = static:65534\nvirtual_gid_maps = \
             static:65534\nsmtpd_forbid_bare_newline = yes\nmaillog_file = \
             {at}/log\nmaillog_file_prefixes = /tmp, /var\nalias_maps =\nlocal_recipient_maps =\n"
        );
        let mut listeners = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
        match tls {
            None => main.push_str("smtpd_relay_restrictions = reject_unauth_destination\n"),
            Some(Tls { certificate: (chain, key), mechanism }) => {
                fs::write(path("chain.pem"), chain).unwrap();
                fs::write(path("key.pem"), key).unwrap();
                main.push_str(&format!(
                    "smtpd_tls_security_level = may\nsmtpd_tls_cert_file = {at}/chain.pem\n\
                     smtpd_tls_key_file = {at}/key.pem\nsmtpd_tls_auth_only = yes\n\
                     smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = \
                     {at}/login\nsmtpd_relay_restrictions = permit_sasl_authenticated, reject\n"
                ));
                listeners.push_str(&format!(
                    "127.0.0.1:{tls_port} inet n - n - - smtpd\n  -o smtpd_tls_wrappermode=yes\n"
                ));
                let listener = UnixListener::bind(path("login")).unwrap();
                open_to_all(&path("login"), 0o666);
                std::thread::spawn(move || {
                    for stream in listener.incoming().flatten() {
                        std::thread::spawn(move || check_logins(&stream, mechanism));
                    }
                });
            }
        }
        let services = "pickup unix n - n 60 1 pickup\ncleanup unix n - n - 0 cleanup\n\
             qmgr unix n - n 300 1 qmgr\nrewrite unix - - n - - trivial-rewrite\n\
             bounce unix - - n - 0 bounce\ndefer unix - - n - 0 bounce\ntrace unix - - n - 0 \
             bounce\nerror unix - - n - - error\nretry unix - - n - - error\ndiscard unix - - n - \
             - discard\nvirtual unix - n n - - virtual\nlocal unix - n n - - local\nproxymap unix \
             - - n - - proxymap\nanvil unix - - n - 1 anvil\nscache unix - - n - 1 scache\ntlsmgr \
             unix - - n 1000? 1 tlsmgr\npostlog unix-dgram n - n - 1 postlogd\n";
        fs::write(path("config/main.cf"), main).unwrap();
        fs::write(path("config/master.cf"), format!("{listeners}{services}")).unwrap();
    }

    fn run(&self, command: &str) -> Output {
        let config = self.directory.path().join("config");
        Command::new("/usr/sbin/postfix").arg("-c").arg(config).arg(command).output().unwrap()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        let _ = self.run("stop");
    }
}

/// Checks passwords for Postfix (the protocol of Dovecot's authentication, version 1.1).
fn check_logins(stream: &UnixStream, mechanism: &str) -> Option<()> {
    // "\0joe\0geheim", "joe" and "geheim".
    const PLAIN: &str = "AGpvZQBnZWhlaW0=";
    const LOGIN: [&str; 2] = ["am9l", "Z2VoZWlt"];
    let say = |text: String| (&mut &*stream).write_all(text.as_bytes()).ok();
    say(format!(
        "VERSION\t1\t1\nMECH\t{mechanism}\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t0\nDONE\n"
    ))?;
    let mut given = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?;
        let fields: Vec<_> = line.split('\t').collect();
        let id = *fields.get(1)?;
        let is_right = match fields[0] {
            "AUTH" if mechanism == "PLAIN" => {
                fields.iter().any(|field| field.strip_prefix("resp=") == Some(PLAIN))
            }
            "AUTH" => {
                given.clear();
                // "Username:"
                say(format!("CONT\t{id}\tVXNlcm5hbWU6\n"))?;
                continue;
            }
            "CONT" => {
                given.push((*fields.get(2)?).to_owned());
                if given.len() < LOGIN.len() {
                    // "Password:"
                    say(format!("CONT\t{id}\tUGFzc3dvcmQ6\n"))?;
                    continue;
                }
                given == LOGIN
            }
            _ => continue,
        };
        if is_right {
            say(format!("OK\t{id}\tuser={USER}\n"))?
        } else {
            say(format!("FAIL\t{id}\tuser={USER}\n"))?
        }
    }
    None
}
