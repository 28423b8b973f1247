//! The `plimsoll` command.

fn main() -> std::process::ExitCode {
    plimsoll_cli::main()
}
