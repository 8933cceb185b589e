//! Requests to scripts.

use std::os::fd::OwnedFd;
use std::path::Path;

use howdah_wire::request::{Params, RequestHeader, Reserved, flags};

/// A request to a script.
pub struct Request {
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
    pub body_file: Option<(OwnedFd, u64)>,
    pub params_in_file: bool,
    /// Announce descriptors and send a message without them.
    pub withhold: bool,
}

impl Request {
    pub fn get(script: &Path, root: &Path) -> Self {
        let name = script.strip_prefix(root).map_or(script, |p| p).to_str().unwrap().to_owned();
        let name = format!("/{}", name.trim_start_matches('/'));
        let mut request = Request {
            params: Vec::new(),
            body: Vec::new(),
            body_file: None,
            params_in_file: false,
            withhold: false,
        };
        for (key, value) in [
            ("FCGI_ROLE", "RESPONDER"),
            ("QUERY_STRING", ""),
            ("REQUEST_METHOD", "GET"),
            ("CONTENT_TYPE", ""),
            ("CONTENT_LENGTH", ""),
            ("SCRIPT_NAME", &name),
            ("REQUEST_URI", &name),
            ("DOCUMENT_URI", &name),
            ("DOCUMENT_ROOT", root.to_str().unwrap()),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REQUEST_SCHEME", "http"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "howdah"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REMOTE_PORT", "50000"),
            ("SERVER_ADDR", "127.0.0.1"),
            ("SERVER_PORT", "80"),
            ("SERVER_NAME", "localhost"),
            ("REDIRECT_STATUS", "200"),
            ("SCRIPT_FILENAME", script.to_str().unwrap()),
            ("HTTP_HOST", "localhost"),
        ] {
            request = request.with(key, value);
        }
        request
    }

    /// Sets a parameter.
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref().to_vec();
        match self.params.iter_mut().find(|(n, _)| n == name.as_bytes()) {
            Some((_, old)) => *old = value,
            None => self.params.push((name.into(), value)),
        }
        self
    }

    pub fn method(self, method: &str) -> Self {
        self.with("REQUEST_METHOD", method)
    }

    /// Sets a body in the slot.
    pub fn post(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut request = self
            .method("POST")
            .with("CONTENT_TYPE", content_type)
            .with("CONTENT_LENGTH", body.len().to_string());
        request.body = body;
        request
    }

    /// Moves the body to a file.
    pub fn body_in_file(mut self) -> Self {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&self.body).unwrap();
        self.body_file = Some((file.into(), self.body.len() as u64));
        self.body = Vec::new();
        self
    }

    /// Returns the bytes for the slot.
    pub fn encoded(&self) -> Vec<u8> {
        let params = self.encode_params();
        let mut set = 0;
        let mut len = self.body.len() as u64;
        if let Some((_, file_len)) = &self.body_file {
            set |= flags::BODY_FILE;
            len = *file_len;
        }
        if self.params_in_file {
            set |= flags::PARAMS_FILE;
        }
        let mut out = Vec::new();
        RequestHeader::new(&params, set, 7, len, 0).put(&mut out);
        if !self.params_in_file {
            out.extend_from_slice(params.as_bytes());
        }
        out.extend_from_slice(&self.body);
        out
    }

    pub(super) fn encode_params(&self) -> Params {
        let mut params = Params::default();
        for (name, value) in &self.params {
            match Reserved::from_name(name) {
                Ok(Some(reserved)) => params.push_reserved(reserved, value),
                _ => params.push(name, value),
            }
        }
        params
    }

    pub(super) fn files(&self) -> Vec<OwnedFd> {
        let mut files = Vec::new();
        if self.withhold {
            return files;
        }
        if self.params_in_file {
            use std::io::Write;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(self.encode_params().as_bytes()).unwrap();
            files.push(file.into());
        }
        if let Some((file, _)) = &self.body_file {
            files.push(file.try_clone().unwrap());
        }
        files
    }
}
