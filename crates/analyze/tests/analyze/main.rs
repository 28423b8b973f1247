//! Answers about runs, against files of the reference. One program, because each is linked with all that is below it.

mod args;
mod critical_path;
mod cuts;
mod dependencies;
mod samples;
mod samples_dir;
mod sched;
mod verdict;
