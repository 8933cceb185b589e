//! Requests whose parameters come from a web server over FastCGI. PHP sees them as under PHP-FPM:
//! the script is found in the file system, and `PATH_INFO` and its companions are corrected
//! (`init_request_info` in PHP's `sapi/fpm/fpm/fpm_main.c` is the behaviour that is followed).
//!
//! | web server | parameters | script |
//! | --- | --- | --- |
//! | nginx with `fastcgi_split_path_info` | `SCRIPT_FILENAME` is a file | that file |
//! | nginx without | `SCRIPT_FILENAME` and `PATH_INFO` both have the path after the file | the file in front of that path |
//! | Apache's mod_proxy_fcgi | `SCRIPT_FILENAME` is `proxy:fcgi://HOST/PATH` | the file at the start of the path |
//! | Apache's mod_fastcgi | `PATH_TRANSLATED` and `REDIRECT_URL` | `PATH_TRANSLATED` |

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_wire::bytes::Malformed;
use howdah_wire::request::{Params, Reserved, decode_params};

/// The schemes that Apache's modules put in front of the path of a script.
const APACHE_SCHEMES: [&[u8]; 2] = [b"proxy:fcgi://", b"proxy:balancer://"];

/// Settings of PHP about the paths of these requests.
#[derive(Debug, Clone, Copy)]
pub struct PathSettings {
    /// `cgi.fix_pathinfo`
    pub fixes_path_info: bool,
    /// `cgi.discard_path`: `PATH_TRANSLATED` names no script. Without `cgi.fix_pathinfo` only.
    pub discards_path: bool,
}

/// A request of a web server, after its parameters were corrected.
#[derive(Debug, Default)]
pub struct WebServerRequest {
    /// The parameters that scripts see, and reserved ones.
    pub params: Params,
    /// Path of the script, with a NUL; `None` if there is none.
    script: Option<Vec<u8>>,
    /// Path of the script in the URL, with a NUL.
    uri: Option<Vec<u8>>,
    /// Directory that the script must be below.
    root: Vec<u8>,
}

impl WebServerRequest {
    /// Reads `count` parameters from the front of `encoded`. `None` if they are not those of a web
    /// server.
    pub fn read(
        encoded: &[u8],
        count: u32,
        settings: PathSettings,
    ) -> Result<Option<Self>, Malformed> {
        let (mut root, mut reserved, mut given) = (None, Vec::new(), Vec::new());
        decode_params(encoded, count, |name, value| match Reserved::from_name(name) {
            Ok(Some(Reserved::FastCgi)) => root = Some(value),
            Ok(Some(parameter)) => reserved.push((parameter, value)),
            Ok(None) | Err(Malformed) => given.push((name.to_vec(), value.to_vec())),
        })?;
        let Some(root) = root else { return Ok(None) };
        let mut environment = Environment(given);
        let choice = environment.choose(settings);
        let mut params = Params::with_capacity(encoded.len());
        // PHP-FPM's table has the last parameter first, and scripts see its order.
        for (name, value) in environment.0.iter().rev() {
            params.push(name, value);
        }
        for (parameter, value) in reserved {
            params.push_reserved(parameter, value);
        }
        let Choice { script, uri } = choice;
        let with_nul = |mut text: Vec<u8>| {
            text.push(0);
            text
        };
        let script = script.filter(|script| !has_dot_dot(script)).map(with_nul);
        Ok(Some(WebServerRequest { params, script, uri: uri.map(with_nul), root: root.to_vec() }))
    }

    /// Returns the path of the script; `None` if there is none.
    pub fn script(&self) -> Option<&[u8]> {
        self.script.as_deref().and_then(|text| text.strip_suffix(b"\0"))
    }

    /// Returns the path of the script with a NUL at its end.
    pub fn script_text(&self) -> Option<&[u8]> {
        self.script.as_deref()
    }

    /// Returns the path of the script in the URL, which `PHP_SELF` begins with, with a NUL at its
    /// end.
    pub fn uri_text(&self) -> Option<&[u8]> {
        self.uri.as_deref()
    }

    /// Returns false if the script is not below the root of the application. Links are resolved, as
    /// PHP does; a script that does not exist is reported when PHP opens it.
    pub fn is_below_root(&self) -> bool {
        let Some(script) = self.script() else { return true };
        if self.root == b"/" {
            return true;
        }
        let Ok(script) = fs::canonicalize(OsStr::from_bytes(script)) else { return true };
        fs::canonicalize(OsStr::from_bytes(&self.root)).is_ok_and(|root| script.starts_with(root))
    }
}

