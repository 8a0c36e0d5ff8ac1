//! The command line of relay; see [`relay::cli`].

fn main() -> std::process::ExitCode {
    relay::cli::main()
}
