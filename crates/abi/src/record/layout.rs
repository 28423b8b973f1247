//! Compile-time proofs of a record's layout.

/// Proves a record's size and alignment, and that its fields leave no gap.
///
/// The fields are listed once more with their types in order; their sizes must add up to the record's, and
/// each must start where the one before it ended.
macro_rules! proven_layout {
    ($record:ty, $bytes:literal, { $($field:ident: $ty:ty),* $(,)? }) => {
        const _: () = {
            assert!(size_of::<$record>() == $bytes, "size");
            assert!(align_of::<$record>() == 8, "alignment");
            let mut end = 0;
            $(
                assert!(core::mem::offset_of!($record, $field) == end, concat!("gap before ", stringify!($field)));
                end += size_of::<$ty>();
            )*
            assert!(end == $bytes, "padding at the end");
        };
    };
}
pub(crate) use proven_layout;