/// The script of a request, and its path in the URL.
#[derive(Debug, Default)]
struct Choice {
    script: Option<Vec<u8>>,
    uri: Option<Vec<u8>>,
}

/// The parameters, in order; each name once.
struct Environment(Vec<(Vec<u8>, Vec<u8>)>);

impl Environment {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let found = self.0.iter().find(|(other, _)| other == name.as_bytes());
        found.map(|(_, value)| value.clone())
    }

    fn set(&mut self, name: &str, value: &[u8]) {
        match self.0.iter_mut().find(|(other, _)| other == name.as_bytes()) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.0.push((name.as_bytes().to_vec(), value.to_vec())),
        }
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(other, _)| other != name.as_bytes());
    }

    /// Keeps the former value of a parameter that is changed.
    fn keep(&mut self, name: &str, original: Option<&Vec<u8>>) {
        if let Some(original) = original {
            self.set(name, original);
        }
    }

    /// Finds the script, and corrects the parameters.
    fn choose(&mut self, settings: PathSettings) -> Choice {
        let translated = self.get("PATH_TRANSLATED");
        let is_apache = self.strip_scheme();
        let filename = self.get("SCRIPT_FILENAME");
        let Some(script) = filename.clone().or_else(|| translated.clone()) else {
            return Choice::default();
        };
        self.correct_iis();
        let (path_info, name) = (self.get("PATH_INFO"), self.get("SCRIPT_NAME"));
        if !settings.fixes_path_info {
            let translated = translated.filter(|_| !settings.discards_path);
            return Choice { script: translated.or(Some(script)), uri: path_info.or(name) };
        }
        let redirect = self.get("REDIRECT_URL");
        let mut fix = Fix { is_apache, script, filename, translated, path_info, name, uri: None };
        let mut new_name = fix.name.clone();
        if !is_apache
            && let (Some(translated), Some(redirect)) = (&fix.translated, &redirect)
            && *translated != fix.script
        {
            // SCRIPT_FILENAME and SCRIPT_NAME are those of a program that runs PHP.
            fix.script = translated.clone();
            new_name = Some(redirect.clone());
        }
        let is_found =
            if fix.script.is_empty() || (!fix.script.ends_with(b"/") && exists(&fix.script)) {
                fix.keep_whole(self, redirect.is_some());
                true
            } else {
                fix.split(self, new_name.as_deref())
            };
        if fix.uri.is_none() {
            if new_name != fix.name {
                self.keep("ORIG_SCRIPT_NAME", fix.name.as_ref());
                match &new_name {
                    Some(name) => self.set("SCRIPT_NAME", name),
                    None => self.remove("SCRIPT_NAME"),
                }
            }
            fix.uri = new_name;
        }
        Choice { script: is_found.then_some(fix.script), uri: fix.uri }
    }

    /// Removes what Apache's modules put in front of the path of a script. Returns true if there was
    /// any.
    fn strip_scheme(&mut self) -> bool {
        let Some(filename) = self.get("SCRIPT_FILENAME") else { return false };
        let rest = APACHE_SCHEMES.iter().find_map(|scheme| {
            let start = filename.get(..scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then(|| &filename[scheme.len()..])
        });
        let Some(rest) = rest else { return false };
        let path = rest.iter().position(|byte| *byte == b'/').map(|slash| &rest[slash..]);
        let kept = path.unwrap_or(&filename);
        let query = kept.iter().position(|byte| *byte == b'?').unwrap_or(kept.len());
        let kept = kept[..query].to_vec();
        self.set("SCRIPT_FILENAME", &kept);
        path.is_some()
    }

    /// Removes the name of the script from `PATH_INFO`, in which IIS has it.
    fn correct_iis(&mut self) {
        let is_iis = |software: Vec<u8>| software.starts_with(b"Microsoft-IIS");
        if !self.get("SERVER_SOFTWARE").is_some_and(is_iis) {
            return;
        }
        if let (Some(name), Some(info)) = (self.get("SCRIPT_NAME"), self.get("PATH_INFO"))
            && let Some(rest) = info.strip_prefix(&name[..])
        {
            self.set("ORIG_PATH_INFO", &info);
            match rest {
                [] => self.remove("PATH_INFO"),
                rest => self.set("PATH_INFO", rest),
            }
        }
    }
}

/// The values of a request before they are corrected.
struct Fix {
    is_apache: bool,
    script: Vec<u8>,
    filename: Option<Vec<u8>>,
    translated: Option<Vec<u8>>,
    path_info: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    uri: Option<Vec<u8>>,
}

