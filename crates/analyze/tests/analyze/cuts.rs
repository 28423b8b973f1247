//! A capture that was cut off or bent is never called whole.

use plimsoll_analyze::check;
use plimsoll_trace::audit;
use plimsoll_trace::synthetic::Synthetic;

#[test]
fn a_capture_cut_off_at_any_byte_or_bent_is_never_called_whole() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = Synthetic { tasks: 12, per_frame: 4, ..Synthetic::default() };
    run.write(dir.path()).expect("written");
    let file = dir.path().join("records/records.seg");
    let checked = || audit(dir.path(), &mut |_, _| {}).map(|account| check(&account));
    assert!(checked().expect("readable").sound, "it is whole");
    let bytes = std::fs::read(&file).expect("readable");
    for cut in 0..bytes.len() {
        std::fs::write(&file, &bytes[..cut]).expect("written");
        let check = checked().expect("readable");
        assert!(!check.sound, "cut at {cut} of {}: {check:?}", bytes.len());
    }
    for at in 0..bytes.len() {
        let mut bent = bytes.clone();
        bent[at] ^= 1 << (at % 8);
        std::fs::write(&file, &bent).expect("written");
        // A bent schema is refused.
        let Ok(check) = checked() else { continue };
        // A frame that says of itself that it was recovered instead of collected is there all the same.
        let all_there = check.reconcile.as_ref().is_some_and(|ledger| ledger.balanced && ledger.files_agree);
        assert!(!check.sound || all_there, "bent at {at}: {check:?}");
    }
}
