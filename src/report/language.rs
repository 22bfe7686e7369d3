//! The languages that reports are written in.

/// A language of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    Chinese,
    English,
}

impl Language {
    pub const ALL: [Self; 2] = [Self::Chinese, Self::English];

    /// Name of its folder below `templates/` and of its files in the site.
    pub fn key(self) -> &'static str {
        match self {
            Self::Chinese => "zh",
            Self::English => "en",
        }
    }

    /// The language of a locale: `zh_CN.UTF-8`, `C.UTF-8`.
    pub fn of_locale(locale: &str) -> Self {
        if locale.starts_with("zh") { Self::Chinese } else { Self::English }
    }

    /// The tag that HTML wants (BCP 47).
    pub fn tag(self) -> &'static str {
        match self {
            Self::Chinese => "zh-CN",
            Self::English => "en",
        }
    }
}
