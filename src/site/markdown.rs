//! The only door to pulldown-cmark: a report's Markdown as HTML, with its charts inline.

use std::collections::BTreeMap;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use serde::Serialize;

use super::address;
use crate::report::chart::Chart;
use crate::report::escape;

/// A page's body and what leads into it.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    /// Title and the sentence on top: all before the first section.
    pub(super) head: String,
    /// The sections.
    pub(super) rest: String,
    pub(super) contents: Vec<Entry>,
}

/// A line of the table of contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    pub(super) level: &'static str,
    pub(super) id: String,
    pub(super) text: String,
}

/// Words that the HTML needs besides those of the Markdown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels<'a> {
    pub(super) permalink: &'a str,
    pub(super) table: &'a str,
    pub(super) code: &'a str,
    pub(super) chart: &'a str,
}

/// The dialect of our reports: tables, as GitHub has them.
fn options() -> Options {
    Options::ENABLE_TABLES
}

/// Plain text of one line of Markdown, for where there is no markup.
pub(super) fn plain(markdown: &str) -> String {
    Parser::new_ext(markdown, options()).map(|event| text_of(&event).to_owned()).collect()
}

/// What lies around a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Around<'a> {
    /// No file is beside the page.
    pub(super) is_alone: bool,
    /// An address that the page knows better: it, and what to lead to instead.
    pub(super) moved: Option<(&'a str, &'a str)>,
}

/// Renders a report. Raw HTML is dropped: templates have none, so whatever is there came from a user.
pub(super) fn render(markdown: &str, charts: &[Chart], labels: Labels<'_>, around: Around<'_>) -> Body {
    let numbers = charts.iter().map(|chart| (chart.csv_path(), chart)).collect();
    let charts = charts.iter().map(|chart| (chart.path.as_str(), chart)).collect();
    let safe = Parser::new_ext(markdown, options()).filter(|event| !is_html(event));
    let mut page = Page { charts, numbers, around, labels, ids: BTreeMap::new(), contents: Vec::new() };
    let events = page.rewrite(&safe.collect::<Vec<_>>());
    let first_section =
        events.iter().position(|event| matches!(event, Event::Start(Tag::Heading { level: HeadingLevel::H2, .. })));
    let (head, rest) = events.split_at(first_section.unwrap_or(events.len()));
    Body { head: to_html(head), rest: to_html(rest), contents: page.contents }
}

struct Page<'a> {
    charts: BTreeMap<&'a str, &'a Chart>,
    /// By the path of their numbers.
    numbers: BTreeMap<String, &'a Chart>,
    labels: Labels<'a>,
    around: Around<'a>,
    /// How often an id was given out, so that each stays unique.
    ids: BTreeMap<String, usize>,
    contents: Vec<Entry>,
}

impl Page<'_> {
    fn rewrite<'e>(&mut self, events: &[Event<'e>]) -> Vec<Event<'e>> {
        let mut rewritten = Vec::with_capacity(events.len());
        let mut events = events.iter();
        while let Some(event) = events.next() {
            match event {
                Event::Start(Tag::Image { dest_url, .. }) => {
                    // What lies between the tags is the alternative text; the SVG carries its own.
                    let _ = events.by_ref().find(|event| matches!(event, Event::End(TagEnd::Image)));
                    rewritten
                        .extend(self.charts.get(dest_url.as_ref()).map(|chart| inline_chart(chart, self.labels.chart)));
                }
                Event::Start(Tag::Link { dest_url, .. }) if let Some(chart) = self.numbers.get(dest_url.as_ref()) => {
                    rewritten.push(self.download(chart));
                }
                // Written by hand, because pulldown-cmark would encode letters that ids have as they are.
                Event::Start(Tag::Link { dest_url, .. }) if dest_url.starts_with('#') => {
                    let id = escape::markup(dest_url.trim_start_matches('#'));
                    rewritten.push(Event::InlineHtml(format!("<a href=\"#s-{id}\">").into()));
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let dest_url = self.destination(dest_url);
                    rewritten.push(Event::Start(Tag::Link {
                        link_type: *link_type,
                        dest_url,
                        title: title.clone(),
                        id: id.clone(),
                    }));
                }
                Event::Start(Tag::Heading { level, .. }) => {
                    let inner: Vec<Event<'e>> = events
                        .by_ref()
                        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))))
                        .cloned()
                        .collect();
                    rewritten.extend(self.heading(*level, inner));
                }
                Event::Start(Tag::Table(_)) => rewritten.extend([scrolling("table", self.labels.table), event.clone()]),
                Event::Start(Tag::CodeBlock(_)) => {
                    rewritten.extend([scrolling("code", self.labels.code), event.clone()])
                }
                Event::End(TagEnd::Table | TagEnd::CodeBlock) => {
                    rewritten.extend([event.clone(), Event::Html("</div>\n".into())]);
                }
                _ => rewritten.push(event.clone()),
            }
        }
        rewritten
    }

    /// Where a link leads in the page: to the chart itself, not its picture.
    fn destination<'e>(&self, address: &CowStr<'e>) -> CowStr<'e> {
        match (self.charts.get(address.as_ref()), self.around.moved) {
            (Some(chart), _) => format!("#{}", chart.id).into(),
            (None, Some((from, to))) if from == address.as_ref() => to.to_owned().into(),
            _ => address.clone(),
        }
    }

    /// The beginning of a link to the numbers of a chart; they are within it where nothing is beside the page.
    fn download<'e>(&self, chart: &Chart) -> Event<'e> {
        let href = if self.around.is_alone { address::data("text/csv", &chart.csv) } else { chart.csv_path() };
        Event::InlineHtml(format!("<a class=\"numbers\" href=\"{href}\" download=\"{}.csv\">", chart.id).into())
    }

    /// A heading with an id, a link to itself and, down to the third level, a line in the table of contents.
    fn heading<'e>(&mut self, level: HeadingLevel, inner: Vec<Event<'e>>) -> Vec<Event<'e>> {
        let text: String = inner.iter().map(text_of).collect();
        let id = self.unique(anchor(&text));
        let entry = match level {
            HeadingLevel::H2 => Some("h2"),
            HeadingLevel::H3 => Some("h3"),
            _ => None,
        };
        self.contents.extend(entry.map(|level| Entry { level, id: id.clone(), text }));
        let link = format!(
            "<a class=\"permalink\" href=\"#{id}\" aria-label=\"{}\">#</a>",
            escape::markup(self.labels.permalink)
        );
        let link = (level != HeadingLevel::H1).then(|| Event::InlineHtml(link.into()));
        let start =
            Event::Start(Tag::Heading { level, id: Some(CowStr::from(id)), classes: Vec::new(), attrs: Vec::new() });
        std::iter::once(start).chain(inner).chain(link).chain([Event::End(TagEnd::Heading(level))]).collect()
    }

    fn unique(&mut self, id: String) -> String {
        let seen = self.ids.entry(id.clone()).or_default();
        *seen += 1;
        if *seen == 1 { id } else { format!("{id}-{}", *seen - 1) }
    }
}

