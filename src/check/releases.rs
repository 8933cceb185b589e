//! Code that PHP loads once and that a symbolic link leads to: deployments change the link.

use std::fs;
use std::path::{Path, PathBuf};

use howdah_config::{Application, Config, path};

use super::php_settings::Settings;

/// Returns notes about preload and worker scripts below a link that the document root has, too.
pub(super) fn preloaded(config: &Config, settings: &Settings) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for application in &config.applications {
        // With `rootfs`, the paths are below that.
        if application.isolation.rootfs.is_some() || application.releases {
            continue;
        }
        let place = |key: &str| path(["applications", application.name.as_str(), key]);
        let name = &application.name;
        let values = settings.get(name).map(|values| values.as_slice()).unwrap_or_default();
        let preload = values.iter().find(|(name, _)| name == "opcache.preload");
        if let Some((_, script)) = preload
            && let Some(link) = common_link(Path::new(script), application)
        {
            let link = link.display();
            let message = format!(
                "opcache.preload and the document root lead through the link {link}: when it is \
                 changed to another release, requests stay in the old one until howdah reload; \
                 \"releases\": true restarts the application by itself"
            );
            all.push((place("options"), message));
        }
        let worker = application.worker.as_ref().zip(application.targets.first());
        if let Some((worker, target)) = worker
            && let Some(link) = common_link(&target.root.join(&worker.script), application)
        {
            let link = link.display();
            let message = format!(
                "the worker script is reached through the link {link}: when it is changed to \
                 another release, requests stay in the old one until howdah reload; \
                 \"releases\": true restarts the application by itself"
            );
            all.push((place("worker"), message));
        }
    }
    all
}

/// Returns the first symbolic link on the way to a file that is also on the way to a document root.
fn common_link(file: &Path, application: &Application) -> Option<PathBuf> {
    // Links of the system, such as /var/run, are not changed by deployments.
    let is_link = |path: &&Path| {
        path.components().count() > 2
            && fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
    };
    let links: Vec<_> = file.ancestors().filter(is_link).collect();
    let link = links.into_iter().rev();
    let mut common =
        link.filter(|link| application.targets.iter().any(|target| target.root.starts_with(link)));
    common.next().map(Path::to_owned)
}
