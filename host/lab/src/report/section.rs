//! The section of one experiment: measurements next to published figures, the explanation, and all
//! numbers.

use super::verdict::{escape, verdict};
use crate::display;
use crate::published::{Published, Quote};
use crate::results::{
    Ending, ExperimentFindings, ExperimentOutcome, Figure, GoalVerdict, Plot, Prediction, ReportNote, Shape, Timeline,
    TimelineRow,
};
use crate::stats::{Interval, Spread};
use std::fmt::Write;

/// Returns the section of the experiment with index `at`.
pub(super) fn render(at: usize, outcome: &ExperimentOutcome) -> String {
    let (class, word) = verdict(outcome);
    let findings = &outcome.findings;
    // Experiments without a published part have the whole width.
    let is_published = !outcome.published.quotes.is_empty() || !outcome.published.plots.is_empty();
    let aside = match is_published {
        true => format!("<aside class=\"published\"><h3>Published</h3>{}</aside>", published(at, &outcome.published)),
        false => String::new(),
    };
    let ending = match &outcome.ending {
        Ending::Done => String::new(),
        Ending::NotPossible(reason) => note("dull", "Not possible with this target", reason),
        Ending::Failed(reason) => note("bad", "Failed", reason),
    };
    format!(
        "<section class=\"experiment\" id=\"{id}\"><h2><span class=\"id\">{id}</span> {title} \
         <span class=\"chip {class}\">{word}</span></h2>\n<p class=\"question\">{question}</p>{ending}{notes}\n\
         <div class=\"pair{single}\">{seen}\n\
         {aside}</div>\n{prose}{predictions}{timelines}{table}\n\
         <p class=\"load\">{load}</p></section>\n",
        id = escape(&outcome.id),
        title = escape(&outcome.title),
        question = escape(&outcome.question),
        notes = notes(&findings.notes),
        seen = seen(at, findings),
        single = if is_published { "" } else { " single" },
        prose = prose(findings),
        predictions = predictions(&findings.predictions),
        timelines = findings.timelines.iter().map(timeline).collect::<String>(),
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

/// Shows the durations that L0 predicts beside the measured ones.
fn predictions(predictions: &[Prediction]) -> String {
    if predictions.is_empty() {
        return String::new();
    }
    let row = |p: &Prediction| {
        format!(
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&p.case),
            escape(&p.setting),
            display::seconds(p.predicted()),
            display::seconds(p.seen),
            display::seconds(p.commands),
            display::seconds(p.metadata),
        )
    };
    format!(
        "<details open><summary>Predicted from the rates of L0, and seen</summary><div class=\"wide\"><table class=\"numbers\"><thead><tr>\
         <th>case</th><th>setting</th><th class=\"n\">predicted</th><th class=\"n\">seen</th><th class=\"n\">of it offloads and \
         transfers</th><th class=\"n\">metadata</th></tr></thead><tbody>{}</tbody></table></div><p class=\"load\">Offloads and transfers at the \
         rate that L0 saw for that command, metadata commands one after another. A difference is work of the host, or commands that \
         overlap or wait for each other.</p></details>",
        predictions.iter().map(row).collect::<String>()
    )
}

/// Shows the commands of one operation in time.
fn timeline(timeline: &Timeline) -> String {
    let row = |(at, row): (usize, &TimelineRow)| {
        let gap = match timeline.left_out > 0 && at == timeline.left_out_after {
            true => format!("<tr><td colspan=\"5\">… {} more rows</td></tr>", timeline.left_out),
            false => String::new(),
        };
        format!(
            "{gap}<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{} × {}, {}</td><td>{}</td></tr>",
            display::seconds(row.at),
            display::seconds(row.until - row.at),
            escape(&row.disk),
            row.commands,
            escape(&row.command),
            display::bytes(row.bytes),
            escape(&row.meaning),
        )
    };
    format!(
        "<details open><summary>{}: its commands in time</summary><div class=\"wide\"><table class=\"numbers timeline\"><thead><tr>\
         <th class=\"n\">start</th><th class=\"n\">duration</th><th>disk</th><th>commands</th><th>meaning</th></tr></thead><tbody>{}\
         </tbody></table></div></details>",
        escape(&timeline.title),
        timeline.rows.iter().enumerate().map(row).collect::<String>()
    )
}

fn table(outcome: &ExperimentOutcome) -> String {
    let summaries = outcome.findings.samples.summaries();
    if summaries.is_empty() {
        return String::new();
    }
    let row = |s: &crate::results::Summary| {
        // As many digits as the range carries.
        let Spread { low, high, .. } = s.spread;
        let rounded = |value| display::estimate(value, Some(Interval { low, high }), s.unit);
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            escape(&s.case),
            escape(&s.setting),
            escape(&s.measure),
            rounded(s.spread.median),
            rounded(s.spread.low),
            rounded(s.spread.high),
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
    // A capture was made elsewhere.
    if outcome.secs == 0.0 {
        return String::new();
    }
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
