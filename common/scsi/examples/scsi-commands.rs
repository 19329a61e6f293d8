//! Prints `docs/scsi-commands.md`.

fn main() {
    print!("{}", scsi::cdb::commands_markdown());
}
