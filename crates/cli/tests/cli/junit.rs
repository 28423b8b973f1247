//! `run --junit`: the verdict of a run as one test case.

use crate::harness::Place;

/// The file, after a look at its form: every element that is opened is closed, in order.
fn read(place: &Place, file: &str) -> String {
    let text = std::fs::read_to_string(place.path().join(file)).expect("the file");
    let (head, mut rest) = text.split_once("?>").expect("a declaration");
    assert!(head.starts_with("<?xml version=\"1.0\""), "{head}");
    let mut open: Vec<&str> = Vec::new();
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, behind) = tag.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split_whitespace().next().expect("a name");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(_), _) => assert_eq!(open.pop(), Some(name), "{text}"),
            (None, true) => {}
            (None, false) => open.push(name),
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = behind;
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{text}");
    assert_eq!(text.matches("<testcase ").count(), 1, "{text}");
    text
}

#[test]
fn a_run_is_one_test_case_with_its_verdict() {
    let place = Place::new();
    place.good("run vector --set n=4096 --no-record --junit good.xml");
    let good = read(&place, "good.xml");
    assert!(good.contains("failures=\"0\" errors=\"0\"") && good.contains("name=\"vector --set n=4096\""), "{good}");
    assert!(good.contains("<property name=\"status\" value=\"ok\"/>"), "{good}");
    let ran = place.run("run fault-scope-deadlock --no-record --junit bad.xml");
    let bad = read(&place, "bad.xml");
    assert!(ran.code == Some(1) && bad.contains("errors=\"1\"") && bad.contains("type=\"ScopeDeadlock\""), "{bad}");
    // One that cannot return is told by another thread, and that writes it, too.
    let ran = place.run("run fault-hang --workers 1 --op-timeout 200ms --no-record --json --junit hung.xml");
    let hung = read(&place, "hung.xml");
    assert_eq!((ran.code, &ran.json()["status"]), (Some(1), &"hung".into()));
    assert!(hung.contains("type=\"OpTimeout\"") && hung.contains("value=\"hung\""), "{hung}");
}

#[test]
fn a_place_that_cannot_be_written_is_told() {
    let place = Place::new();
    let ran = place.run("run vector --no-record --junit none/case.xml");
    assert!(ran.code == Some(1) && ran.err.contains("none/case.xml") && ran.err.contains("--junit"), "{}", ran.err);
    assert!(ran.out.contains("verified"), "the outcome is told all the same: {}", ran.out);
}
