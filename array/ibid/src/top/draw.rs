//! The display of `ibid top`.

use super::choice::Screen;
use super::lines::{sums, table, vaai};
use super::reading::Reading;
use super::view::View;
use api::Performance;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use std::time::Instant;

/// The smallest display.
const MIN: (u16, u16) = (40, 10);
/// Without an answer for this long, the display says so.
const SLOW_SECS: u64 = 3;
/// Lines above the table: title, sums, VAAI commands, screens.
const TOP_LINES: u16 = 4;
/// Height of a curve with its title.
const CURVE_LINES: u16 = 5;

const HELP: [&str; 12] = [
    "1 to 6     screen: array, volumes, hosts, hosts on volumes, ports, VAAI",
    "Tab, ← →   next or previous screen",
    "s          order: commands, bytes, latency, name",
    "r          reverse the order",
    "↑ ↓ j k    scroll; also PgUp, PgDn, Home, End",
    "+ -        longer or shorter time between two readings",
    "p, space   pause",
    "q, Ctrl-C  quit",
    "",
    "Figures are means of the last two seconds; latencies are from the receipt",
    "of a command to its answer. Only active objects are listed. QOS is the part",
    "of a latency for which a limit held commands back.",
];

/// Styles; without colours only bold, reversed and dim text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) has_colours: bool,
}

impl Look {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }
}

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, look: Look, now: Instant) {
    let area = frame.area();
    if area.width < MIN.0 || area.height < MIN.1 {
        let text = format!(
            "ibid top needs {} × {} characters; this terminal has {} × {}.",
            MIN.0, MIN.1, area.width, area.height
        );
        frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), area);
        return;
    }
    let row = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    frame.render_widget(title(view, area.width as usize, look, now), row(0));
    if let Some(reading) = &view.reading {
        frame.render_widget(sums(&reading.array), row(1));
        frame.render_widget(
            Span::styled(vaai(&reading.offloads, usize::from(area.width)), look.coloured(Color::Yellow)),
            row(2),
        );
    }
    frame.render_widget(screens(view.screen), row(3));
    let body = Rect { y: area.y + TOP_LINES, height: area.height - TOP_LINES - 1, ..area };
    if view.is_help_open {
        frame.render_widget(Paragraph::new(HELP.map(Line::from).to_vec()), body);
    } else {
        draw_body(frame, view, body, look);
    }
    frame.render_widget(foot(view, look, now), row(area.height - 1));
}

fn title(view: &View, width: usize, look: Look, now: Instant) -> Line<'static> {
    let name = view.reading.as_ref().map_or_else(|| "ibid".to_owned(), |reading| reading.array.name.clone());
    let time = view.reading.as_ref().filter(|reading| reading.array.time > 0);
    let time = time.map_or_else(String::new, |reading| crate::output::time(reading.array.time));
    let waiting = view.asked.map_or(0, |asked| now.saturating_duration_since(asked).as_secs());
    let state = match (&view.failure, waiting) {
        (Some(_), _) => "no figures".to_owned(),
        (None, SLOW_SECS..) => format!("no answer for {waiting} s"),
        (None, _) if view.is_paused => "paused".to_owned(),
        (None, _) => format!("every {} s", view.interval),
    };
    let is_bad = view.failure.is_some() || waiting >= SLOW_SECS;
    let gap = width.saturating_sub(name.chars().count() + time.len() + state.len() + 3);
    let state_style = if is_bad { look.coloured(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() };
    Line::from(vec![
        Span::styled(name, Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(" ".repeat(gap + 1)),
        Span::styled(state, state_style),
        Span::raw(format!("  {time}")),
    ])
}

fn screens(chosen: Screen) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, screen) in Screen::ALL.into_iter().enumerate() {
        let style = if screen == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {} {} ", index + 1, screen.title()), style));
    }
    Line::from(spans)
}

fn draw_body(frame: &mut Frame<'_>, view: &mut View, body: Rect, look: Look) {
    view.height = usize::from(body.height.saturating_sub(1));
    let Some(reading) = &view.reading else {
        let text = view.failure.clone().unwrap_or_else(|| "Reading the array.".to_owned());
        frame.render_widget(Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), body);
        return;
    };
    let lines = table(reading, view.screen, usize::from(body.width));
    let mut text = vec![Line::styled(lines.head, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED))];
    match lines.rows.is_empty() && reading.screen == view.screen {
        true => text.push(Line::from(lines.none)),
        false => text.extend(lines.rows.into_iter().skip(view.offset).take(view.height).map(Line::from)),
    }
    let used = text.len() as u16;
    frame.render_widget(Paragraph::new(text), body);
    if view.screen == Screen::Array {
        let left = Rect { y: body.y + used + 1, height: body.height.saturating_sub(used + 1), ..body };
        draw_curves(frame, reading, left, look);
    }
}

