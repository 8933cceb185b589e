//! Levels of blocks, and the directives that hold in them.
//!
//! A directive that can stand several times, such as `add_header`, is inherited from the level
//! above only if there is none of its name at the level itself.

use std::rc::Rc;

use super::reader::Directive;

/// A block with those around it.
#[derive(Debug, Clone)]
pub struct Scope<'t> {
    level: Rc<Level<'t>>,
}

#[derive(Debug)]
struct Level<'t> {
    directives: &'t [Directive],
    parent: Option<Scope<'t>>,
}

impl<'t> Scope<'t> {
    /// The outermost level.
    pub fn outermost(directives: &'t [Directive]) -> Self {
        Self { level: Rc::new(Level { directives, parent: None }) }
    }

    /// A level within this one.
    pub fn inner(&self, directives: &'t [Directive]) -> Self {
        Self { level: Rc::new(Level { directives, parent: Some(self.clone()) }) }
    }

    /// Returns the directives of the level itself.
    pub fn directives(&self) -> &'t [Directive] {
        self.level.directives
    }

    /// Returns a number that only scopes of the same directives have.
    pub fn address(&self) -> usize {
        self.level.directives.as_ptr() as usize
    }

    /// Returns the level above.
    pub fn parent(&self) -> Option<&Scope<'t>> {
        self.level.parent.as_ref()
    }

    /// Returns the directives of a name at the level itself.
    pub fn own_all(&self, name: &str) -> Vec<&'t Directive> {
        self.level.directives.iter().filter(|directive| directive.name == name).collect()
    }

    /// Returns the directive of a name at the level itself.
    pub fn own(&self, name: &str) -> Option<&'t Directive> {
        self.level.directives.iter().find(|directive| directive.name == name)
    }

    /// Returns the directives of a name of the innermost level that has one.
    pub fn all(&self, name: &str) -> Vec<&'t Directive> {
        self.any_of(&[name])
    }

    /// Returns the directives of these names of the innermost level that has one.
    pub fn any_of(&self, names: &[&str]) -> Vec<&'t Directive> {
        let mut scope = Some(self);
        while let Some(level) = scope {
            let found: Vec<_> = level
                .directives()
                .iter()
                .filter(|directive| names.contains(&&*directive.name))
                .collect();
            if !found.is_empty() {
                return found;
            }
            scope = level.parent();
        }
        Vec::new()
    }

    /// Returns the directive of a name that holds here.
    pub fn one(&self, name: &str) -> Option<&'t Directive> {
        self.all(name).into_iter().next()
    }

    /// Returns true if a switch is on; it is off by default.
    pub fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|directive| directive.arg(0).eq_ignore_ascii_case("on"))
    }
}
