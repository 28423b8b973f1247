//! one file per output form
