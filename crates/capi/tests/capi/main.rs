//! Calls from C that are wrong or rare. One program, because each is linked with all that is below it.

mod hostile;
mod run_options;