/// A curve: title, value of a point, and text of the greatest value.
type Curve = (&'static str, fn(&Performance) -> u64, fn(u64) -> String);

/// Draws the last minutes of the array, as many curves as fit.
fn draw_curves(frame: &mut Frame<'_>, reading: &Reading, area: Rect, look: Look) {
    let curves: [Curve; 3] = [
        (
            "commands/s",
            |point| point.reads_per_sec + point.writes_per_sec + point.others_per_sec,
            |most| most.to_string(),
        ),
        ("bytes/s", |point| point.read_bytes_per_sec + point.write_bytes_per_sec, crate::admin::rate),
        ("latency", |point| point.usec_per_read_op.max(point.usec_per_write_op), |most| crate::admin::latency(0, most)),
    ];
    let fitting = usize::from(area.height / CURVE_LINES);
    for (index, (name, value, format)) in curves.into_iter().take(fitting).enumerate() {
        let y = area.y + index as u16 * CURVE_LINES;
        let from = reading.curve.len().saturating_sub(usize::from(area.width));
        let points: Vec<u64> = reading.curve.iter().skip(from).map(value).collect();
        let most = points.iter().copied().max().unwrap_or(0);
        let seconds = points.len() * 2;
        let title = format!("{name}, at most {} in {seconds} s", format(most));
        frame.render_widget(Span::raw(title), Rect { y, height: 1, ..area });
        let plot = Rect { y: y + 1, height: CURVE_LINES - 2, ..area };
        frame.render_widget(Sparkline::default().data(points).style(look.coloured(Color::Cyan)), plot);
    }
}

fn foot(view: &View, look: Look, now: Instant) -> Line<'static> {
    if let Some(failure) = view.failure.as_ref().filter(|_| view.reading.is_some()) {
        let age = view.answered.map_or(0, |answered| now.saturating_duration_since(answered).as_secs());
        return Line::styled(format!("{failure} ({age} s ago)"), look.coloured(Color::Red));
    }
    let (first, rows) = (view.offset, view.rows());
    let last = (first + view.height).min(rows);
    let place = if rows > view.height { format!("   rows {} to {last} of {rows}", first + 1) } else { String::new() };
    let order = if view.is_reversed { "reversed" } else { "" };
    let dim = Style::new().add_modifier(Modifier::DIM);
    Line::styled(format!("q quit  ? help  s order: {} {order}{place}", view.order.title()), dim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::clock;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, Look { has_colours: false }, clock::now())).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn view(screen: Screen, rows: usize) -> View {
        let row = |n: usize| Performance { name: format!("v{n:03}"), reads_per_sec: 1, ..Performance::default() };
        let array = Performance { name: "alpha".to_owned(), time: 1000, reads_per_sec: 7, ..Performance::default() };
        let curve = (0..100).map(|n| Performance { reads_per_sec: n, ..Performance::default() }).collect();
        let mut view = View { interval: 2, screen, ..View::default() };
        let rows = (0..rows).map(row).collect();
        view.take(Reading { screen, array, rows, curve, ..Reading::default() }, clock::now());
        view
    }

    #[test]
    fn eighty_by_24_shows_array_screens_rows_and_keys() {
        let mut view = view(Screen::Volumes, 40);
        let lines = shown(&mut view, 80, 24);
        assert!(
            lines[0].starts_with("alpha ") && lines[0].ends_with("every 2 s  1970-01-01T00:00:01Z"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("reads 7/s, 0/s,"), "{}", lines[1]);
        assert!(lines[2].starts_with("VAAI: ATS"), "{}", lines[2]);
        assert_eq!(lines[3], " 1 Array  2 Volumes  3 Hosts  4 Host/volume  5 Ports  6 VAAI");
        assert!(lines[4].starts_with("VOLUME") && lines[5].starts_with("v000") && lines[22].starts_with("v017"));
        assert_eq!(lines[23], "q quit  ? help  s order: commands    rows 1 to 18 of 40");
        assert_eq!(view.height, 18);
    }

    #[test]
    fn array_has_curves_as_far_as_they_fit() {
        let of =
            |lines: &[String]| lines.iter().filter(|line| line.contains(" in ") && line.contains("at most")).count();
        let mut view = view(Screen::Array, 0);
        let lines = shown(&mut view, 80, 24);
        assert!(lines.iter().any(|line| line == "commands/s, at most 99 in 160 s"), "{lines:#?}");
        assert_eq!((of(&lines), of(&shown(&mut view, 80, 40)), of(&shown(&mut view, 80, 12))), (2, 3, 0));
        assert!(lines.iter().any(|line| line.contains('█')));
    }

    #[test]
    fn every_size_is_drawn() {
        for screen in Screen::ALL {
            for (width, height) in [(1, 1), (39, 24), (40, 10), (80, 24), (300, 80)] {
                let mut view = view(screen, 3);
                let lines = shown(&mut view, width, height);
                let is_small = width < MIN.0 || height < MIN.1;
                assert_eq!(lines[0].starts_with("alpha"), !is_small, "{screen:?} {width} {height}: {}", lines[0]);
                view.is_help_open = true;
                shown(&mut view, width, height);
            }
        }
    }

    #[test]
    fn failures_and_empty_lists_are_said() {
        let mut view = view(Screen::Hosts, 0);
        assert_eq!(shown(&mut view, 80, 24)[5], "No host is active.");
        view.fail("the array does not answer".to_owned(), clock::now());
        let lines = shown(&mut view, 80, 24);
        assert!(lines[0].contains("no figures") && lines[23].starts_with("the array does not answer (0 s ago)"));
        let mut first = View { interval: 2, ..View::default() };
        assert_eq!(shown(&mut first, 80, 24)[4], "Reading the array.");
        first.fail("wrong token".to_owned(), clock::now());
        assert_eq!(shown(&mut first, 80, 24)[4], "wrong token");
    }
}
