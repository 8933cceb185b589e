//! `howdah htaccess convert`: routes that do what the files of a site say.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use howdah_convert::{File, Site};

use super::findings::one_line;
use super::search::search_thoroughly;
use super::site_file;
use crate::cli::Convert;

/// Maximum size of a file that is read, in bytes; that of the server.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Converts the files of a directory. Fails if something has no equivalent; the document is written all the same.
pub fn run(arguments: &Convert) -> Result<(), String> {
    let shown = arguments.directory.display();
    let root =
        fs::canonicalize(&arguments.directory).map_err(|error| format!("{shown}: {error}"))?;
    let Some(root_text) = root.to_str().filter(|root| *root != "/") else {
        return Err(format!("{shown}: a document root needs a name in UTF-8"));
    };
    let found = search_thoroughly(&root, ".htaccess");
    if !found.is_complete {
        return Err(format!(
            "{shown}: there are too many directories, or some cannot be read: a .htaccess file that is not \
             found might deny access; convert a smaller directory, or as another user"
        ));
    }
    let below = |directory: Option<&Path>| {
        let directory = directory.and_then(|directory| directory.strip_prefix(&root).ok());
        directory.map(|directory| directory.as_os_str().as_bytes().to_vec()).unwrap_or_default()
    };
    let rules = found.files.iter().map(|path| File {
        directory: below(path.parent()),
        path: path.display().to_string(),
        content: content(&root, path),
    });
    let circles = found.circles.iter().map(|path| File {
        directory: below(Some(path)),
        path: path.display().to_string(),
        content: Err("the link leads to a directory around it".to_owned()),
    });
    let files: Vec<File> = rules.chain(circles).collect();
    // What is outside of the root is not looked at, as by the server.
    let exists = |path: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        fs::canonicalize(path).is_ok_and(|path| path.starts_with(&root))
    };
    let conversion = howdah_convert::convert(&Site {
        root: root_text,
        listener: &arguments.listen,
        files: &files,
        has_php: found.has_php,
        exists: &exists,
    });
    let document = format!("{:#}\n", conversion.document);
    howdah_config::parse(document.as_bytes())
        .map_err(|error| format!("{shown}: the routes are not valid: {error}"))?;
    match &arguments.output {
        Some(path) => {
            fs::write(path, document).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => print!("{document}"),
    }
    for note in &conversion.notes {
        eprintln!("{}", one_line(&note.to_string()));
    }
    match conversion.is_complete() {
        true => Ok(()),
        false => Err("not everything was converted".to_owned()),
    }
}

fn content(root: &Path, path: &Path) -> Result<Vec<u8>, String> {
    let bytes =
        site_file::read(root, path, MAX_FILE_BYTES + 1).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(format!("it has more than {MAX_FILE_BYTES} bytes")),
        false => Ok(bytes),
    }
}
