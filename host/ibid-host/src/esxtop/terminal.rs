//! The terminal: raw while the screen is up, as it was afterwards, whatever happens.

use super::screen::{Key, Screen};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io;
use tokio::sync::mpsc;

/// The terminal with a screen on it.
pub(super) struct Terminal {
    terminal: ratatui::DefaultTerminal,
    keys: mpsc::UnboundedReceiver<Key>,
}

impl Terminal {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        // Keys are read by a thread of their own, which ends with the process: a read cannot be called off.
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

    /// The next key; none when the terminal is gone.
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
