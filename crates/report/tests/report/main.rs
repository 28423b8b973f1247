//! Output forms, and hostile input to what makes them. One program, because each is linked with all that is below it.

mod decode;
mod fuzz_readers;
mod hostile;
mod page;
mod perfetto;
mod simpler;
