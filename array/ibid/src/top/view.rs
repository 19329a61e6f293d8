//! The state of the display of `ibid top`, and its keys.

use super::choice::{Order, Screen};
use super::reading::{Offload, Reading};
use api::Performance;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// Choices for the time between two readings, in seconds. The array counts every two.
const INTERVALS: [u64; 6] = [2, 4, 10, 20, 30, 60];

/// Puts the rows of a reading in order.
pub(super) fn sort(reading: &mut Reading, order: Order, is_reversed: bool) {
    reading.rows.sort_by(|a, b| rows(order, a, b));
    reading.offloads.sort_by(|a, b| offloads(order, a, b));
    if is_reversed {
        reading.rows.reverse();
        reading.offloads.reverse();
    }
}

fn rows(order: Order, a: &Performance, b: &Performance) -> Ordering {
    let commands = |row: &Performance| row.reads_per_sec + row.writes_per_sec + row.others_per_sec;
    let bytes = |row: &Performance| row.read_bytes_per_sec + row.write_bytes_per_sec;
    let latency = |row: &Performance| row.usec_per_read_op.max(row.usec_per_write_op);
    let compared = match order {
        Order::Commands => commands(b).cmp(&commands(a)),
        Order::Bytes => bytes(b).cmp(&bytes(a)),
        Order::Latency => latency(b).cmp(&latency(a)),
        Order::Name => Ordering::Equal,
    };
    compared.then_with(|| a.name.cmp(&b.name))
}

fn offloads(order: Order, a: &Offload, b: &Offload) -> Ordering {
    let rate = |row: &Offload| row.rate.unwrap_or_default();
    let compared = match order {
        Order::Commands => rate(b).0.total_cmp(&rate(a).0).then_with(|| b.total.commands.cmp(&a.total.commands)),
        Order::Bytes => rate(b).1.total_cmp(&rate(a).1).then_with(|| b.total.bytes.cmp(&a.total.bytes)),
        Order::Latency => b.total.usec_per_op.cmp(&a.total.usec_per_op),
        Order::Name => Ordering::Equal,
    };
    let name = |row: &Offload| (row.total.name.clone(), row.total.initiator.clone(), row.total.primitive.clone());
    compared.then_with(|| name(a).cmp(&name(b)))
}

/// The state of the display.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) screen: Screen,
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    pub(super) is_paused: bool,
    pub(super) is_help_open: bool,
    /// Rows above the first one shown.
    pub(super) offset: usize,
    /// Rows that fit, set by the display.
    pub(super) height: usize,
    /// Seconds between two readings.
    pub(super) interval: u64,
    pub(super) reading: Option<Reading>,
    /// Why the last reading failed.
    pub(super) failure: Option<String>,
    /// Start of the reading that has no answer yet.
    pub(super) asked: Option<Instant>,
    /// End of the last reading.
    pub(super) answered: Option<Instant>,
    pub(super) is_over: bool,
}

impl View {
    /// Acts on a key.
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= matches!(key.code, KeyCode::Char('c' | 'd'));
            return;
        }
        match key.code {
            KeyCode::Esc if self.is_help_open => self.is_help_open = false,
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Char('?' | 'h') => self.is_help_open = !self.is_help_open,
            KeyCode::Char(digit @ '1'..='6') => {
                let at = digit.to_digit(10).unwrap_or(1) as usize - 1;
                self.show(Screen::ALL[at]);
            }
            KeyCode::Tab | KeyCode::Right => self.show(self.screen.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.screen.step(Screen::ALL.len() - 1)),
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.sort();
            }
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.sort();
            }
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+') => self.interval = next_interval(self.interval, true),
            KeyCode::Char('-') => self.interval = next_interval(self.interval, false),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::PageDown => self.scroll(self.height as isize),
            KeyCode::PageUp => self.scroll(-(self.height as isize)),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.scroll(isize::MAX / 2),
            _ => {}
        }
    }

    fn show(&mut self, screen: Screen) {
        if screen != self.screen {
            (self.screen, self.offset, self.answered) = (screen, 0, None);
            // Rows of another screen would be misleading; the figures of the array stay.
            if let Some(reading) = &mut self.reading {
                (reading.rows, reading.curve) = (Vec::new(), Vec::new());
            }
        }
        self.is_help_open = false;
    }

    fn sort(&mut self) {
        if let Some(reading) = &mut self.reading {
            sort(reading, self.order, self.is_reversed);
        }
        self.offset = 0;
    }

    /// Moves the rows, but never beyond the last page.
    fn scroll(&mut self, by: isize) {
        self.offset = self.offset.saturating_add_signed(by).min(self.rows().saturating_sub(self.height));
    }

    /// Number of rows of the screen.
    pub(super) fn rows(&self) -> usize {
        let Some(reading) = &self.reading else { return 0 };
        match self.screen {
            Screen::Array => 0,
            Screen::Vaai => reading.offloads.len(),
            _ => reading.rows.len(),
        }
    }

    /// Takes a reading, unless it is of a screen that was left.
    pub(super) fn take(&mut self, mut reading: Reading, now: Instant) {
        self.asked = None;
        if reading.screen != self.screen {
            return;
        }
        sort(&mut reading, self.order, self.is_reversed);
        (self.reading, self.failure, self.answered) = (Some(reading), None, Some(now));
        self.scroll(0);
    }

    /// Notes that a reading failed. The last figures stay.
    pub(super) fn fail(&mut self, failure: String, now: Instant) {
        (self.asked, self.failure, self.answered) = (None, Some(failure), Some(now));
    }

    /// Returns whether a reading is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let pause = Duration::from_secs(self.interval);
        let is_old = self.answered.is_none_or(|answered| now.saturating_duration_since(answered) >= pause);
        // A screen that was just chosen is read once, also while the display is paused.
        self.asked.is_none() && is_old && (!self.is_paused || self.answered.is_none())
    }
}

