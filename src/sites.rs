//! What the commands about sites need of the program: the disk with the compiler of sites, and the
//! checks of `howdah check`.

use std::path::Path;

use howdah_client::{Machine, Problem};
use howdah_config::include::IncludedFiles;
use howdah_sys::credentials::Credentials;
use serde_json::Value;

use crate::cli::CommonOptions;
use crate::config_file::Disk;
use crate::{check, server_user};

/// This machine, with the user that a server has without options.
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn files(&self, is_for_another_machine: bool) -> Result<Box<dyn IncludedFiles>, String> {
        let disk = Disk::of(&CommonOptions::default())?;
        Ok(Box::new(if is_for_another_machine { disk.for_another_machine() } else { disk }))
    }

    fn server_user(&self) -> Option<Credentials> {
        server_user::find(&CommonOptions::default()).ok().flatten()
    }

    fn check(&self, document: &Value, file: &Path) -> Vec<Problem> {
        check::document(document, file)
    }
}
