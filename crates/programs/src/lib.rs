//! built-in programs with golden results
