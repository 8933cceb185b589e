//! Directives of a directory, a section or a whole chain of directories, compiled: Apache's
//! `ap_conf_vector_t`.
//!
//! Each module has a slot for its directives ([`ModuleConfig`]). A directory inherits the
//! directives of the modules that its own `.htaccess` does not use. Their tables may be large, and
//! directories many: they are not copied. The added directives are counted, so that the memory of
//! merged configurations can be limited.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::budget;
use crate::memory::Charges;

/// Approximate memory in bytes of a directive, beside its words: entries of lists and their
/// allocations.
const BYTES_OF_A_DIRECTIVE: usize = 384;

/// Number of slots.
pub(crate) const SLOTS: usize = Slot::Setenvif as usize + 1;

thread_local! {
    /// Bytes of the directive that is being applied, until they are counted.
    static APPLIED: Cell<usize> = const { Cell::new(0) };
}

/// The modules that have directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Slot {
    Core,
    AccessCompat,
    Alias,
    AuthBasic,
    AuthnFile,
    Authz,
    AuthzGroupfile,
    Autoindex,
    Dir,
    Env,
    Expires,
    Filter,
    Headers,
    Mime,
    Negotiation,
    Php,
    Rewrite,
    // The last one: see `SLOTS`.
    Setenvif,
}

/// Directives of a module; the default is none.
pub trait ModuleConfig: Any + Clone + Default + fmt::Debug + Send + Sync {
    /// The module. No other type has the same one.
    const SLOT: Slot;

    /// Returns the directives of a directory with those of a directory or section below it.
    fn merged(&self, child: &Self) -> Self;

    /// See [`DirConfig::is_constant`].
    fn is_constant(&self) -> bool {
        true
    }
}

/// A [`ModuleConfig`] of any module.
trait AnyConfig: Any + fmt::Debug + Send + Sync {
    fn merged(&self, child: &dyn AnyConfig) -> Arc<dyn AnyConfig>;
    fn is_constant(&self) -> bool;
    fn size(&self) -> usize;
}

impl<C: ModuleConfig> AnyConfig for C {
    fn merged(&self, child: &dyn AnyConfig) -> Arc<dyn AnyConfig> {
        Arc::new(ModuleConfig::merged(self, of_slot::<C>(child)))
    }

    fn is_constant(&self) -> bool {
        ModuleConfig::is_constant(self)
    }

    fn size(&self) -> usize {
        size_of::<C>()
    }
}

/// Returns the content of the slot of `C`.
fn of_slot<C: ModuleConfig>(content: &dyn AnyConfig) -> &C {
    let content: &dyn Any = content;
    // A slot is filled through `ModuleConfig::SLOT` only, which no two types share.
    content.downcast_ref().expect("a slot has directives of its module")
}

/// Directives of a module, shared by all configurations that have the same ones.
#[derive(Debug, Clone)]
struct Shared {
    content: Arc<dyn AnyConfig>,
    /// Approximate size in bytes.
    size: usize,
}

/// Compiled directives of all modules.
#[derive(Debug, Clone)]
pub struct DirConfig {
    /// `None` for a module without directives.
    modules: [Option<Shared>; SLOTS],
    /// Notes for the log: directives that are ignored.
    pub warnings: Vec<String>,
    /// Files that `<IfFile>` asked for, and whether they were there.
    pub probes: Vec<(Vec<u8>, bool)>,
    /// Approximate memory in bytes that no other configuration shares.
    pub size: usize,
    /// Files that this configuration has something of.
    pub charges: Charges,
}

impl Default for DirConfig {
    fn default() -> DirConfig {
        // Sections of a file, too: they may outlive the rest of it.
        DirConfig::empty(Charges::of(budget::charge()))
    }
}

impl DirConfig {
    fn empty(charges: Charges) -> DirConfig {
        DirConfig {
            modules: [const { None }; SLOTS],
            warnings: Vec::new(),
            probes: Vec::new(),
            size: size_of::<DirConfig>(),
            charges,
        }
    }

    /// Returns the directives of a module.
    pub fn of<C: ModuleConfig>(&self) -> &C {
        static NONE: [OnceLock<Arc<dyn AnyConfig>>; SLOTS] = [const { OnceLock::new() }; SLOTS];
        let slot = C::SLOT as usize;
        of_slot(match &self.modules[slot] {
            Some(shared) => &*shared.content,
            None => &**NONE[slot].get_or_init(|| Arc::new(C::default())),
        })
    }

    /// Returns the directives of a module to add one.
    pub fn of_mut<C: ModuleConfig>(&mut self) -> &mut C {
        let slot = &mut self.modules[C::SLOT as usize];
        let shared =
            slot.get_or_insert_with(|| Shared { content: Arc::new(C::default()), size: 0 });
        // A section is added without words.
        shared.size += APPLIED.take().max(64);
        if Arc::get_mut(&mut shared.content).is_none() {
            shared.content = Arc::new(of_slot::<C>(&*shared.content).clone());
        }
        let content: &mut dyn Any =
            Arc::get_mut(&mut shared.content).expect("nobody else has the copy of the line above");
        content.downcast_mut().expect("a slot has directives of its module")
    }

    /// Sets the directives of a module, whose memory is not counted.
    pub(crate) fn set<C: ModuleConfig>(&mut self, config: C) {
        self.modules[C::SLOT as usize] = Some(Shared { content: Arc::new(config), size: 0 });
    }

    /// Returns the directives of a directory with those of a directory or section below it.
    pub fn merged(&self, child: &DirConfig) -> DirConfig {
        let mut merged = DirConfig::empty(self.charges.with(&child.charges));
        for (slot, (parent, child)) in self.modules.iter().zip(&child.modules).enumerate() {
            // As in Apache, a module without directives is not merged.
            merged.modules[slot] = match (parent, child) {
                (Some(parent), Some(child)) => {
                    let content = parent.content.merged(&*child.content);
                    let size = parent.size + child.size;
                    merged.size += content.size() + size;
                    Some(Shared { content, size })
                }
                (one, None) | (None, one) => one.clone(),
            };
        }
        merged
    }

    /// Returns true if a file that `<IfFile>` asked for has come or gone: the `.htaccess` must be
    /// compiled again.
    pub fn is_outdated(&self, exists: &dyn Fn(&[u8]) -> bool) -> bool {
        self.probes.iter().any(|(path, was_there)| exists(path) != *was_there)
    }

    /// Returns true if the head of the answer to a GET for a whole file, without compression,
    /// depends on the file alone unless a rule has replaced its path: no directive looks at the
    /// client, at header fields, at the time or at other files. False if in doubt.
    pub fn is_constant(&self) -> bool {
        self.modules.iter().flatten().all(|shared| shared.content.is_constant())
    }
}

/// Begins to apply a directive with these words. Returns its approximate memory in bytes.
pub(crate) fn begin_directive(words: &[&[u8]]) -> usize {
    let bytes = BYTES_OF_A_DIRECTIVE + words.iter().map(|word| word.len()).sum::<usize>();
    APPLIED.set(bytes);
    bytes
}
