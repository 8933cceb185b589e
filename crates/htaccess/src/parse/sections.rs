//! Sections that hold for some requests only: `<Files>`, `<FilesMatch>`, `<If>`, `<ElseIf>`,
//! `<Else>`, `<Limit>`, `<LimitExcept>`; and `Error`, which is an error.

use std::sync::Arc;

use super::compiler::{Compiler, Scope};
use super::failure::Failure;
use super::section_kind::Kind;
use super::tree::Node;
use crate::budget;
use crate::config::DirConfig;
use crate::method;
use crate::method::Methods;
use crate::modules::core;
use crate::modules::core::{Branch, FilesSection, IfSection, NamePattern};
use crate::modules::pattern::Condition;
use crate::words::Words;

impl Compiler<'_> {
    pub(super) fn section(
        &mut self,
        kind: Kind,
        node: &Node,
        config: &mut DirConfig,
        scope: Scope<'_>,
    ) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(node.line, text);
        if kind == Kind::Error {
            return Err(fail(error_text(&node.arguments)));
        }
        let Some(end) = memchr::memrchr(b'>', &node.arguments) else {
            return Err(fail(format!("{}> directive missing closing '>'", kind.name())));
        };
        let arguments = &node.arguments[..end];
        match kind {
            Kind::Limit | Kind::LimitExcept => self.limit(kind, arguments, node, config, scope),
            _ if scope.methods.is_some() => Err(fail(format!(
                "{}> cannot occur within <Limit> or <LimitExcept> section",
                kind.name()
            ))),
            Kind::Files | Kind::FilesMatch => self.files(kind, arguments, node, config),
            _ => self.branch(kind, arguments, node, config),
        }
    }

    fn inside(&mut self, node: &Node, section: &[u8]) -> Result<DirConfig, Failure> {
        let mut inner = DirConfig::default();
        budget::add_directive(2 * inner.size).map_err(|limit| Failure::new(node.line, limit))?;
        let section = Some(section);
        let scope = Scope { section, methods: None, parent: Some(node), classes: None };
        self.run(&node.children, &mut inner, scope)?;
        Ok(inner)
    }

    fn files(
        &mut self,
        kind: Kind,
        arguments: &[u8],
        node: &Node,
        config: &mut DirConfig,
    ) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(node.line, text);
        needs_arguments(kind, arguments, node)?;
        let mut words = Words::new(arguments);
        let mut name = words.take();
        let is_regex = kind == Kind::FilesMatch || name == b"~";
        if kind == Kind::Files && is_regex {
            name = words.take();
        }
        let pattern = if is_regex {
            NamePattern::regex(&name).map_err(|_| fail("Regex could not be compiled".to_owned()))?
        } else {
            NamePattern::name(&name)
        };
        let inner = self.inside(node, &name)?;
        if !words.rest().is_empty() {
            let name = kind.name();
            return Err(fail(format!("Multiple {name}> arguments not (yet) supported.")));
        }
        config
            .of_mut::<core::Config>()
            .files
            .push(Arc::new(FilesSection { pattern, config: Arc::new(inner) }));
        Ok(())
    }

    fn branch(
        &mut self,
        kind: Kind,
        arguments: &[u8],
        node: &Node,
        config: &mut DirConfig,
    ) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(node.line, text);
        let mut words = Words::new(arguments);
        let branch = if kind == Kind::Else {
            if !arguments.is_empty() {
                return Err(fail("<Else> does not take an argument".to_owned()));
            }
            Branch::Else
        } else {
            needs_arguments(kind, arguments, node)?;
            let condition = Condition::parse(&words.take())
                .map_err(|error| fail(format!("Cannot parse condition clause: {error}")))?;
            match kind {
                Kind::ElseIf => Branch::ElseIf(condition),
                _ => Branch::If(condition),
            }
        };
        let inner = self.inside(node, b"*If")?;
        if !matches!(branch, Branch::If(_)) {
            let last = config.of::<core::Config>().branches.last().map(|last| &last.branch);
            if !matches!(last, Some(Branch::If(_) | Branch::ElseIf(_))) {
                let text = "<Else> or <ElseIf> section without previous <If> or <ElseIf> section \
                            in same scope";
                return Err(fail(text.to_owned()));
            }
        }
        if !words.rest().is_empty() {
            return Err(fail(format!("Multiple {}> arguments not supported.", kind.name())));
        }
        config
            .of_mut::<core::Config>()
            .branches
            .push(Arc::new(IfSection { branch, config: Arc::new(inner) }));
        Ok(())
    }

    fn limit(
        &mut self,
        kind: Kind,
        arguments: &[u8],
        node: &Node,
        config: &mut DirConfig,
        scope: Scope<'_>,
    ) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(node.line, text);
        needs_arguments(kind, arguments, node)?;
        let mut methods = Methods { names: Vec::new(), is_except: kind == Kind::LimitExcept };
        for name in Words::new(arguments).all() {
            if name == b"TRACE" && kind == Kind::Limit {
                let text = "TRACE cannot be controlled by <Limit>, see TraceEnable";
                return Err(fail(text.to_owned()));
            }
            if !method::is_known(&name) {
                let name = String::from_utf8_lossy(&name);
                let kind = kind.name();
                return Err(fail(format!(
                    "Could not register method '{name}' for {kind} from .htaccess configuration"
                )));
            }
            methods.names.push(if name == b"HEAD" { b"GET".to_vec() } else { name });
        }
        if let Some(outer) = scope.methods {
            let both = outer.both(&methods);
            if !both.is_except && both.names.is_empty() {
                return Err(fail(format!("{}> directive excludes all methods", kind.name())));
            }
            let is_same = method::NAMES
                .iter()
                .all(|name| both.contains(name.as_bytes()) == outer.contains(name.as_bytes()));
            if is_same {
                let kind = kind.name();
                return Err(fail(format!("{kind}> directive specifies methods already excluded")));
            }
            methods = both;
        }
        let scope = Scope { methods: Some(&methods), parent: Some(node), ..scope };
        self.run(&node.children, config, scope)
    }
}

fn needs_arguments(kind: Kind, arguments: &[u8], node: &Node) -> Result<(), Failure> {
    if arguments.is_empty() {
        let text = format!("{}> directive requires additional arguments", kind.name());
        return Err(Failure::new(node.line, text));
    }
    Ok(())
}

fn error_text(argument: &[u8]) -> String {
    let text = match argument {
        [] => b"The Error directive was used with no message.",
        [first @ (b'"' | b'\''), middle @ .., last] if first == last => middle,
        text => text,
    };
    String::from_utf8_lossy(text).into_owned()
}
