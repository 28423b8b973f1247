//! A look at the status board while its lines are written, in every order up to a bound of preemptions.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom board`.

use crate::model::explore;
use loom::sync::Arc;
use loom::thread;
use plimsoll_abi::board::Activity;
use plimsoll_abi::{AgentId, TaskId};
use plimsoll_shm::Board;

/// One thread executes a task and another looks twice: what is told is whole words of that line, counts never go back, and
/// once the writer has ended the look is exact (B1, B2).
#[test]
fn a_look_at_the_board_sees_whole_words_and_never_an_earlier_count() {
    const TASK: TaskId = TaskId::new(1, 7);
    explore(1, || {
        let board = Arc::new(Board::new(1, 0));
        let writer = {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                let line = board.agent(AgentId(0));
                line.begin(TASK.raw(), 3);
                line.end();
                line.set(Activity::Idle);
            })
        };
        let line = board.agent(AgentId(0));
        let (one, two) = (line.look(), line.look());
        for look in [one, two] {
            assert!([0, TASK.raw()].contains(&look.task) && [0, 3].contains(&look.kernel), "B2: {look:?}");
            assert!(look.begun <= 1 && look.ended <= 1, "B2: {look:?}");
        }
        assert!(one.begun <= two.begun && one.ended <= two.ended, "B1: {one:?}, then {two:?}");
        writer.join().unwrap();
        let last = line.look();
        assert_eq!((last.begun, last.ended, last.kernel, last.running()), (1, 1, 3, None));
        assert_eq!((last.task, last.activity()), (TASK.raw(), Activity::Idle));
    });
}
