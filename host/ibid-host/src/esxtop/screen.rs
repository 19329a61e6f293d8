//! The screen of esxtop: its content, and the effect of its keys.

use super::fields::{FIELDS, Selection};
use super::sample::Row;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Minimum seconds between two samples.
const MIN_DELAY: f64 = 0.5;

/// The part of the screen that is shown and that keys act on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Table,
    Fields,
    Help,
    /// Prompt for a number, with the text typed so far.
    Delay(String),
    Rows(String),
}

/// Sort key of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Name,
    Reads,
    Writes,
    MbRead,
    MbWritten,
}

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Action of the main loop after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// Take a sample now.
    Refresh,
    /// Save the selection of fields.
    Save,
    Quit,
}

/// State of the screen.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    mode: Mode,
    order: Order,
    pub(crate) selection: Selection,
    /// Seconds between two samples.
    pub(crate) delay: f64,
    max_rows: Option<usize>,
    /// First line: time, uptime and load.
    pub(crate) banner: String,
    pub(crate) rows: Vec<Row>,
    message: String,
}

const SCREEN_KEYS: &[(&str, &str)] = &[
    ("u", "show the disk device screen"),
    ("f", "select the fields to show"),
    ("o p", "on the field screen: toggle VAAI counters, VAAI latencies"),
    ("s", "set the seconds between samples"),
    ("#", "set the number of devices shown"),
    ("r w", "sort by reads or writes per second"),
    ("R T", "sort by MB read or written per second"),
    ("N", "sort by name"),
    ("W", "save the selected fields, also for batch mode"),
    ("space, enter", "take a sample now"),
    ("h ?", "show this help"),
    ("q", "quit"),
];

impl Screen {
    pub(crate) fn new(selection: Selection, delay: f64) -> Self {
        Self {
            mode: Mode::Table,
            order: Order::Name,
            selection,
            delay,
            max_rows: None,
            banner: String::new(),
            rows: Vec::new(),
            message: String::new(),
        }
    }

    /// Sets the line below the banner, which is shown until the next key.
    pub(crate) fn set_message(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: Key) -> Action {
        self.message.clear();
        if key == Key::Interrupt {
            return Action::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Table => self.command(key),
            Mode::Help => Action::Nothing,
            Mode::Fields => {
                if let Key::Char(letter) = key
                    && self.selection.toggle(letter)
                {
                    self.mode = Mode::Fields;
                }
                Action::Nothing
            }
            Mode::Delay(typed) => match type_number(typed, key) {
                Typed::More(text) => self.set_mode(Mode::Delay(text)),
                Typed::Done(text) => {
                    match text.parse() {
                        Ok(delay) if (MIN_DELAY..=86_400.0).contains(&delay) => self.delay = delay,
                        _ => self.set_message(format!("use {MIN_DELAY} to 86400 seconds")),
                    }
                    Action::Nothing
                }
                Typed::Cancelled => Action::Nothing,
            },
            Mode::Rows(typed) => match type_number(typed, key) {
                Typed::More(text) => self.set_mode(Mode::Rows(text)),
                Typed::Done(text) => {
                    self.max_rows = text.parse().ok().filter(|rows| *rows > 0);
                    Action::Nothing
                }
                Typed::Cancelled => Action::Nothing,
            },
        }
    }

    fn set_mode(&mut self, mode: Mode) -> Action {
        self.mode = mode;
        Action::Nothing
    }

