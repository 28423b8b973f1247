//! Where overlaps were met that may be false, because views were not compared exactly.

use crate::site::Site;

/// Sites of scopes that are told apart; overlaps in others are counted with the last.
const SITES: usize = 8;

/// Overlaps that may be false, by the scope whose tasks met them: of views that are no boxes of their buffer, and of writes that
/// stand for more than they overlap, where many uses are held of different parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guesses {
    seen: u64,
    sites: [Option<(Site, u64)>; SITES],
}

impl Guesses {
    /// How many were noted.
    #[inline]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Notes that there were `total` guesses so far. Those that were not noted before were met in the scope opened at `site`.
    #[cold]
    pub fn note(&mut self, total: u64, site: Site) {
        let met = total - std::mem::replace(&mut self.seen, total);
        if met == 0 {
            return;
        }
        let known = self.sites.iter().position(|entry| entry.is_none_or(|(at, _)| at == site)).unwrap_or(SITES - 1);
        let (_, count) = self.sites[known].get_or_insert((site, 0));
        *count += met;
    }

    /// The sites and how many were met there, most first.
    pub fn by_site(&self) -> Vec<(Site, u64)> {
        let mut sites: Vec<_> = self.sites.iter().flatten().copied().collect();
        sites.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        sites
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_counted_by_site_most_first() {
        let (one, other) = (Site::caller(), Site::caller());
        let mut guesses = Guesses::default();
        guesses.note(3, one);
        guesses.note(10, other);
        guesses.note(11, one);
        assert_eq!(guesses.by_site().iter().map(|site| site.1).collect::<Vec<_>>(), [7, 4]);
        assert_eq!(guesses.seen(), 11);
    }
}
