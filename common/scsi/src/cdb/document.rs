//! Renders the table of commands as `docs/scsi-commands.md`.

use super::table::COMMANDS;
use std::fmt::Write;

const HEAD: &str = "\
# SCSI commands

Generated from the command table of the crate `scsi` (`cargo run -p ibid-scsi --example scsi-commands`); a test compares both.
CDB usage is what REPORT SUPPORTED OPERATION CODES returns, from byte 1 on: a bit that is 0 there must be 0 in the CDB, or
the command is refused with INVALID FIELD IN CDB and a pointer to the bit. Timeouts are in seconds.

| command | code | service action | CDB usage | nominal | recommended |
| --- | --- | --- | --- | --- | --- |
";

/// Returns the page in Markdown.
pub fn commands_markdown() -> String {
    let mut out = HEAD.to_owned();
    for command in COMMANDS {
        let action = command.service_action.map_or_else(String::new, |action| format!("{action:02X}h"));
        let usage: Vec<String> = command.usage[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        let timeouts = command.timeouts;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {} | {:02X}h | {action} | `{}` | {} | {} |",
            command.name,
            command.opcode,
            usage.join(" "),
            timeouts.nominal,
            timeouts.recommended
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_page_matches_the_command_table() {
        let page = include_str!("../../../../docs/scsi-commands.md");
        assert!(
            page == commands_markdown(),
            "run: cargo run -p ibid-scsi --example scsi-commands > docs/scsi-commands.md"
        );
    }
}
