//! Source sites of scopes: where in a program one was opened, whatever language the program is in.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU64;
use std::panic::Location;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A place in a source file, in one word: the address of a [`Location`], or of a [`Foreign`] one with its lowest bit set.
/// Both live as long as the process.
#[derive(Clone, Copy)]
pub struct Site(NonZeroU64);

/// A place that no Rust compiler has seen.
#[repr(align(8))]
struct Foreign {
    file: &'static str,
    line: u32,
}

const FOREIGN: u64 = 1;
const _: () = assert!(align_of::<Location<'static>>() > FOREIGN as usize);

impl Site {
    /// The place that calls the function that calls this one, if that one is `track_caller`.
    #[inline]
    #[track_caller]
    pub fn caller() -> Self {
        Self::from(Location::caller())
    }

    /// A place in a file of another language. Each is kept for the life of the process, once, so naming it again allocates nothing.
    pub fn foreign(file: &str, line: u32) -> Self {
        static KNOWN: OnceLock<Mutex<HashMap<(&'static str, u32), Site>>> = OnceLock::new();
        let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = known.get(&(file, line)) {
            return *site;
        }
        let place: &'static Foreign = Box::leak(Box::new(Foreign { file: file.to_owned().leak(), line }));
        let site = Self::of_address(std::ptr::from_ref(place).addr() as u64 | FOREIGN);
        known.insert((place.file, line), site);
        site
    }

    /// The word that stands for it; never zero.
    #[inline]
    pub(crate) fn to_word(self) -> u64 {
        self.0.get()
    }

    /// The site that a word stands for; none for zero.
    ///
    /// # Safety
    /// The word is zero or came from [`to_word`](Self::to_word).
    #[inline]
    pub(crate) unsafe fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    #[inline]
    fn of_address(address: u64) -> Self {
        // References are never null.
        Self(NonZeroU64::new(address).unwrap_or(NonZeroU64::MAX))
    }

    /// The place that a Rust compiler has seen, if one has.
    fn location(self) -> Option<&'static Location<'static>> {
        // SAFETY: without that bit it was made of a `&'static Location`.
        (self.0.get() & FOREIGN == 0).then(|| unsafe { &*(self.0.get() as *const Location<'static>) })
    }

    fn parts(self) -> (&'static str, u32) {
        if let Some(place) = self.location() {
            return (place.file(), place.line());
        }
        // SAFETY: with that bit it was made of a leaked `Foreign`.
        let place = unsafe { &*((self.0.get() & !FOREIGN) as *const Foreign) };
        (place.file, place.line)
    }

    /// The file, as its compiler or interpreter names it.
    pub fn file(self) -> &'static str {
        self.parts().0
    }

    /// The line, from 1.
    pub fn line(self) -> u32 {
        self.parts().1
    }
}

impl From<&'static Location<'static>> for Site {
    #[inline]
    fn from(place: &'static Location<'static>) -> Self {
        Self::of_address(std::ptr::from_ref(place).addr() as u64)
    }
}

/// The compiler may give one place several addresses; foreign places have one each.
impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.location().is_some() && self.location() == other.location()
    }
}

impl Eq for Site {}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            // Whoever gave no line has none to look at.
            (file, 0) => f.write_str(file),
            (file, line) => write!(f, "{file}:{line}"),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_of_every_language_say_where_they_are() {
        let here = Site::caller();
        assert_eq!((here.file(), here.line()), (file!(), line!() - 1));
        let there = Site::foreign("mine.py", 7);
        assert_eq!((there.to_string().as_str(), there), ("mine.py:7", Site::foreign("mine.py", 7)));
        assert_eq!(Site::foreign("somewhere", 0).to_string(), "somewhere");
        assert_ne!(there, Site::foreign("mine.py", 8));
        // SAFETY: the words are zero and a site's own.
        assert_eq!(unsafe { (Site::from_word(0), Site::from_word(there.to_word())) }, (None, Some(there)));
    }
}
