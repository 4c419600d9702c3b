//! The binary under test: the product's own entry point, nothing else.

fn main() -> std::process::ExitCode {
    everdict_cli::main()
}
