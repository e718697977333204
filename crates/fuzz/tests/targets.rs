//! Some thousand inputs of every target; many more by the command.

use fuzz::drive::outcome;
use fuzz::targets::Target;

#[test]
fn no_input_is_a_finding() {
    let work = || {
        for (target, inputs) in [
            (Target::Messages, 20_000),
            (Target::Frames, 20_000),
            (Target::Directory, 1_000),
            (Target::Statements, 2_000),
        ] {
            for number in 0..inputs {
                let found = outcome(target, &target.input(1, number));
                assert_eq!(found, Ok(()), "fuzz show {} 1 {number}", target.name());
            }
        }
    };
    // Nodes have such stacks.
    let thread = std::thread::Builder::new().stack_size(runtime::STACK_BYTES);
    thread.spawn(work).expect("a thread can be started").join().expect("no input is a finding");
}
