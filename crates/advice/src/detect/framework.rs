//! Recognition of frameworks by a package that Composer requires, or by a file.

use howdah_config::json;

use super::error::DetectError;
use super::files::Directory;

/// A framework and the evidence for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framework {
    /// Its name.
    pub name: &'static str,
    /// The file or the package that it was recognised by.
    pub evidence: Evidence,
}

/// The evidence for a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// `composer.json` requires a package that starts like this.
    Package(&'static str),
    /// There is a file of this name.
    File(&'static str),
}

/// Maximum length of a `composer.json` that is read, in bytes.
const MAX_PROJECT_FILE: usize = 1 << 20;

/// Packages, or prefixes of their names, by framework. Laravel builds on Symfony and Drupal on
/// both, so the more specific ones come first.
const PACKAGES: [(&str, &str); 9] = [
    ("drupal/core", "Drupal"),
    ("laravel/framework", "Laravel"),
    ("cakephp/cakephp", "CakePHP"),
    ("codeigniter4/framework", "CodeIgniter"),
    ("yiisoft/yii", "Yii"),
    ("slim/slim", "Slim"),
    ("laminas/laminas-mvc", "Laminas"),
    ("roots/wordpress", "WordPress"),
    ("symfony/", "Symfony"),
];

/// Files by framework.
const FILES: [(&str, &str); 3] =
    [("artisan", "Laravel"), ("bin/console", "Symfony"), ("bin/cake", "CakePHP")];

/// Recognises the framework of a project.
pub(super) fn framework(directory: &Directory) -> Result<Option<Framework>, DetectError> {
    let packages = required_packages(directory);
    for (package, name) in PACKAGES {
        if packages.iter().any(|required| required.starts_with(package)) {
            return Ok(Some(Framework { name, evidence: Evidence::Package(package) }));
        }
    }
    for (file, name) in FILES {
        if directory.has_file(file)? {
            return Ok(Some(Framework { name, evidence: Evidence::File(file) }));
        }
    }
    Ok(None)
}

/// Returns the packages that a `composer.json` requires; none if it cannot be read, as they only
/// determine a name in messages.
fn required_packages(directory: &Directory) -> Vec<String> {
    let text = directory.read_start("composer.json", MAX_PROJECT_FILE);
    let document = text.and_then(|text| json::parse(&text).ok());
    let required = document.as_ref().and_then(|document| document.get("require")?.as_object());
    required.map(|packages| packages.keys().cloned().collect()).unwrap_or_default()
}
