use super::*;
use crate::record::checks::fixture::{CASES, with_gpu, without_gpu};
use crate::record::checks::judge;

fn checks(name: &str, outcome: &str) -> Check {
    let (machine, change, ..) = CASES.iter().find(|case| (case.2, case.3) == (name, outcome)).unwrap();
    let mut facts = machine();
    change(&mut facts);
    judge(&facts).into_iter().find(|check| check.name == name).unwrap()
}

#[test]
fn every_outcome_has_words_in_both_languages_and_a_remedy_where_one_is_needed() {
    for language in Language::ALL {
        let words = Words::of(language).unwrap();
        for (_, _, name, outcome) in CASES {
            let check = checks(name, outcome);
            let told = tell(&words, &check).unwrap();
            assert_ne!(told.title, check.name);
            assert_ne!(told.text, check.cause, "{language:?} {name} {outcome} with {:?}", check.values);
            let needed = matches!(check.state, CheckState::Failed | CheckState::Warning);
            assert_eq!((told.fix.is_some(), told.commands.is_some()), (needed, needed), "{name} {outcome}");
            // A report takes remedies as they are written: what was found has no place in them.
            let fix = words.find(&format!("check.{name}.{outcome}.fix")).unwrap_or_default();
            assert!(!fix.contains("{{"), "{fix}");
            assert!(!format!("{told:?}").contains("{{"), "{told:?}");
        }
    }
}

#[test]
fn a_check_of_another_version_keeps_its_own_name() {
    let check =
        Check { name: "new".to_owned(), state: CheckState::Failed, cause: "odd".to_owned(), values: BTreeMap::new() };
    let told = tell(&Words::of(Language::English).unwrap(), &check).unwrap();
    assert_eq!((told.title.as_str(), told.text.as_str(), told.fix), ("new", "odd", None));
}

#[test]
fn a_machine_without_gpu_in_words() {
    insta::assert_snapshot!(terminal(&judge(&without_gpu()), Language::Chinese, false).unwrap());
}

#[test]
fn a_container_that_was_started_badly_in_words() {
    let mut facts = with_gpu();
    for (name, outcome) in
        [("nvidia_driver", "container"), ("shm", "default"), ("cpu_limit", "limited"), ("jupyter", "open")]
    {
        let (_, change, ..) = CASES.iter().find(|case| (case.2, case.3) == (name, outcome)).unwrap();
        change(&mut facts);
    }
    insta::assert_snapshot!(terminal(&judge(&facts), Language::English, false).unwrap());
}