    fn command(&mut self, key: Key) -> Action {
        let order = match key {
            Key::Char('q') => return Action::Quit,
            Key::Char('f' | 'F') => return self.set_mode(Mode::Fields),
            Key::Char('h' | '?') => return self.set_mode(Mode::Help),
            Key::Char('s') => return self.set_mode(Mode::Delay(String::new())),
            Key::Char('#') => return self.set_mode(Mode::Rows(String::new())),
            Key::Char('W') => return Action::Save,
            Key::Char(' ' | 'u') | Key::Enter => return Action::Refresh,
            Key::Char('r') => Order::Reads,
            Key::Char('w') => Order::Writes,
            Key::Char('R') => Order::MbRead,
            Key::Char('T') => Order::MbWritten,
            Key::Char('N') => Order::Name,
            Key::Char('c' | 'm' | 'd' | 'v' | 'n' | 'i' | 'p') => {
                self.set_message("only the disk device screen (u) is available; h shows help");
                return Action::Nothing;
            }
            _ => return Action::Nothing,
        };
        self.order = order;
        Action::Nothing
    }

    /// Returns the rows in display order.
    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let by = |value: fn(&Row) -> u64| move |a: &&Row, b: &&Row| value(b).cmp(&value(a));
        match self.order {
            Order::Name => {}
            Order::Reads => rows.sort_by(by(|row| row.delta.reads)),
            Order::Writes => rows.sort_by(by(|row| row.delta.writes)),
            Order::MbRead => rows.sort_by(by(|row| row.delta.read_bytes)),
            Order::MbWritten => rows.sort_by(by(|row| row.delta.write_bytes)),
        }
        rows.truncate(self.max_rows.unwrap_or(usize::MAX));
        rows
    }

    /// Draws the screen.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let [top, body] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(frame.area());
        frame.render_widget(Paragraph::new(vec![Line::raw(self.banner.clone()), Line::raw(self.prompt())]), top);
        let lines = match self.mode {
            Mode::Fields => self.field_lines(),
            Mode::Help => help_lines(),
            Mode::Table | Mode::Delay(_) | Mode::Rows(_) => self.table_lines(),
        };
        frame.render_widget(Paragraph::new(lines), body);
    }

    fn prompt(&self) -> String {
        match &self.mode {
            Mode::Delay(typed) => format!("Change delay from {} second(s) to: {typed}", self.delay),
            Mode::Rows(typed) => format!("Number of devices shown (0 for all): {typed}"),
            _ => self.message.clone(),
        }
    }

    fn table_lines(&self) -> Vec<Line<'static>> {
        let join = |cells: Vec<String>| cells.join(" ");
        let heading = join(self.selection.columns().map(|column| column.heading()).collect());
        let mut lines = vec![Line::styled(heading, Style::new().add_modifier(Modifier::REVERSED))];
        lines.extend(self.sorted().into_iter().map(|row| {
            Line::raw(join(self.selection.columns().map(|column| column.cell(row)).collect()).trim_end().to_owned())
        }));
        lines
    }

    fn field_lines(&self) -> Vec<Line<'static>> {
        let mut lines = vec![Line::raw(format!("Current Field order: {}", self.selection.notation())), Line::raw("")];
        lines.extend(FIELDS.iter().enumerate().map(|(at, field)| {
            let star = if self.selection.shows(at) { '*' } else { ' ' };
            Line::raw(format!("{star} {}:  {}", field.key, field.description))
        }));
        lines.push(Line::raw(""));
        lines.push(Line::raw("Toggle fields with a-p, any other key to return:"));
        lines
    }
}

fn help_lines() -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw("esxtop of a simulated host: keys"), Line::raw("")];
    lines.extend(SCREEN_KEYS.iter().map(|(keys, what)| Line::raw(format!("  {keys:14} {what}"))));
    lines.push(Line::raw(""));
    lines.push(Line::raw("Hit any key to continue:"));
    lines
}

enum Typed {
    More(String),
    Done(String),
    Cancelled,
}

fn type_number(mut text: String, key: Key) -> Typed {
    match key {
        Key::Char(c) if (c.is_ascii_digit() || c == '.') && text.len() < 8 => text.push(c),
        Key::Backspace => drop(text.pop()),
        Key::Enter => return Typed::Done(text),
        Key::Escape => return Typed::Cancelled,
        _ => {}
    }
    Typed::More(text)
}

#[cfg(test)]
mod tests;
