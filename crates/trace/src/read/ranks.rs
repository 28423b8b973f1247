//! Captures of several ranks: `rankN/dN` below the output folder, under a parent of several nodes below `nodeN`. They are
//! read one at a time.

use std::path::{Path, PathBuf};

use super::sorted_entries;
use crate::Error;

/// The folder of the rank that was asked for; the path itself if it is no folder of ranks.
pub(super) fn choose(path: &Path, rank: Option<u32>) -> Result<PathBuf, Error> {
    let ranks = if path.is_dir() { ranks_of(path) } else { Vec::new() };
    let numbers = || ranks.iter().map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(", ");
    match (ranks.as_slice(), rank) {
        ([], None) => Ok(path.to_path_buf()),
        ([(_, only)], None) => Ok(only.clone()),
        (_, Some(rank)) if ranks.iter().any(|(number, _)| *number == rank) => {
            let found = ranks.iter().find(|(number, _)| *number == rank);
            Ok(found.map_or_else(|| path.to_path_buf(), |(_, dir)| dir.clone()))
        }
        _ => Err(Error::Rank { path: path.to_path_buf(), ranks: numbers() }),
    }
}

/// The ranks in a folder and the folders of their files.
fn ranks_of(dir: &Path) -> Vec<(u32, PathBuf)> {
    let mut ranks = Vec::new();
    for entry in sorted_entries(dir).into_iter().filter(|entry| entry.is_dir()) {
        if let Some(number) = numbered(&entry, "rank") {
            let devices = sorted_entries(&entry);
            let device = devices.into_iter().find(|device| device.is_dir() && numbered(device, "d").is_some());
            ranks.push((number, device.unwrap_or(entry)));
        } else if numbered(&entry, "node").is_some() {
            ranks.extend(ranks_of(&entry));
        }
    }
    ranks.sort();
    ranks
}

fn numbered(path: &Path, word: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(word)?.parse().ok()
}