fn next_interval(now: u64, is_longer: bool) -> u64 {
    let mut choices = INTERVALS.into_iter();
    let found = if is_longer { choices.find(|next| *next > now) } else { choices.rfind(|next| *next < now) };
    found.unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::clock;

    fn row(name: &str, reads: u64, bytes: u64, usec: u64) -> Performance {
        let name = name.to_owned();
        Performance {
            name,
            reads_per_sec: reads,
            read_bytes_per_sec: bytes,
            usec_per_write_op: usec,
            ..Performance::default()
        }
    }

    fn view() -> View {
        let rows = vec![row("a", 1, 30, 200), row("b", 3, 10, 100), row("c", 2, 20, 300)];
        let mut view = View { interval: 2, height: 2, ..View::default() };
        view.take(Reading { screen: Screen::Volumes, rows, ..Reading::default() }, clock::now());
        view
    }

    fn names(view: &View) -> String {
        view.reading.as_ref().unwrap().rows.iter().map(|row| row.name.as_str()).collect()
    }

    fn press(view: &mut View, code: KeyCode) {
        view.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn s_changes_the_order_and_r_reverses_it() {
        let mut view = view();
        let mut orders = vec![names(&view)];
        for _ in 0..4 {
            press(&mut view, KeyCode::Char('s'));
            orders.push(names(&view));
        }
        assert_eq!(orders, ["bca", "acb", "cab", "abc", "bca"]);
        press(&mut view, KeyCode::Char('r'));
        assert_eq!(names(&view), "acb");
    }

    #[test]
    fn rows_scroll_to_the_last_page() {
        let mut view = view();
        press(&mut view, KeyCode::PageDown);
        assert_eq!(view.offset, 1);
        press(&mut view, KeyCode::Up);
        press(&mut view, KeyCode::Up);
        assert_eq!(view.offset, 0);
        press(&mut view, KeyCode::End);
        assert_eq!(view.offset, 1);
        let shorter = Reading { screen: Screen::Volumes, ..Reading::default() };
        view.take(shorter, clock::now());
        assert_eq!(view.offset, 0);
    }

    #[test]
    fn screens_are_reached_by_digits_and_tab() {
        let mut view = view();
        press(&mut view, KeyCode::Char('6'));
        assert_eq!(view.screen, Screen::Vaai);
        press(&mut view, KeyCode::Tab);
        assert_eq!(view.screen, Screen::Array);
        press(&mut view, KeyCode::BackTab);
        assert_eq!(view.screen, Screen::Vaai);
        assert!(view.is_due(clock::now()) && names(&view).is_empty());
        // The answer to an earlier request is not shown.
        let late = Reading { screen: Screen::Volumes, rows: vec![row("a", 1, 1, 1)], ..Reading::default() };
        view.take(late, clock::now());
        assert!(names(&view).is_empty() && view.is_due(clock::now()));
    }

    #[test]
    fn readings_follow_the_interval_and_stop_in_a_pause() {
        let mut view = view();
        let taken = view.answered.unwrap();
        assert!(!view.is_due(taken) && view.is_due(taken + Duration::from_secs(2)));
        press(&mut view, KeyCode::Char('+'));
        assert!(!view.is_due(taken + Duration::from_secs(2)) && view.is_due(taken + Duration::from_secs(4)));
        press(&mut view, KeyCode::Char(' '));
        assert!(!view.is_due(taken + Duration::from_secs(99)));
        press(&mut view, KeyCode::Char('1'));
        assert!(view.is_due(taken));
        (0..9).for_each(|_| press(&mut view, KeyCode::Char('-')));
        assert_eq!(view.interval, 2);
        view.fail("no answer".to_owned(), taken);
        assert!(view.reading.is_some() && view.failure.is_some());
    }

    #[test]
    fn display_ends_by_q_escape_and_control_c() {
        for key in [
            KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE),
            KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            let mut view = view();
            view.press(key);
            assert!(view.is_over, "{key:?}");
        }
        let mut view = view();
        press(&mut view, KeyCode::Char('?'));
        press(&mut view, KeyCode::Esc);
        assert!(!view.is_over && !view.is_help_open);
    }
}
