//! The parameters of a request in the form that C reads: pointers into the worker's copy.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;

use howdah_wire::profile::Order;

/// A string for C. Unless something else is said, it ends in a NUL that `len` does not count.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Text {
    pub(super) data: *const c_char,
    pub(super) len: usize,
}

/// A CGI parameter for C.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Param {
    name: Text,
    value: Text,
}

impl Text {
    /// No string.
    const NONE: Text = Text { data: ptr::null(), len: 0 };

    /// Creates a string; `None` unless it ends in a NUL and has no other.
    fn new(with_nul: &[u8]) -> Option<Self> {
        let c = CStr::from_bytes_with_nul(with_nul).ok()?;
        Some(Text { data: c.as_ptr(), len: c.count_bytes() })
    }
}

impl Param {
    /// Creates a parameter; `None` unless both strings end in a NUL and have no other.
    fn new(name: &[u8], value: &[u8]) -> Option<Self> {
        Some(Param { name: Text::new(name)?, value: Text::new(value)? })
    }
}

/// A setting of PHP for one request. Neither string ends in a NUL.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Setting {
    name: Text,
    value: Text,
    /// 1 if the script cannot change it.
    is_locked: u64,
}

/// A request, `struct howdah_request`.
#[repr(C)]
pub(super) struct RawRequest {
    context: *mut c_void,
    params: *const Param,
    param_count: usize,
    content_length: i64,
    settings: *const Setting,
    setting_count: usize,
    authorization: Text,
    name_rule: u64,
    status: u64,
    cpu_us: i64,
    is_of_web_server: u64,
    script: Text,
    uri: Text,
}

const _: () = {
    assert!(size_of::<Text>() == 16 && size_of::<Param>() == 32);
    assert!(std::mem::offset_of!(Param, value) == 16 && size_of::<Setting>() == 40);
    assert!(size_of::<RawRequest>() == 128);
    assert!(std::mem::offset_of!(RawRequest, content_length) == 24);
    assert!(std::mem::offset_of!(RawRequest, authorization) == 48);
};

/// Rule for the name of a script, `enum howdah_name_rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum NameRule {
    /// The name must end in `.php`.
    Php = 0,
    /// The name has been checked.
    Any = 1,
    /// The file is not run.
    None = 2,
}

/// Parameters that borrow the bytes they point to.
#[derive(Debug)]
pub struct Params<'a> {
    list: Vec<Param>,
    settings: Vec<Setting>,
    /// Names of the settings.
    setting_names: Vec<&'a [u8]>,
    authorization: Text,
    name_rule: NameRule,
    status: u16,
    cpu_us: i64,
    /// The script that a web server has chosen and its path in the URL.
    web_server: Option<(Text, Text)>,
    /// The order to sample this request.
    pub profile: Option<Order>,
    bytes: PhantomData<&'a [u8]>,
}

impl Default for Params<'_> {
    fn default() -> Self {
        Params {
            list: Vec::new(),
            settings: Vec::new(),
            setting_names: Vec::new(),
            authorization: Text::NONE,
            name_rule: NameRule::Php,
            status: 200,
            cpu_us: 0,
            web_server: None,
            profile: None,
            bytes: PhantomData,
        }
    }
}

impl<'a> Params<'a> {
    /// Adds a parameter; both slices include the NUL that ends them. Returns false if one does not
    /// end in a NUL or contains another.
    pub fn push(&mut self, name: &'a [u8], value: &'a [u8]) -> bool {
        Param::new(name, value).is_some_and(|param| {
            self.list.push(param);
            true
        })
    }

    /// Adds the names and values of settings that apply to this request.
    pub fn add_php_values(&mut self, settings: Vec<(&'a [u8], &'a [u8])>, is_locked: bool) {
        let text = |bytes: &[u8]| Text { data: bytes.as_ptr().cast(), len: bytes.len() };
        self.setting_names.extend(settings.iter().map(|(name, _)| *name));
        self.settings.extend(settings.into_iter().map(|(name, value)| Setting {
            name: text(name),
            value: text(value),
            is_locked: is_locked.into(),
        }));
    }

    /// Sets the value of the field `Authorization`, with the NUL that ends it. Returns false as
    /// [`Params::push`].
    pub fn set_authorization(&mut self, value: &'a [u8]) -> bool {
        Text::new(value).is_some_and(|value| {
            self.authorization = value;
            true
        })
    }

    /// Sets whether the script may have a name that does not end in `.php`.
    pub fn allow_any_name(&mut self, any_name: bool) {
        self.name_rule = if any_name { NameRule::Any } else { NameRule::Php };
    }

    /// Sets whether the script may run, by the endings that the configuration has for its name.
    pub fn limit_name(&mut self, is_allowed: bool) {
        self.name_rule = if is_allowed { NameRule::Any } else { NameRule::None };
    }

    /// Sets the status that the response has unless the script sets another.
    pub fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Sets the processor time of this process at which the request began, in microseconds.
    pub fn set_start(&mut self, cpu_us: u64) {
        self.cpu_us = i64::try_from(cpu_us).unwrap_or_default();
    }

    /// Marks the parameters as those of a web server, which has chosen a script with this path in the
    /// URL. Both include the NUL that ends them; `None` if there is none. Returns false as
    /// [`Params::push`].
    pub fn set_web_server(&mut self, script: Option<&'a [u8]>, uri: Option<&'a [u8]>) -> bool {
        let text = |bytes: Option<&[u8]>| bytes.map_or(Some(Text::NONE), Text::new);
        self.web_server = text(script).zip(text(uri));
        self.web_server.is_some()
    }

    /// Drops the values that only an application with support for `.htaccess` files takes from the
    /// router, except for settings with these names.
    pub fn without_htaccess(mut self, kept_settings: &[String]) -> Self {
        let mut names = self.setting_names.iter();
        let is_kept = |name: &&[u8]| kept_settings.iter().any(|kept| kept.as_bytes() == *name);
        self.settings.retain(|_| names.next().is_some_and(is_kept));
        self.name_rule = NameRule::Php;
        self.status = 200;
        self
    }

    /// Returns the request with these parameters; it must not be used once they are dropped.
    pub(super) fn raw(&self, context: *mut c_void, content_length: i64) -> RawRequest {
        RawRequest {
            context,
            params: self.list.as_ptr(),
            param_count: self.list.len(),
            content_length,
            settings: self.settings.as_ptr(),
            setting_count: self.settings.len(),
            authorization: self.authorization,
            name_rule: self.name_rule as u64,
            status: u64::from(self.status),
            cpu_us: self.cpu_us,
            is_of_web_server: self.web_server.is_some().into(),
            script: self.web_server.map_or(Text::NONE, |(script, _)| script),
            uri: self.web_server.map_or(Text::NONE, |(_, uri)| uri),
        }
    }
}
