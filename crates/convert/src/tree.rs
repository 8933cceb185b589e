//! Directories with files of directives, by their paths.

use std::collections::HashMap;

use crate::folder::{Folder, around};

/// Folders by their URLs.
pub struct Tree<'b, 'a> {
    /// All folders; those around a folder come before it.
    pub folders: &'b [Folder<'a>],
    places: HashMap<&'b [u8], usize>,
}

impl<'b, 'a> Tree<'b, 'a> {
    /// Indexes folders.
    pub fn new(folders: &'b [Folder<'a>]) -> Tree<'b, 'a> {
        let places = folders.iter().zip(0..).map(|(folder, place)| (&*folder.url, place)).collect();
        Tree { folders, places }
    }

    /// Returns the folders from the root to one.
    pub fn chain(&self, folder: &Folder<'_>) -> Vec<&'b Folder<'a>> {
        around(&folder.url)
            .filter_map(|url| self.places.get(url))
            .filter_map(|place| self.folders.get(*place))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_the_folders_around_one_from_the_root_on() {
        let urls = ["/", "/a/", "/a-b/", "/a/b/c/", "/a/b/c/d/"];
        let folders = urls.map(|url| Folder { url: url.into(), ..Folder::default() });
        let tree = Tree::new(&folders);
        let chain = |place: usize| -> Vec<String> {
            let folder = tree.chain(&folders[place]).into_iter();
            folder.map(|folder| String::from_utf8_lossy(&folder.url).into_owned()).collect()
        };
        assert_eq!(chain(0), ["/"]);
        assert_eq!(chain(2), ["/", "/a-b/"]);
        assert_eq!(chain(4), ["/", "/a/", "/a/b/c/", "/a/b/c/d/"]);
    }
}
