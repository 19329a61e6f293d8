//! The screen of esxtop: its content, and the effect of its keys.

use super::fields::{FIELDS, Selection};
use super::panel::{self, PANELS, Panel};
use super::sample::{PathRow, Row};
use super::world::WorldRow;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// Minimum seconds between two samples.
const MIN_DELAY: f64 = 0.5;
/// Most characters of a typed number, and of any typed text.
const MAX_NUMBER: usize = 8;
const MAX_TYPED: usize = 64;

/// The part of the screen that is shown and that keys act on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Table,
    Fields,
    Help,
    /// Prompt for a number, with the text typed so far.
    Delay(String),
    Rows(String),
    /// Prompt for the device whose paths are shown.
    Expand(String),
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
    panel: Panel,
    order: Order,
    /// Devices whose paths are shown.
    expanded: Vec<String>,
    pub(crate) selection: Selection,
    /// Seconds between two samples.
    pub(crate) delay: f64,
    max_rows: Option<usize>,
    /// First line: time, uptime and load.
    pub(crate) banner: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) paths: Vec<PathRow>,
    pub(crate) worlds: Vec<WorldRow>,
    pub(crate) disks: Vec<Row>,
    message: String,
}

const SCREEN_KEYS: &[(&str, &str)] = &[
    ("u d", "show the disk devices, or the adapters"),
    ("c m", "show CPU or memory of the processes that use the host"),
    ("v n i", "show the virtual disks, the iSCSI sessions, or interrupts"),
    ("P", "show or hide the paths of a disk device"),
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
            panel: Panel::Devices,
            expanded: Vec::new(),
            order: Order::Name,
            selection,
            delay,
            max_rows: None,
            banner: String::new(),
            rows: Vec::new(),
            paths: Vec::new(),
            worlds: Vec::new(),
            disks: Vec::new(),
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
            Mode::Expand(typed) => match type_text(typed, key, |c| c.is_ascii_graphic()) {
                Typed::More(text) => self.set_mode(Mode::Expand(text)),
                Typed::Done(text) => {
                    self.expand(&text);
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

    /// Shows or hides the paths of the devices whose name contains `text`.
    fn expand(&mut self, text: &str) {
        let names: Vec<String> = self.rows.iter().map(|row| row.device.clone()).collect();
        let chosen: Vec<String> = names.into_iter().filter(|name| !text.is_empty() && name.contains(text)).collect();
        if chosen.is_empty() {
            self.set_message(format!("there is no device '{text}'"));
        }
        for name in chosen {
            match self.expanded.iter().position(|device| *device == name) {
                Some(at) => drop(self.expanded.remove(at)),
                None => self.expanded.push(name),
            }
        }
    }

    fn command(&mut self, key: Key) -> Action {
        if let Key::Char(letter) = key
            && let Some((_, panel)) = PANELS.iter().find(|(key, _)| *key == letter)
        {
            self.panel = *panel;
            return Action::Refresh;
        }
        let order = match key {
            Key::Char('q') => return Action::Quit,
            Key::Char('f' | 'F') => return self.set_mode(Mode::Fields),
            Key::Char('h' | '?') => return self.set_mode(Mode::Help),
            Key::Char('s') => return self.set_mode(Mode::Delay(String::new())),
            Key::Char('#') => return self.set_mode(Mode::Rows(String::new())),
            Key::Char('W') => return Action::Save,
            Key::Char('P') if self.panel == Panel::Devices => return self.set_mode(Mode::Expand(String::new())),
            Key::Char(' ') | Key::Enter => return Action::Refresh,
            Key::Char('r') => Order::Reads,
            Key::Char('w') => Order::Writes,
            Key::Char('R') => Order::MbRead,
            Key::Char('T') => Order::MbWritten,
            Key::Char('N') => Order::Name,
            Key::Char('p') => {
                self.set_message("a simulated host has no power states; the screens are u d c m v n i");
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
            Mode::Table | Mode::Delay(_) | Mode::Rows(_) | Mode::Expand(_) => self.panel_lines(),
        };
        frame.render_widget(Paragraph::new(lines), body);
    }

    fn prompt(&self) -> String {
        match &self.mode {
            Mode::Delay(typed) => format!("Change delay from {} second(s) to: {typed}", self.delay),
            Mode::Rows(typed) => format!("Number of devices shown (0 for all): {typed}"),
            Mode::Expand(typed) => format!("Device to expand or roll up (a part of its name): {typed}"),
            _ => self.message.clone(),
        }
    }

    fn panel_lines(&self) -> Vec<Line<'static>> {
        let lines = match self.panel {
            Panel::Devices => return self.table_lines(),
            Panel::Adapters => panel::adapters(&self.paths),
            Panel::Cpu => panel::cpu(&self.worlds),
            Panel::Memory => panel::memory(&self.worlds),
            Panel::VirtualDisks => panel::virtual_disks(&self.disks),
            Panel::Network => panel::network(&self.paths),
            Panel::Interrupts => panel::interrupts(),
        };
        let mut lines = lines.into_iter();
        let heading = lines.next().map(heading);
        heading.into_iter().chain(lines.map(Line::raw)).collect()
    }

    fn table_lines(&self) -> Vec<Line<'static>> {
        let join = |cells: Vec<String>| cells.join(" ");
        let mut lines = vec![heading(join(self.selection.columns().map(|column| column.heading()).collect()))];
        for row in self.sorted() {
            let cells = self.selection.columns().map(|column| column.cell(row)).collect();
            lines.push(Line::raw(join(cells).trim_end().to_owned()));
            if self.expanded.contains(&row.device) {
                lines.extend(panel::paths_of(&row.device, &self.paths).into_iter().map(Line::raw));
            }
        }
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

fn heading(text: String) -> Line<'static> {
    Line::styled(text, Style::new().add_modifier(Modifier::REVERSED))
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

fn type_number(text: String, key: Key) -> Typed {
    if text.len() < MAX_NUMBER {
        type_text(text, key, |c| c.is_ascii_digit() || c == '.')
    } else {
        type_text(text, key, |_| false)
    }
}

/// Adds a key to a text of at most [`MAX_TYPED`] characters that `is_allowed` admits.
fn type_text(mut text: String, key: Key, is_allowed: fn(char) -> bool) -> Typed {
    match key {
        Key::Char(c) if is_allowed(c) && text.len() < MAX_TYPED => text.push(c),
        Key::Backspace => drop(text.pop()),
        Key::Enter => return Typed::Done(text),
        Key::Escape => return Typed::Cancelled,
        _ => {}
    }
    Typed::More(text)
}

#[cfg(test)]
mod tests;
