//! `ibid top`: a live display of the array in a terminal. It uses only the REST API.

mod choice;
mod draw;
mod lines;
mod reading;
mod view;

pub(crate) use choice::{Order, Screen};

use crate::access::{Access, client};
use crate::cli::TopOptions;
use crate::output::print;
use crate::problem::Problem;
use draw::{Look, draw};
use platform::clock;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use reading::{Reader, serve};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use view::{View, sort};

/// Maximum time until an answer of the array is shown.
const TICK: Duration = Duration::from_millis(100);
/// Maximum time for the end of the session.
const LOGOUT: Duration = Duration::from_secs(1);
/// Width of the tables if the output is not a terminal.
const PIPE_WIDTH: usize = 140;

/// Runs the display, or prints one reading.
pub(crate) fn top(access: &Access, args: &TopOptions) -> Result<(), Problem> {
    let reader = Reader::new(client(access)?);
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return once(reader, args);
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    watch_signals(is_stopped.clone())?;
    let view = View { screen: args.screen, order: args.sort, interval: args.interval, ..View::default() };
    let look = Look { has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let (requests, asked) = mpsc::channel();
    let (answers, readings) = mpsc::channel();
    thread::spawn(move || serve(reader, &asked, &answers));
    // Restores the terminal when a thread panics, too.
    let mut terminal = ratatui::try_init()?;
    let shown = Display { view, look, requests, readings: &readings, is_stopped }.run(&mut terminal);
    ratatui::try_restore()?;
    // The reading thread ends the session. An array that does not answer delays the end briefly.
    while !matches!(readings.recv_timeout(LOGOUT), Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) {}
    shown
}

/// Prints one reading as text.
fn once(mut reader: Reader, args: &TopOptions) -> Result<(), Problem> {
    let mut reading = reader.read(args.screen)?;
    sort(&mut reading, args.sort, false);
    let table = lines::table(&reading, args.screen, PIPE_WIDTH);
    let time = crate::output::time(reading.array.time);
    let mut text = format!("{}, {time}\n{}\n", reading.array.name, lines::sums(&reading.array));
    text += &format!("{}\n\n{}\n", lines::vaai(&reading.offloads, PIPE_WIDTH), table.head);
    if table.rows.is_empty() {
        text += &format!("{}\n", table.none);
    }
    table.rows.iter().for_each(|row| text += &format!("{row}\n"));
    print(&text)
}

/// Notes the signals that would end the program without restoring the terminal.
fn watch_signals(is_stopped: Arc<AtomicBool>) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _context = runtime.enter();
        [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?]
    };
    thread::spawn(move || {
        let [terminate, interrupt, hangup] = &mut signals;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        is_stopped.store(true, Ordering::Relaxed);
    });
    Ok(())
}

struct Display<'a> {
    view: View,
    look: Look,
    requests: Sender<Screen>,
    readings: &'a Receiver<Result<reading::Reading, client::ClientError>>,
    is_stopped: Arc<AtomicBool>,
}

impl Display<'_> {
    /// Shows readings until a key or a signal ends the display.
    fn run(mut self, terminal: &mut DefaultTerminal) -> Result<(), Problem> {
        while !self.view.is_over && !self.is_stopped.load(Ordering::Relaxed) {
            self.exchange();
            terminal.draw(|frame| draw(frame, &mut self.view, self.look, clock::now()))?;
            if event::poll(TICK)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                self.view.press(key);
            }
        }
        Ok(())
    }

    /// Takes an answer that has arrived, and asks for the next reading if it is due.
    fn exchange(&mut self) {
        let now = clock::now();
        match self.readings.try_recv() {
            Ok(Ok(reading)) => self.view.take(reading, now),
            Ok(Err(error)) => self.view.fail(error.to_string(), now),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.view.fail("the reading thread has ended".to_owned(), now),
        }
        if self.view.is_due(now) && self.requests.send(self.view.screen).is_ok() {
            self.view.asked = Some(now);
        }
    }
}
