//! Captures of several ranks: `rankN/dN` below the output folder, under a parent of several nodes below `nodeN`. They are
//! read one at a time.

use std::path::{Path, PathBuf};

use super::sorted_entries;
use crate::Error;

/// The folder of the rank that was asked for; the path itself if it is no folder of ranks.
///
/// # Errors
/// [`Error::Rank`] if that is no single folder.
pub fn rank_folder(path: &Path, rank: Option<u32>) -> Result<PathBuf, Error> {
    let ranks = if path.is_dir() { ranks_of(path) } else { Vec::new() };
    let of_rank: Vec<&(u32, PathBuf)> = ranks.iter().filter(|(number, _)| rank.is_none_or(|r| r == *number)).collect();
    let refuse = |held: String, todo| Err(Error::Rank { path: path.to_path_buf(), held, todo });
    let one_of_them = "Choose one with `Request::rank`, or give its folder";
    match (of_rank.as_slice(), rank) {
        ([], None) => Ok(path.to_path_buf()),
        ([(_, only)], _) => Ok(only.clone()),
        ([], Some(_)) if ranks.is_empty() => {
            refuse("no folder of a rank, such as rank0/d0".to_string(), "Leave `Request::rank` out")
        }
        ([], Some(rank)) => refuse(format!("no rank {rank}, but {}", list_ranks(&ranks)), one_of_them),
        ([(first, _), rest @ ..], _) if rest.iter().all(|(number, _)| number == first) => {
            let folders: Vec<String> = of_rank.iter().map(|(_, dir)| dir.display().to_string()).collect();
            refuse(format!("rank {first} in several folders: {}", folders.join(", ")), "Give one of these folders")
        }
        _ => refuse(list_ranks(&ranks), one_of_them),
    }
}

fn list_ranks(ranks: &[(u32, PathBuf)]) -> String {
    let mut numbers: Vec<String> = ranks.iter().map(|(number, _)| number.to_string()).collect();
    numbers.dedup();
    format!("the ranks {}", numbers.join(", "))
}

/// The ranks in a folder, or the one that the folder is itself, and the folders of their files, by rank.
fn ranks_of(dir: &Path) -> Vec<(u32, PathBuf)> {
    // The folder may be given as `.`, whose name is only known in full.
    let own = dir.canonicalize();
    if let Some(number) = numbered(own.as_deref().unwrap_or(dir), "rank") {
        return devices_of(dir).map(|device| (number, device)).collect();
    }
    let mut ranks = Vec::new();
    for entry in sorted_entries(dir).into_iter().filter(|entry| entry.is_dir()) {
        if let Some(number) = numbered(&entry, "rank") {
            let before = ranks.len();
            ranks.extend(devices_of(&entry).map(|device| (number, device)));
            if ranks.len() == before {
                ranks.push((number, entry));
            }
        } else if numbered(&entry, "node").is_some() {
            ranks.extend(ranks_of(&entry));
        }
    }
    ranks.sort();
    ranks
}

fn devices_of(rank: &Path) -> impl Iterator<Item = PathBuf> {
    sorted_entries(rank).into_iter().filter(|device| device.is_dir() && numbered(device, "d").is_some())
}

fn numbered(path: &Path, word: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(word)?.parse().ok()
}
