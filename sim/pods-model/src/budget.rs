//! How often each kind of event may happen: the bounds of a run, and the counts of a history.

use anyhow::{Context, Result, bail};

macro_rules! budget {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Numbers of events: the bounds of a run, or the counts of a history.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Budget { $($(#[$doc])* pub $name: u8,)* }

        impl Budget {
            /// Sets one bound by its name.
            fn set(&mut self, name: &str, value: u8) -> Result<()> {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => bail!("unknown bound {name}"),
                }
                Ok(())
            }

            /// The bounds in words, without those that are zero.
            pub fn describe(&self) -> String {
                let all = [$((stringify!($name), self.$name),)*];
                let words = all.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name}={n}"));
                words.collect::<Vec<_>>().join(" ")
            }
        }
    };
}

budget! {
    /// Changes that hosts send.
    commands,
    /// Crashes of an array.
    crashes,
    /// Cuts of one direction of the link.
    cuts,
    /// Losses of the mediator by one array.
    outages,
    /// Changes of the tie rule that an administrator or a lost mediator causes.
    rule_changes,
    /// Decisions of an array to continue alone.
    asks,
    /// Commands answered with an error between two sessions.
    early_errors,
    /// Losses of an array's last flush.
    damages,
    /// Records that the source does not stream because it has no credit.
    marks,
    /// Hosts that give up a forwarded command and use another path.
    failovers,
    /// Orderly hand-overs.
    resigns,
    /// Ends of stretching.
    leaves,
    /// Forced promotions.
    forces,
    /// Highest epoch.
    epochs,
}

impl Budget {
    /// Parses `name=value` words, separated by spaces.
    ///
    /// # Errors
    /// An unknown name, or a value that is not a number from 0 to 255.
    pub fn parse(text: &str) -> Result<Budget> {
        let mut budget = Budget { epochs: 12, ..Budget::default() };
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').with_context(|| format!("{word}: expected name=value"))?;
            budget.set(name, value.parse().with_context(|| format!("{word}: not a number"))?)?;
        }
        Ok(budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_parsed_by_name() {
        let budget = Budget::parse("commands=2 epochs=9").unwrap();
        assert_eq!((budget.commands, budget.epochs, budget.cuts), (2, 9, 0));
        assert_eq!(budget.describe(), "commands=2 epochs=9");
        assert!(
            Budget::parse("comands=2").is_err() && Budget::parse("cuts").is_err() && Budget::parse("cuts=x").is_err()
        );
    }
}
