//! The program: it sets the allocator, and runs the command line.

use std::process::ExitCode;

/// The system's allocator needs a fifth more CPU for a request, and gives no memory back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    portcullis_cli::run()
}
