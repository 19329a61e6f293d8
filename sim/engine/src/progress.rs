//! The progress file of a long campaign: one line of numbers per finished slice of seeds.

use crate::totals::Totals;
use platform::files;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a progress file.
const MAX_BYTES: u64 = 64 << 20;

/// Finished slices of a campaign.
#[derive(Debug)]
pub struct ProgressFile {
    path: PathBuf,
    text: String,
    done: BTreeMap<u64, Totals>,
}

impl ProgressFile {
    /// Reads the file if it exists. An incomplete last line is ignored.
    pub fn open(path: &Path) -> io::Result<Self> {
        let text = files::read_text(path, MAX_BYTES)?.unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut progress_file = Self { path: path.to_owned(), text: text[..whole].to_owned(), done: BTreeMap::new() };
        progress_file.done = progress_file.text.lines().filter_map(read_line).collect();
        Ok(progress_file)
    }

    /// Returns the totals of the slice of `runs` runs from `seed`, if it is finished.
    pub fn done(&self, seed: u64, runs: u64) -> Option<&Totals> {
        self.done.get(&seed).filter(|totals| totals.runs == runs)
    }

    /// Records a finished slice. The file is replaced atomically.
    pub fn note(&mut self, seed: u64, totals: &Totals) -> io::Result<()> {
        let counts: Vec<String> = totals.counts().iter().map(u64::to_string).collect();
        self.text.push_str(&format!("{seed} {}\n", counts.join(" ")));
        self.done.insert(seed, *totals);
        files::replace(&self.path, self.text.as_bytes(), files::Access::Owner)
    }
}

fn read_line(line: &str) -> Option<(u64, Totals)> {
    let numbers = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let (seed, counts) = numbers.split_first()?;
    Totals::from_counts(counts).map(|totals| (*seed, totals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn progress_file_survives_a_truncated_line() {
        let directory = TemporaryDirectory::new(None, "sim-progress").unwrap();
        let path = directory.path().join("progress");
        let counts: Vec<u64> = (1..=Totals::COUNTERS as u64).collect();
        let totals = Totals::from_counts(&counts).unwrap();
        assert_eq!(totals.counts().to_vec(), counts);
        let mut progress_file = ProgressFile::open(&path).unwrap();
        assert_eq!(progress_file.done(7, 1), None);
        progress_file.note(7, &totals).unwrap();
        progress_file.note(8, &totals).unwrap();
        let text = files::read_text(&path, MAX_BYTES).unwrap().unwrap();
        files::replace(&path, &text.as_bytes()[..text.len() - 1], files::Access::Owner).unwrap();
        let progress_file = ProgressFile::open(&path).unwrap();
        assert_eq!(progress_file.done(7, 1), Some(&totals));
        assert_eq!(
            (progress_file.done(7, 2), progress_file.done(8, 1)),
            (None, None),
            "another slice; a line that was cut short"
        );
    }
}
