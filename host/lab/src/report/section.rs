//! The section of one experiment: measurements next to published figures, the explanation, and all
//! numbers.

use super::verdict::{escape, verdict};
use crate::display;
use crate::published::{Published, Quote};
use crate::results::{Ending, ExperimentFindings, ExperimentOutcome, Figure, GoalVerdict, Plot, ReportNote, Shape};
use std::fmt::Write;

/// Returns the section of the experiment with index `at`.
pub(super) fn render(at: usize, outcome: &ExperimentOutcome) -> String {
    let (class, word) = verdict(outcome);
    let findings = &outcome.findings;
    let ending = match &outcome.ending {
        Ending::Done => String::new(),
        Ending::NotPossible(reason) => note("dull", "Not possible with this target", reason),
        Ending::Failed(reason) => note("bad", "Failed", reason),
    };
    format!(
        "<section class=\"experiment\" id=\"{id}\"><h2><span class=\"id\">{id}</span> {title} \
         <span class=\"chip {class}\">{word}</span></h2>\n<p class=\"question\">{question}</p>{ending}{notes}\n\
         <div class=\"pair\">{seen}\n\
         <aside class=\"published\"><h3>Published</h3>{published}</aside></div>\n{prose}{table}\n\
         <p class=\"load\">{load}</p></section>\n",
        id = escape(&outcome.id),
        title = escape(&outcome.title),
        question = escape(&outcome.question),
        notes = notes(&findings.notes),
        seen = seen(at, findings),
        published = published(at, &outcome.published),
        prose = prose(findings),
        table = table(outcome),
        load = load(outcome),
    )
}

/// Returns the measurements; empty if there are none.
fn seen(at: usize, findings: &ExperimentFindings) -> String {
    if findings.plots.is_empty() && findings.figures.is_empty() {
        return String::new();
    }
    let (plots, figures) = (plots(at, "findings", &findings.plots), figures(&findings.figures));
    let setup = escape(&findings.setup);
    format!("<div class=\"seen\"><h3>Measured <small>{setup}</small></h3>{plots}{figures}</div>")
}

fn note(class: &str, title: &str, text: &str) -> String {
    format!("<p class=\"note {class}\"><b>{title}.</b> {}</p>", escape(text))
}

fn notes(notes: &[ReportNote]) -> String {
    let shown = |n: &ReportNote| match n {
        ReportNote::Unsupported(text) => note("warn", "Not supported by this target", text),
        ReportNote::Extrapolated(text) => note("dull", "Extrapolated", text),
        ReportNote::LeftOut(text) => note("dull", "Left out", text),
        ReportNote::Short(text) => note("dull", "Samples of less than a second", text),
    };
    notes.iter().map(shown).collect()
}

/// Returns placeholders that the script draws plots into; `whose` names the list of plots in the
/// outcome.
fn plots(at: usize, whose: &str, plots: &[Plot]) -> String {
    let drawn = plots.iter().enumerate().filter(|(_, plot)| plot.is_drawn());
    let drawn: String = drawn
        .map(|(index, plot)| {
            // Plots with few bars are narrow, so that two fit next to each other.
            let bars: usize = plot.series.iter().map(|series| series.points.len()).sum();
            let class = if plot.shape == Shape::Bars && bars <= 5 { " class=\"half\"" } else { "" };
            format!(
                "<figure{class}><figcaption>{}</figcaption><div class=\"plot\" data-plot=\"{at}.{whose}.{index}\"></div></figure>",
                escape(&plot.title)
            )
        })
        .collect();
    format!("<div class=\"plots\">{drawn}</div>")
}

fn published(at: usize, published: &Published) -> String {
    let quote = |q: &Quote| {
        format!(
            "<blockquote>{}<cite>{}, <i>{}</i></cite></blockquote>",
            escape(q.text),
            escape(q.document.title()),
            escape(q.section)
        )
    };
    plots(at, "published", &published.plots) + &published.quotes.iter().map(quote).collect::<String>()
}

fn figures(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"figures\">");
    for figure in figures {
        let class = match figure.verdict {
            Some(GoalVerdict::Met) => "good",
            Some(GoalVerdict::Missed) => "bad",
            Some(GoalVerdict::CannotTell) | None => "plain",
        };
        let value = |value| display::estimate(value, figure.interval, figure.unit);
        let value = figure.measured.map_or_else(|| "–".to_owned(), value);
        let interval = display::interval(figure.interval, figure.unit);
        let published = figure.published.map(|value| format!("published {}", display::with_unit(value, figure.unit)));
        let goal = figure.goal.map(|goal| format!("goal {}", display::goal(goal, figure.unit)));
        let unknown = figure.verdict.filter(|v| *v == GoalVerdict::CannotTell).map(|v| v.words().to_owned());
        let beside = [interval, published, goal, unknown].into_iter().flatten().collect::<Vec<_>>().join(" · ");
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<div class=\"figure {class}\"><b>{value}</b><span>{}</span><small>{beside}</small></div>",
            escape(&figure.name)
        );
    }
    html + "</div>\n"
}

fn prose(findings: &ExperimentFindings) -> String {
    let paragraphs = |texts: &[String]| texts.iter().map(|text| format!("<p>{}</p>", escape(text))).collect::<String>();
    let part = |title: &str, body: String| {
        if body.is_empty() { body } else { format!("<div><h4>{title}</h4>{body}</div>") }
    };
    let expected =
        if findings.expected.is_empty() { String::new() } else { format!("<p>{}</p>", escape(&findings.expected)) };
    let parts = [
        part("Expected", expected),
        part("Result", paragraphs(&findings.seen)),
        part("Why it differs", paragraphs(&findings.why)),
    ];
    format!("<div class=\"prose\">{}</div>\n", parts.concat())
}

fn table(outcome: &ExperimentOutcome) -> String {
    let summaries = outcome.findings.samples.summaries();
    if summaries.is_empty() {
        return String::new();
    }
    let row = |s: &crate::results::Summary| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            escape(&s.case),
            escape(&s.setting),
            escape(&s.measure),
            display::with_unit(s.spread.median, s.unit),
            display::with_unit(s.spread.low, s.unit),
            display::with_unit(s.spread.high, s.unit),
            s.spread.count,
        )
    };
    format!(
        "<details><summary>All {} measures</summary><div class=\"wide\"><table class=\"numbers\"><thead><tr><th>case</th><th>setting</th>\
         <th>measure</th><th class=\"n\">median</th><th class=\"n\">minimum</th><th class=\"n\">maximum</th>\
         <th class=\"n\">runs</th></tr></thead><tbody>{}</tbody></table></div></details>",
        summaries.len(),
        summaries.iter().map(row).collect::<String>()
    )
}

fn load(outcome: &ExperimentOutcome) -> String {
    let load = outcome.load;
    format!(
        "Duration {}. Machine load: {} % busy, {} % by other programs{}, load average {} before and {} after.",
        display::seconds(outcome.secs),
        display::number(load.busy.round()),
        display::number(load.foreign.round()),
        if load.is_noisy() { " (too much to judge a goal)" } else { "" },
        display::number(load.before),
        display::number(load.after)
    )
}
