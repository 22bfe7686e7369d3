//! The only door to minijinja. Templates are part of the program; a variable that is missing is an error, never a blank.

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

/// Name and source of every template. The suffix decides on escaping: HTML and XML are escaped, Markdown is not (see
/// [`escape`](super::escape)).
const TEMPLATES: [(&str, &str); 6] = [
    ("zh/report.md", include_str!("../../templates/zh/report.md")),
    ("en/report.md", include_str!("../../templates/en/report.md")),
    ("page.html", include_str!("../../templates/page.html")),
    ("index.html", include_str!("../../templates/index.html")),
    ("data.html", include_str!("../../templates/data.html")),
    ("feed.xml", include_str!("../../templates/feed.xml")),
];

/// Fills a template.
///
/// # Errors
/// Names the template, and the line of what is wrong with it.
pub(crate) fn render(name: &str, context: &impl Serialize) -> Result<String> {
    let environment = environment()?;
    let template = environment.get_template(name).with_context(|| format!("there is no template {name}"))?;
    template.render(Serde(context)).with_context(|| format!("cannot fill the template {name}"))
}

/// Fills a phrase of a catalogue of words; nothing is escaped.
///
/// # Errors
/// The phrase is no template, or wants a variable that `context` lacks.
pub(crate) fn fill(phrase: &str, context: &impl Serialize) -> Result<String> {
    phrases()?.render_str(phrase, Serde(context)).with_context(|| format!("cannot fill the phrase {phrase:?}"))
}

fn environment() -> Result<Environment<'static>> {
    let mut environment = phrases()?;
    for (name, source) in TEMPLATES {
        environment.add_template(name, source).with_context(|| format!("the template {name} is faulty"))?;
    }
    Ok(environment)
}

/// The rules that hold for phrases and templates alike.
fn phrases() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    environment
        .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::language::Language;
    use crate::report::words::Words;

    #[test]
    fn both_languages_use_the_same_variables() {
        let environment = environment().unwrap();
        let of = |name: &str| environment.get_template(name).unwrap().undeclared_variables(true);
        assert_eq!(of("zh/report.md"), of("en/report.md"));
    }

    #[test]
    fn both_catalogues_have_the_same_phrases_with_the_same_variables() {
        let environment = environment().unwrap();
        let of = |language| -> Vec<(String, Vec<String>)> {
            let words = Words::of(language).unwrap();
            let variables = |phrase: &str| {
                let template = environment.template_from_named_str("phrase", phrase).unwrap();
                let mut names: Vec<String> = template.undeclared_variables(true).into_iter().collect();
                names.sort();
                names
            };
            words.all().map(|(key, phrase)| (key.to_owned(), variables(phrase))).collect()
        };
        assert_eq!(of(Language::Chinese), of(Language::English));
    }

    #[test]
    fn a_missing_variable_is_an_error_that_names_the_phrase() {
        let error = fill("{{ nothing }}", &()).unwrap_err().to_string();
        assert!(error.contains("nothing"), "{error}");
    }
}
