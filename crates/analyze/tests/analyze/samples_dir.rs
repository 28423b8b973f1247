//! Genuine files of the reference system, which lie beside the repository and not in it; where they are absent a test says
//! so and passes.

use std::path::{Path, PathBuf};

/// The runs that were captured.
pub(crate) const RUNS: [&str; 5] = [
    "vector_example-a2a3sim",
    "vector_example-a5sim",
    "paged_attention-a2a3sim",
    "mixed_example-a2a3sim",
    "noop_nested5k-a2a3sim",
];

/// Where they lie.
pub(crate) fn samples() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: there are no samples of the reference in {}", dir.display());
    None
}
