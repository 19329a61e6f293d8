//! The terminal: raw while the screen is shown, and restored on drop.

use super::screen::{Key, Screen};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io;
use tokio::sync::mpsc;

/// A terminal in raw mode, and the keys typed on it.
pub(super) struct Terminal {
    terminal: ratatui::DefaultTerminal,
    keys: mpsc::UnboundedReceiver<Key>,
}

impl Terminal {
    /// Switches the terminal to raw mode.
    pub(super) fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        // A blocking read cannot be cancelled, so a separate thread reads the keys and ends with
        // the process.
        let (sender, keys) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if let Some(key) = key_of(&event)
                    && sender.send(key).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { terminal, keys })
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        self.terminal.draw(|frame| screen.draw(frame)).map(drop)
    }

    /// Waits for the next key; returns `None` if the terminal is gone.
    pub(super) async fn key(&mut self) -> Option<Key> {
        self.keys.recv().await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn key_of(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    if key.kind != KeyEventKind::Press {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Interrupt),
        KeyCode::Char(letter) => Some(Key::Char(letter)),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        _ => None,
    }
}
