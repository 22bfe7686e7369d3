//! Where in the report things stand, for links from other sections.

use anyhow::Result;

use crate::aggregate::summary::CaseSummary;
use crate::report::context::Context;
use crate::report::escape;

/// A numbered heading.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) number: String,
    /// The text after the number, not escaped.
    pub(super) title: String,
}

impl Place {
    /// A link of Markdown, named by the number.
    pub(super) fn link(&self) -> String {
        let heading = format!("{} {}", self.number, escape::line(&self.title).trim());
        format!("[{}](#{})", self.number, escape::anchor(&heading))
    }
}

/// The headings of all cases: first those on a GPU, then those on the CPU, as their sections have them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    cases: Vec<(String, Place)>,
    /// In the order of the sweeps.
    pub(super) sweeps: Vec<Place>,
}

impl Places {
    pub(super) fn of(context: &Context<'_>, gpu: usize, cpu: usize, sweeps: Vec<Place>) -> Result<Self> {
        let (on_gpu, on_cpu): (Vec<_>, Vec<_>) = context.summary.cases.iter().partition(|case| case.uses_gpu());
        let mut cases = Vec::new();
        for (section, of_section) in [(gpu, on_gpu), (cpu, on_cpu)] {
            for (case, index) in of_section.into_iter().zip(1..) {
                let place = Place { number: format!("{section}.{index}"), title: context.case_title(case)? };
                cases.push((case.slug.clone(), place));
            }
        }
        Ok(Self { cases, sweeps })
    }

    /// A link to the section of a case; empty where it has none.
    pub(super) fn case(&self, case: &CaseSummary) -> String {
        self.cases.iter().find(|(slug, _)| *slug == case.slug).map(|(_, place)| place.link()).unwrap_or_default()
    }
}
