//! `ibid-host esxtop`: statistics of a host's devices, adapters and processes, on a screen or as a
//! CSV file.

mod batch;
mod fields;
mod panel;
mod sample;
mod screen;
mod terminal;
mod world;

use crate::esx::HostArgs;
use crate::failure::Failure;
use crate::out::out;
use batch::{Capture, CaptureRows, perfmon_time};
use clap::Args;
use esxi_host::{EsxiHost, timestamp};
use fields::Selection;
use platform::files::Access;
use platform::{clock, files};
use sample::Sample;
use screen::Screen;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File in the host's directory that stores the selected fields.
const CONFIGURATION: &str = "esxtoprc";
/// Maximum size of that file, which holds one line.
const MAX_CONFIGURATION_BYTES: u64 = 4096;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct EsxtopArgs {
    /// Run in batch mode and print CSV
    #[arg(short, long)]
    batch: bool,
    /// Seconds between samples
    #[arg(short, long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    delay: f64,
    /// Number of samples in batch mode [default: until stdout is closed]
    #[arg(short = 'n', long, value_name = "NUMBER")]
    iterations: Option<u64>,
    /// Show all fields, ignoring the saved configuration
    #[arg(short, long)]
    all: bool,
    /// Configuration file to use instead of the host's own
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.1..=86_400.0).contains(&value) {
        Ok(value)
    } else {
        Err("delay is not between 0.1 and 86400 seconds".to_owned())
    }
}

/// Runs the verb.
pub(crate) async fn run(host: &HostArgs, args: &EsxtopArgs) -> Result<(), Failure> {
    let host = host.open()?;
    let selection = if args.all { Selection::all() } else { configuration(&host, args.config.as_deref())? };
    if args.batch {
        return capture(&host, &selection, args).await;
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "the screen of esxtop needs a terminal",
            "run `ibid-host esxtop -b -d 5 -n 50 > FILE.csv` to write a file",
        ));
    }
    watch(&host, Screen::new(selection, args.delay)).await
}

fn configuration_path(host: &EsxiHost) -> PathBuf {
    host.directory().unwrap_or(Path::new(".")).join(CONFIGURATION)
}

/// Returns the saved selection of fields, or the default.
fn configuration(host: &EsxiHost, path: Option<&Path>) -> Result<Selection, Failure> {
    let own = configuration_path(host);
    let given = path.unwrap_or(&own);
    let failed = |error| Failure::File { path: given.display().to_string(), error };
    match files::read_text(given, MAX_CONFIGURATION_BYTES).map_err(failed)? {
        Some(text) => Selection::from_notation(&text).ok_or_else(|| {
            Failure::usage(
                format!("{} is not an esxtop configuration", given.display()),
                "save one with the key W in esxtop",
            )
        }),
        None if path.is_none() => Ok(Selection::default()),
        None => Err(failed(std::io::ErrorKind::NotFound.into())),
    }
}

/// Runs batch mode. The first sample is printed after one interval, because rates need two samples.
async fn capture(host: &EsxiHost, selection: &Selection, args: &EsxtopArgs) -> Result<(), Failure> {
    let mut before = Sample::take(host)?;
    let mut names: Vec<String> = host.devices().into_iter().map(|device| device.name).collect();
    names.extend(before.devices().cloned());
    names.sort();
    names.dedup();
    let sessions = before.path_rows(&before, &host.devices(), &host.targets());
    let sessions = sessions.into_iter().map(|path| path.name).collect();
    let disks = before.virtual_disks().cloned().collect();
    let capture = Capture::new(host.name(), names, selection).with(disks, sessions);
    let mut alive = out!("{}", capture.header());
    let mut interval = tokio::time::interval(Duration::from_secs_f64(args.delay));
    interval.tick().await;
    let mut left = args.iterations.unwrap_or(u64::MAX);
    while alive && left > 0 {
        interval.tick().await;
        let now = Sample::take(host)?;
        let rows = CaptureRows {
            devices: now.rows(&before, &host.devices(), host.worlds()?),
            disks: now.disk_rows(&before),
            paths: now.path_rows(&before, &host.devices(), &host.targets()),
        };
        alive = out!("{}", capture.line(&perfmon_time(&timestamp(clock::unix_millis())), &rows));
        before = now;
        left -= 1;
    }
    Ok(())
}

/// Shows the screen until the user quits.
async fn watch(host: &EsxiHost, mut screen: Screen) -> Result<(), Failure> {
    let failed = |error| Failure::File { path: "the terminal".to_owned(), error };
    let mut terminal = terminal::Terminal::open().map_err(failed)?;
    let mut before = Sample::take(host)?;
    refresh(host, &mut screen, &mut before)?;
    loop {
        terminal.draw(&screen).map_err(failed)?;
        let pause = Duration::from_secs_f64(screen.delay);
        let key = tokio::time::timeout(pause, terminal.key()).await;
        let action = match key {
            Err(_) => screen::Action::Refresh,
            Ok(None) => screen::Action::Quit,
            Ok(Some(key)) => screen.press(key),
        };
        match action {
            screen::Action::Nothing => {}
            screen::Action::Refresh => refresh(host, &mut screen, &mut before)?,
            screen::Action::Save => {
                let path = configuration_path(host);
                let text = screen.selection.notation() + "\n";
                match files::replace(&path, text.as_bytes(), Access::Everyone) {
                    Ok(()) => screen.set_message(format!("saved in {}", path.display())),
                    Err(error) => screen.set_message(format!("{}: {error}", path.display())),
                }
            }
            screen::Action::Quit => return Ok(()),
        }
    }
}

fn refresh(host: &EsxiHost, screen: &mut Screen, before: &mut Sample) -> Result<(), Failure> {
    let now = Sample::take(host)?;
    let worlds = host.worlds()?;
    screen.rows = now.rows(before, &host.devices(), worlds);
    screen.paths = now.path_rows(before, &host.devices(), &host.targets());
    screen.worlds = now.world_rows(before);
    screen.disks = now.disk_rows(before);
    screen.banner = banner(worlds);
    *before = now;
    Ok(())
}

/// Returns the first line of the screen: time, uptime, processes that use the host, and load
/// average.
fn banner(worlds: u64) -> String {
    let proc =
        |name: &str| files::read_text(Path::new(name), MAX_CONFIGURATION_BYTES).ok().flatten().unwrap_or_default();
    let uptime = proc("/proc/uptime").split(['.', ' ']).next().and_then(|text| text.parse().ok()).unwrap_or(0u64);
    banner_of(&timestamp(clock::unix_millis()), uptime, worlds, &proc("/proc/loadavg"))
}

fn banner_of(time: &str, uptime: u64, worlds: u64, load: &str) -> String {
    let (_, time) = time.split_once('T').unwrap_or(("", time));
    let hour: u64 = time.get(..2).and_then(|hour| hour.parse().ok()).unwrap_or(0);
    let rest = time.get(2..8).unwrap_or("");
    let half = if hour < 12 { "am" } else { "pm" };
    let clock = format!("{}{rest}{half}", if hour.is_multiple_of(12) { 12 } else { hour % 12 });
    let (days, hours, minutes) = (uptime / 86_400, uptime / 3600 % 24, uptime / 60 % 60);
    let load: Vec<&str> = load.split(' ').take(3).collect();
    format!("{clock} up {days} days {hours:2}:{minutes:02}, {worlds} worlds; CPU load average: {}", load.join(", "))
}

#[cfg(test)]
mod tests;