impl Fix {
    /// The path is that of a file or a directory.
    fn keep_whole(&self, environment: &mut Environment, has_redirect: bool) {
        if self.filename.as_ref() != Some(&self.script) {
            environment.keep("ORIG_SCRIPT_FILENAME", self.filename.as_ref());
            environment.set("SCRIPT_FILENAME", &self.script);
        }
        if has_redirect && !self.is_apache {
            if self.path_info.is_some() {
                environment.keep("ORIG_PATH_INFO", self.path_info.as_ref());
                environment.remove("PATH_INFO");
            }
            if self.translated.is_some() {
                environment.keep("ORIG_PATH_TRANSLATED", self.translated.as_ref());
                environment.remove("PATH_TRANSLATED");
            }
        }
    }

    /// Finds the file that the path begins with; what follows is `PATH_INFO`. Returns false if
    /// there is none.
    fn split(&mut self, environment: &mut Environment, name: Option<&[u8]>) -> bool {
        let Some(len) = file_at_start(&self.script) else {
            environment.keep("ORIG_SCRIPT_FILENAME", self.filename.as_ref());
            environment.remove("SCRIPT_FILENAME");
            return false;
        };
        let (file, rest) = self.script.split_at(len);
        let (file, rest) = (file.to_vec(), rest.to_vec());
        self.set_path_info(environment, &rest);
        if self.filename.as_ref() != Some(&file) {
            environment.keep("ORIG_SCRIPT_FILENAME", self.filename.as_ref());
            environment.set("SCRIPT_FILENAME", &file);
            self.script.clone_from(&file);
        }
        let info = environment.get("PATH_INFO").unwrap_or_default();
        let root = environment.get("DOCUMENT_ROOT");
        let base = match (&root, name) {
            (Some(root), _) => root.strip_suffix(b"/").unwrap_or(root),
            (None, Some(name)) if contains(&file, name) => &file[..file.len() - name.len()],
            (None, _) => return true,
        };
        environment.keep("ORIG_PATH_TRANSLATED", self.translated.as_ref());
        environment.set("PATH_TRANSLATED", &[base, &info].concat());
        true
    }

    /// Corrects `PATH_INFO` and `SCRIPT_NAME` if `rest` follows the file.
    fn set_path_info(&mut self, environment: &mut Environment, rest: &[u8]) {
        let (info, start) = match &self.path_info {
            // Apache does not know it.
            info if self.is_apache => {
                if rest.is_empty() || info.as_deref() == Some(rest) {
                    return;
                }
                (rest.to_vec(), info.clone())
            }
            Some(info) if info.len() > rest.len() => {
                let (start, end) = info.split_at(info.len() - rest.len());
                (end.to_vec(), Some(start.to_vec()))
            }
            _ => return,
        };
        match (start, &self.name) {
            (Some(start), name) => {
                environment.keep("ORIG_PATH_INFO", self.path_info.as_ref());
                if name.as_ref() != Some(&start) {
                    environment.keep("ORIG_SCRIPT_NAME", name.as_ref());
                    environment.set("SCRIPT_NAME", &start);
                }
                self.uri = Some(start);
            }
            (None, Some(name)) => {
                // Apache encodes the path of the file and not the script's name.
                let decoded: Vec<u8> = howdah_text::percent::decoded(rest).collect();
                let ends = [rest, &decoded[..]].into_iter();
                let mut starts = ends.filter_map(|end| name.strip_suffix(end));
                if let Some(start) = starts.find(|start| !start.is_empty()) {
                    environment.keep("ORIG_SCRIPT_NAME", Some(name));
                    environment.set("SCRIPT_NAME", start);
                    self.uri = Some(start.to_vec());
                }
            }
            (None, None) => {}
        }
        environment.set("PATH_INFO", &info);
    }
}

/// Returns the length of the longest start of a path, up to a slash, that is a file.
fn file_at_start(path: &[u8]) -> Option<usize> {
    /// Maximum number of parts of a path that are looked at. Each costs a system call.
    const MAX_PARTS: usize = 256;
    let mut start = path;
    for _ in 0..MAX_PARTS {
        let slash = |byte| start.iter().rposition(|other| *other == byte);
        let end = slash(b'/').or_else(|| slash(b'\\'))?;
        start = &start[..end];
        if fs::metadata(OsStr::from_bytes(start)).is_ok_and(|found| found.is_file()) {
            return Some(end);
        }
    }
    None
}

fn exists(path: &[u8]) -> bool {
    fs::metadata(Path::new(OsStr::from_bytes(path))).is_ok()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// Returns true if a segment of a path is `..`.
fn has_dot_dot(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}

#[cfg(test)]
mod tests;
