//! Turns a command line that clap refuses into an `error:` line and a `hint:` line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

/// Parses the command line of the process. Prints help, version or the error and exits if there is
/// nothing to run.
pub(crate) fn parse<P: Parser>() -> P {
    P::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            error.exit();
        }
        let words: Vec<String> = std::env::args().collect();
        let (message, hint) = explain(&error, &P::command(), &words);
        eprintln!("error: {message}\nhint: {hint}");
        std::process::exit(error.exit_code());
    })
}

/// The cause of an error in one line, and the next step.
fn explain(error: &clap::Error, root: &Command, words: &[String]) -> (String, String) {
    let text = error.render().to_string();
    let cause = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let message = cause.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    if let Some(option) = context(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let owners = owners(root, root.get_name(), option.trim_start_matches('-'));
        if !owners.is_empty() {
            return (message, format!("write {option} after one of these commands: {}", owners.join(", ")));
        }
    }
    let suggested = context(ContextKind::SuggestedArg).or_else(|| context(ContextKind::SuggestedSubcommand));
    let help = format!("run `{} --help` for the usage", path(root, words));
    match suggested {
        Some(suggested) => (message, format!("write {suggested}, or {help}")),
        None => (message, help),
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
    let mut names = vec![root.get_name()];
    let mut command = root;
    for word in words.iter().skip(1) {
        if let Some(sub) = command.find_subcommand(word) {
            names.push(sub.get_name());
            command = sub;
        }
    }
    names.join(" ")
}
