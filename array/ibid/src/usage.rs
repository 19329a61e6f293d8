//! Parses the command line. A misused option is refused with a hint that names its commands.

use crate::cli::Cli;
use crate::problem::Problem;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

/// Options that cannot be combined on the command line. The environment may still set the second,
/// which the first overrides.
const CONFLICTS: [(&str, &str); 6] = [
    ("insecure", "fingerprint"),
    ("insecure", "ca"),
    ("fingerprint", "ca"),
    ("path", "data"),
    ("ephemeral", "data"),
    ("csv", "json"),
];
/// Options of `ibid token` that apply only with `--new`.
const ONLY_WITH_NEW: [&str; 4] = ["url", "ca", "fingerprint", "insecure"];

/// Parses the command line of the process. Prints help, version or the error and exits if there is
/// no command to run.
pub(crate) fn parse() -> Cli {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let parsed = Cli::command().try_get_matches().and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let problem = match parsed {
        Ok((cli, matches)) => match misuse(&matches) {
            None => return cli,
            Some(problem) => problem,
        },
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => explain(&error, &Cli::command(), &words),
    };
    problem.report();
    // The exit code of clap for a wrong command line.
    std::process::exit(2);
}

fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Options that parse but would have no effect.
fn misuse(matches: &ArgMatches) -> Option<Problem> {
    let (mut leaf, mut name) = (matches, "");
    while let Some((sub_name, sub)) = leaf.subcommand() {
        (leaf, name) = (sub, sub_name);
    }
    let is_given = |id: &str| {
        let is_known = leaf.try_contains_id(id).is_ok();
        is_known && leaf.value_source(id) == Some(ValueSource::CommandLine)
    };
    let shown = |id: &str| if id == "path" { "PATH".to_owned() } else { format!("--{id}") };
    if let Some((first, second)) = CONFLICTS.into_iter().find(|(first, second)| is_given(first) && is_given(second)) {
        let message = format!("{} cannot be combined with {}", shown(first), shown(second));
        return Some(Problem::new(message).hint("leave out one of them"));
    }
    let ignored = ONLY_WITH_NEW.into_iter().find(|id| name == "token" && !leaf.get_flag("new") && is_given(id))?;
    let hint = "use --data DIR to show the token, or add --new to replace it";
    Some(Problem::new(format!("{} has no effect without --new", shown(ignored))).hint(hint))
}

/// The cause of an error in one line, and the next step.
fn explain(error: &clap::Error, root: &Command, words: &[String]) -> Problem {
    let text = error.render().to_string();
    let cause = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let problem = Problem::new(cause.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    if let Some(option) = context(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let owners = owners(root, root.get_name(), option.trim_start_matches('-'));
        if !owners.is_empty() {
            return problem.hint(format!("write {option} after one of these commands: {}", owners.join(", ")));
        }
    }
    let help = format!("run `{} --help` for the usage", path(root, words));
    match context(ContextKind::SuggestedArg).or_else(|| context(ContextKind::SuggestedSubcommand)) {
        Some(suggested) => problem.hint(format!("write {suggested}, or {help}")),
        None => problem.hint(help),
    }
}

/// The commands that define an option of this name.
fn owners(command: &Command, path: &str, option: &str) -> Vec<String> {
    let is_here = command.get_arguments().any(|argument| argument.get_long() == Some(option));
    let below = command.get_subcommands().flat_map(|sub| owners(sub, &format!("{path} {}", sub.get_name()), option));
    is_here.then(|| path.to_owned()).into_iter().chain(below).collect()
}

/// The command that the words name.
fn path(root: &Command, words: &[String]) -> String {
    let (mut names, mut command) = (vec![root.get_name()], root);
    for word in words.iter().skip(1) {
        if let Some(sub) = command.find_subcommand(word) {
            names.push(sub.get_name());
            command = sub;
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Help of commands and options: at most 70 characters, no final full stop.
    #[test]
    fn help_lines_are_short() {
        fn check(command: &Command, path: &str) {
            let arguments = command.get_arguments().map(|argument| (argument.get_id().as_str(), argument.get_help()));
            for (id, help) in arguments.chain([("", command.get_about())]) {
                let help = help.map(ToString::to_string).unwrap_or_default();
                let help = help.split(" [default").next().unwrap();
                assert!(!help.is_empty() && !help.ends_with('.'), "{path} {id}: {help}");
                assert!(help.len() <= 70 || path == "ibid", "{path} {id}: {help}");
            }
            for sub in command.get_subcommands() {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        check(&Cli::command(), "ibid");
    }
}
