//! The binary; everything is in the library, so that tests build the same program.

fn main() -> std::process::ExitCode {
    everdict_cli::main()
}