/// The chart as part of the page. A paragraph may hold it, which a `figure` may not be in.
fn inline_chart<'e>(chart: &Chart, label: &str) -> Event<'e> {
    let (id, label, svg) = (&chart.id, escape::markup(label), chart.inline());
    let span =
        format!("<span class=\"chart\" id=\"{id}\" role=\"group\" aria-label=\"{label}\" tabindex=\"0\">{svg}</span>");
    Event::InlineHtml(span.into())
}

/// Begins a box of which all can be reached with the keyboard too, where it is wider than the page.
fn scrolling<'e>(class: &str, label: &str) -> Event<'e> {
    let label = escape::markup(label);
    Event::Html(format!("<div class=\"{class}\" role=\"group\" aria-label=\"{label}\" tabindex=\"0\">\n").into())
}

/// The anchor that GitHub would give the heading, in our own name space: charts own the ids that begin with a case's
/// slug, which begins with a letter.
fn anchor(text: &str) -> String {
    format!("s-{}", escape::anchor(text))
}

fn text_of<'e>(event: &'e Event<'_>) -> &'e str {
    match event {
        Event::Text(text) | Event::Code(text) => text,
        Event::SoftBreak | Event::HardBreak => " ",
        _ => "",
    }
}

fn is_html(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock)
    )
}

fn to_html(events: &[Event<'_>]) -> String {
    let mut text = String::new();
    html::push_html(&mut text, events.iter().cloned());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'static> = Labels { permalink: "link", table: "table", code: "code", chart: "chart" };

    #[test]
    fn raw_html_is_dropped() {
        let body =
            render("# T\n\n<script>alert(1)</script>\n\na <img src=x onerror=y> b\n", &[], LABELS, Around::default());
        assert!(!body.head.contains("<script") && !body.head.contains("<img"), "{}", body.head);
    }

    #[test]
    fn headings_of_the_same_text_get_ids_that_differ() {
        let body = render("# T\n\n## 1. A\n\n## 1. A\n\n### 中文 b\n", &[], LABELS, Around::default());
        let ids: Vec<&str> = body.contents.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["s-1-a", "s-1-a-1", "s-中文-b"]);
    }

    #[test]
    fn tables_and_code_scroll_in_boxes_of_their_own() {
        let body = render("| a |\n| --- |\n| b |\n", &[], LABELS, Around::default());
        assert!(body.head.starts_with("<div class=\"table\""), "{}", body.head);
        let body = render("```sh\na\n```\n", &[], LABELS, Around::default());
        assert!(
            body.head.starts_with("<div class=\"code\"") && body.head.ends_with("</pre>\n</div>\n"),
            "{}",
            body.head
        );
    }

    #[test]
    fn a_link_that_the_page_knows_better_is_replaced() {
        let around = Around { moved: Some(("../x/", "data.html")), ..Around::default() };
        let body = render("[a](../x/) [b](y.csv)\n", &[], LABELS, around);
        assert_eq!(body.head, "<p><a href=\"data.html\">a</a> <a href=\"y.csv\">b</a></p>\n");
    }

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(plain(r"a\_b \<i\>"), "a_b <i>");
    }
}
